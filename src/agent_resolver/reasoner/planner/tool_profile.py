"""The words of a tool that a request may find it by."""

from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

import msgspec
from msgspec import Struct, structs

from agent_resolver.reasoner.planner.clause import heads_of
from agent_resolver.reasoner.planner.input_field import InputField, fields_of
from agent_resolver.reasoner.planner.synonym import is_verb
from agent_resolver.reasoner.planner.word import (
    STOP_WORDS,
    singular,
    split_words,
    stem,
    stems,
)
from agent_resolver.schema.descriptor import Descriptor, Labels

_ID_WEIGHT: Final = 3.0
_LABEL_WEIGHT: Final = 1.5
_DESCRIPTION_WEIGHT: Final = 1.0
_FIELD_WEIGHT: Final = 0.5
_FIELD_TEXT_WEIGHT: Final = 0.2
_MAX_DESCRIPTION: Final = 400
_MAX_FIELD_TEXT: Final = 120
_MAX_FIELDS: Final = 100
_READ: Final = "get"


class ToolProfile(Struct, frozen=True, kw_only=True):
    """The words of one tool, by what they say about it."""

    tool: Descriptor
    fields: tuple[InputField, ...]
    weights: dict[str, float]
    """Maps each stem to how often it occurs, where a word of the id counts more than one of the description."""
    length: float
    named: frozenset[str]
    """The stems of the id, the domain, the tags and the description: what the tool is about."""
    objects: frozenset[str]
    """The stems of the things that it acts on: `comment`, but not `ticket`, for `tickets.add_comment`."""
    has_own_noun: bool
    """True if its id names the thing, and not only the action."""
    mentioned: frozenset[str]
    """The stems of the names of its inputs."""
    identified: frozenset[str]
    """The stems of the things that its required inputs identify: `invoice` for `invoice_id`."""
    verbs: tuple[str, ...]
    """The stems of what it does: the verbs of its id and the first of its description."""
    later_verbs: tuple[str, ...]
    """The verbs that its description has besides, for a tool that does several things."""

    @property
    def id(self) -> str:
        """The id of the tool."""
        return self.tool.id

    @property
    def domain(self) -> str:
        """The domain as it is declared, else the first part of the id."""
        return domain_of(self.tool)

    @property
    def things(self) -> list[str]:
        """The stems of the words for the thing that the tool is about."""
        return [*map(stem, nouns_of(self.tool))]

    @property
    def needs_id(self) -> bool:
        """True if it acts on one thing that must be named."""
        return any(field.is_required and field.is_identifier for field in self.fields)


def domain_of(tool: Descriptor) -> str:
    """The domain of a tool as it is declared, else the first part of its id."""
    return tool.labels.domain or tool.id.partition(".")[0]


def nouns_of(tool: Descriptor) -> tuple[str, ...]:
    """The words, in the singular, for the thing that a tool is about: `comment` for `tickets.add_comment`."""
    return _own_nouns(tool) or tuple(
        singular(word) for word in split_words(domain_of(tool))
    )


def _own_nouns(tool: Descriptor) -> tuple[str, ...]:
    words = [
        word
        for word in split_words(tool.id.rpartition(".")[2])
        if word not in STOP_WORDS
    ]
    # The first word is the verb wherever it can be one: `order` in `order_parts`, and
    # both in `check_order`.
    rest = words[1:] if words and is_verb(stem(words[0])) else words
    return tuple(singular(word) for word in rest)


def verbs_of(tool: Descriptor) -> tuple[str, ...]:
    """The stems of what a tool does: the verb of its id, and the first of its description."""
    return _verbs(tool, tool.description[:_MAX_DESCRIPTION])[0]


def is_read_only(tool: Descriptor) -> bool:
    """True if the tool promises to change nothing."""
    return bool((tool.hints or {}).get("readOnlyHint", False))


