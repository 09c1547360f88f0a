"""Synonyms: verbs that ask for the same action, and nouns that name the same thing.

A request rarely uses the verb of the tool: people raise, file or log what `tickets.create` makes. Verbs of one group
stand for each other. Verbs of related groups may do so, and a person is asked, unless both only read. Verbs that are in
no common group exclude each other: no tool that creates is taken to delete something.
"""

from functools import lru_cache
from typing import Final

from agent_resolver.reasoner.planner.word import stem

_VERBS: Final = {
    "create": "create open make add new file raise register insert generate log submit enter",
    "start": "start begin launch run trigger execute",
    "write": "write draft compose author prepare",
    "post": "post publish share announce",
    "search": "find search look lookup query locate seek",
    "list": "list show display enumerate browse",
    "get": "get show fetch read retrieve view display see check inspect describe review examine",
    "update": "update change edit modify set adjust amend correct alter rename revise",
    "delete": "delete remove erase drop purge destroy discard trash wipe",
    "close": "close resolve finish complete end conclude",
    "cancel": "cancel abort stop withdraw void",
    "send": "send mail email notify message inform forward deliver tell alert dispatch",
    "assign": "assign give hand allocate delegate route reassign transfer",
    "reserve": "reserve hold book earmark",
    "schedule": "schedule plan arrange book organize organise",
    "release": "release free unreserve",
    "grant": "grant allow give permit authorize authorise",
    "revoke": "revoke withdraw remove deny",
    "deploy": "deploy ship release rollout launch install",
    "rollback": "rollback revert undo restore",
    "refund": "refund reimburse repay compensate",
    "charge": "charge bill debit",
    "pay": "pay settle",
    "approve": "approve accept confirm",
    "reject": "reject decline refuse",
    "enable": "enable activate unlock reactivate unblock unfreeze reinstate",
    "disable": "disable deactivate suspend lock block freeze",
    "restart": "restart reboot relaunch",
    "move": "move relocate transfer",
    "copy": "copy duplicate clone",
    "export": "export download",
    "import": "import upload",
    "upload": "upload attach",
    "archive": "archive",
    "translate": "translate",
    "summarize": "summarize summarise condense",
    "convert": "convert transform",
    "print": "print",
    "sign": "sign",
    "merge": "merge combine join",
    "verify": "verify validate check test",
    "count": "count",
    "invite": "invite",
    "comment": "comment reply answer respond annotate",
    "subscribe": "subscribe follow watch",
    "unsubscribe": "unsubscribe unfollow",
    "escalate": "escalate",
    "order": "order buy purchase procure",
    "reset": "reset",
    "sync": "sync synchronize synchronise",
    "backup": "backup",
    "compare": "compare diff",
    "calculate": "calculate compute estimate",
    "classify": "classify categorize categorise label tag",
    "monitor": "monitor track",
    "scale": "scale resize",
    "return": "return",
    "rotate": "rotate renew",
    "shred": "shred",
    "clean": "clean tidy",
    "call": "call phone ring",
    "cook": "cook bake brew",
    "paint": "paint draw",
    "measure": "measure weigh",
    "scan": "scan digitize digitise",
    "water": "water irrigate",
    "wash": "wash rinse iron",
    "feed": "feed",
    "repair": "repair mend fix",
    "build": "build construct assemble",
    "drive": "drive steer",
    "hire": "hire recruit",
    "sell": "sell auction",
    "teach": "teach train coach",
    "record": "record film photograph",
    "encrypt": "encrypt decrypt",
    "vote": "vote elect",
    "handle": "handle process treat",
    "perform": "perform do conduct make run execute",
}
"""The verbs of each group; a verb may be in several."""
_READING: Final = frozenset({"search", "list", "get"})
_LIGHT: Final = frozenset({"perform", "create"})
_MAKING: Final = frozenset({"create", "send", "write", "post"})
# A verb of one group may mean a tool of the other, as "remove" may mean "cancel". The
# person confirms that, unless both verbs only read.
_RELATED: Final = (
    _READING,
    frozenset({"create", "write"}),
    frozenset({"create", "schedule"}),
    frozenset({"create", "start"}),
    frozenset({"create", "invite"}),
    frozenset({"send", "post"}),
    frozenset({"send", "invite"}),
    frozenset({"delete", "cancel"}),
    frozenset({"delete", "revoke"}),
    frozenset({"close", "cancel"}),
    frozenset({"move", "assign"}),
    frozenset({"get", "monitor"}),
)
_NOUNS: Final = (
    "mail email message",
    "meeting event appointment calendar",
    "invoice bill",
    "user account person member employee colleague",
    "stock inventory item product article",
    "ticket issue case",
    "release deployment version build",
    "document doc file page",
    "order purchase",
    "customer client",
    "permission access role right",
    "note comment remark",
    "image picture photo",
    "holiday vacation leave",
)
PHRASES: Final = {
    "look up": "find",
    "look for": "find",
    "search for": "search",
    "set up": "arrange",
    "roll back": "rollback",
    "roll out": "deploy",
    "call off": "cancel",
    "get rid of": "delete",
    "sign up": "register",
    "hand over": "assign",
    "kick off": "start",
    "write to": "mail",
    "give back": "release",
    "put in": "create",
    "shut down": "stop",
    "turn off": "disable",
    "turn on": "enable",
    "switch off": "disable",
    "switch on": "enable",
    "spin up": "create",
    "pay back": "refund",
    "give me": "show",
    "show me": "show",
    "tell me": "show",
    "send out": "send",
    "take back": "undo",
    "back up": "backup",
    "clean up": "clean",
    "set aside": "reserve",
    "put aside": "reserve",
    "pass on": "share",
    "take away": "revoke",
    "throw away": "delete",
    "send over": "send",
    "hand out": "send",
    "write down": "log",
    "sort out": "resolve",
    "wrap up": "close",
    "pull up": "show",
    "bring up": "show",
    "find out": "show",
    "let go of": "release",
    "drop a line to": "mail",
    "drop a note to": "mail",
    "set free": "release",
}
"""Verbs of two or three words, each with the one that means the same."""

# Nouns as well, so that "and order 12" is not the start of a new clause unless an
# object follows.
_AMBIGUOUS_TEXT: Final = """\
mail email message book order note comment reply answer file plan release bill charge new block copy move print sign
label tag track log post share test check return hold end report watch view query call process draft import export
backup run start stop list display free right ship route
water scan iron fix build drive train coach record film feed review
"""
AMBIGUOUS: Final = frozenset(map(stem, _AMBIGUOUS_TEXT.split()))


def _index(groups: dict[str, str]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for name, words in groups.items():
        for word in words.split():
            # A stem may be that of a verb in several groups: to show something is to
            # list it or to get it.
            found.setdefault(stem(word), set()).add(name)
    return {word: frozenset(names) for word, names in found.items()}


_GROUPS_OF: Final = _index(_VERBS)
_NOUN_GROUPS_OF: Final = _index(
    {str(number): words for number, words in enumerate(_NOUNS)}
)

SAME: Final = 1.0
ALIKE: Final = 0.8
RELATED: Final = 0.4
NONE: Final = 0.0


def is_verb(word: str) -> bool:
    """True if a stem is that of a verb that the groups know."""
    return word in _GROUPS_OF


def is_reading(verb: str) -> bool:
    """True if a verb asks for something to be shown."""
    return bool(_GROUPS_OF.get(verb, frozenset()) & _READING)


def is_listing(verb: str) -> bool:
    """True if a verb asks for several things to be shown."""
    return bool(_GROUPS_OF.get(verb, frozenset()) & {"list", "search"})


def is_light(verb: str) -> bool:
    """True for a verb that leaves it to its object what to do: "make a reservation"."""
    return bool(_GROUPS_OF.get(verb, frozenset()) & _LIGHT)


def makes_noun(verb: str) -> bool:
    """True for the verb that turns a noun into an action: to comment is to add a comment, to mail to send a mail."""
    return bool(_GROUPS_OF.get(verb, frozenset()) & _MAKING)


def verb_groups(verb: str) -> frozenset[str]:
    """The groups that the stem of a verb is in."""
    return _GROUPS_OF.get(verb, frozenset())


@lru_cache(maxsize=8192)
def verb_likeness(first: str, second: str) -> float:
    """The likeness of the actions that two stems of verbs ask for: 1 for the same verb, 0 for actions that differ."""
    if first == second:
        return SAME
    groups = _GROUPS_OF.get(first, frozenset())
    others = _GROUPS_OF.get(second, frozenset())
    if groups & others:
        return ALIKE
    is_related = any(groups & related and others & related for related in _RELATED)
    return RELATED if is_related else NONE


@lru_cache(maxsize=8192)
def noun_synonyms(noun: str) -> tuple[str, ...]:
    """The stems of other nouns for the same thing, sorted."""
    groups = _NOUN_GROUPS_OF.get(noun, frozenset())
    return tuple(
        sorted(
            other
            for other, names in _NOUN_GROUPS_OF.items()
            if names & groups and other != noun
        )
    )