def profile_tool(tool: Descriptor) -> ToolProfile:
    """Collect the words of a tool."""
    # Labels come from foreign servers, so that only so many of them count.
    labels = (tool.labels.domain, tool.labels.subdomain, tool.labels.tags[:20])
    # The cache needs keys that can be hashed, which a schema is only as bytes.
    known = _profile_words(
        tool.id,
        tool.description,
        labels,
        msgspec.json.encode(tool.input_schema),
        is_read_only=is_read_only(tool),
    )
    return structs.replace(known, tool=tool)


# Each request has the same tools again, and to read a hundred of them takes longer than
# all the rest.
@lru_cache(maxsize=2048)
def _profile_words(
    name: str,
    description: str,
    labels: tuple[str, str, tuple[str, ...]],
    schema: bytes,
    *,
    is_read_only: bool,
) -> ToolProfile:
    domain, subdomain, tags = labels
    return _read_profile(
        Descriptor(
            id=name,
            description=description,
            input_schema=msgspec.json.decode(schema),
            source="",
            hints={"readOnlyHint": is_read_only},
            labels=Labels(domain=domain, subdomain=subdomain, tags=tags),
        )
    )


def _read_profile(tool: Descriptor) -> ToolProfile:
    fields = fields_of(tool.input_schema)[:_MAX_FIELDS]
    description = tool.description[:_MAX_DESCRIPTION]
    weights: dict[str, float] = {}
    labels = [domain_of(tool), tool.labels.subdomain, *tool.labels.tags[:20]]
    _count(weights, stems(tool.id), _ID_WEIGHT)
    _count(weights, stems(" ".join(labels)), _LABEL_WEIGHT)
    _count(weights, stems(description), _DESCRIPTION_WEIGHT)
    # This is taken before inputs are counted: their names do not say what the tool is
    # about.
    named = frozenset(weights)
    mentioned = stems(" ".join(field.name for field in fields))
    _count(weights, mentioned, _FIELD_WEIGHT)
    _count(
        weights,
        stems(" ".join(_field_text(field.schema) for field in fields)),
        _FIELD_TEXT_WEIGHT,
    )
    verbs, later = _verbs(tool, description)
    return ToolProfile(
        tool=tool,
        fields=fields,
        weights=weights,
        length=sum(weights.values()),
        named=named,
        objects=frozenset([*map(stem, nouns_of(tool)[-1:]), *heads_of(description)]),
        has_own_noun=bool(_own_nouns(tool)),
        mentioned=frozenset(mentioned),
        identified=frozenset(
            stem(field.noun) for field in fields if field.is_required and field.noun
        ),
        verbs=verbs,
        later_verbs=later,
    )


def _count(weights: dict[str, float], words: Iterable[str], weight: float) -> None:
    for word in words:
        weights[word] = weights.get(word, 0.0) + weight


def _field_text(schema: dict[str, Any]) -> str:
    texts = [schema.get("title", ""), schema.get("description", "")]
    return " ".join(text[:_MAX_FIELD_TEXT] for text in texts if isinstance(text, str))


def _verbs(
    tool: Descriptor, description: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The main verbs of a tool, and the further verbs of its description."""
    last = [stem(word) for word in split_words(tool.id.rpartition(".")[2])]
    words = [stem(word) for word in split_words(description)]
    # An id and a description usually begin with their verb; that of an id may also come
    # later.
    of_id = list(filter(is_verb, last[:1])) or list(filter(is_verb, last))
    verbs = dict.fromkeys([*of_id, *filter(is_verb, words[:1])])
    if not verbs and is_read_only(tool):
        verbs = {_READ: None}
    # A tool without a known verb is found by the word that its id ends with, whatever
    # that is.
    if not verbs and last:
        verbs = {last[0]: None}
    later = [
        word
        for word in _clause_starts(description)
        if is_verb(word) and word not in verbs
    ]
    return tuple(verbs), tuple(dict.fromkeys(later))


def _clause_starts(description: str) -> list[str]:
    """The words that may begin a clause of a description: those after "and", "then" or a comma."""
    marked = (
        description.replace(",", " and ").replace(";", " and ").replace(".", " and ")
    )
    words = split_words(marked)
    return [stem(word) for before, word in pairwise(words) if before in {"and", "then"}]
