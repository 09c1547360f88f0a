"""What the properties of `core` are tried on: small agent files and indexes, with names that invite mistakes."""

from collections.abc import Sequence
from itertools import product
from typing import TypeVar, get_args

from hypothesis import strategies as st
from msgspec import UNSET, Struct, structs

from agent_resolver import AgentFile, Server
from agent_resolver.schema import (
    ActionConstraints,
    Constraints,
    DataConstraints,
    Launch,
    Requirement,
    Requires,
    Residency,
    Sensitivity,
    TrustConstraints,
)
from tests.strategies import law

RESIDENCIES: tuple[Residency, ...] = get_args(Residency)
SENSITIVITIES: tuple[Sensitivity, ...] = get_args(Sensitivity)
CATEGORIES = ("reporting", "analytics", '"rejected": [')
SCOPES = ("read:reports", "write:reports", "read:metrics", "é", "\U0001f600")

Value = TypeVar("Value")

# A busy machine is no fault of the code: nothing here is timed.
LAW = law(60)


class Case(Struct, frozen=True):
    """An agent file, and servers with an id and version that no other has."""

    agent: AgentFile
    servers: tuple[Server, ...]


# Pairs that locales, UTF-16, natural order or normalisation would put the other way round, and text that looks like
# the JSON around it.
TREACHEROUS = (
    "acme-a",
    "acme_a",
    "acme-A",
    "Acme-b",
    "é",
    "e\u0301",
    "s",
    "ß",
    "\uff5e",
    "\U0001f600",
    "10.0.0",
    "9.0.0",
    "1.0.0",
    "1.0.0-rc.1",
    '"rejected": []',
    '"requirements": []',
    '\\"rejected\\": [',
    "\\",
    '"',
    "'",
    "}",
    "\u2028",
    " ",
)


def text(refused: str = "") -> st.SearchStrategy[str]:
    """Text that input files accept: not empty, without control characters."""
    characters = st.characters(exclude_categories=("Cs", "Cc"), exclude_characters=refused)
    return st.sampled_from(TREACHEROUS) | st.text(characters, min_size=1, max_size=8)


identifiers = text("@|,")


def lists(elements: st.SearchStrategy[str]) -> st.SearchStrategy[tuple[str, ...]]:
    """Lists with repetitions, in any order."""
    return st.lists(elements, max_size=4).map(tuple)


def arranged(values: tuple[Value, ...], most: int) -> list[tuple[Value, ...]]:
    """Every arrangement of up to `most` of the values, repetitions included; one draw instead of many."""
    return [chosen for size in range(most + 1) for chosen in product(values, repeat=size)]


def shuffled(data: st.DataObject, values: Sequence[Value]) -> tuple[Value, ...]:
    """The values in an order that is drawn."""
    return tuple(data.draw(st.permutations(values)))


# Servers often offer everything, so that rules further down the list decide. What comes first is drawn most.
OFFERED_CATEGORIES = [*[CATEGORIES] * 20, *arranged(CATEGORIES, 2)]
OFFERED_SCOPES = [*[SCOPES] * 40, *arranged(SCOPES, 2), None]
OFFERED_RESIDENCIES = [*arranged(RESIDENCIES, 2)[::-1], None]
ASKED_SCOPES = arranged(SCOPES, 3)[1:]

servers = st.builds(
    Server,
    id=identifiers,
    version=identifiers,
    endpoint=text("|"),
    categories=st.sampled_from(OFFERED_CATEGORIES),
    scopes=st.sampled_from(OFFERED_SCOPES),
    residency=st.sampled_from(OFFERED_RESIDENCIES),
    max_sensitivity=st.sampled_from((None, *SENSITIVITIES)),
    signed=st.sampled_from((None, False, True)),
    status=st.sampled_from(("active", "active", "active", "deprecated", "deleted")),
)

launches = st.builds(
    Launch,
    command=text(),
    args=lists(text()),
    env=lists(text("=")),
    transport=st.sampled_from(("stdio", "streamable-http")),
)


@st.composite
def perfect_servers(draw: st.DrawFn) -> Server:
    """A server that every requirement accepts where nothing is forbidden; it may be launched, or have a tool map."""
    launch = draw(st.none() | launches)
    return structs.replace(
        draw(servers),
        categories=CATEGORIES,
        scopes=SCOPES,
        residency=("any",),
        max_sensitivity="pii.high",
        signed=True,
        status="active",
        launch=launch,
        tool_scopes=draw(st.none() | st.dictionaries(text(), lists(identifiers), max_size=3)),
        tools=draw(st.none() | st.dictionaries(text(), text(), max_size=3)),
        transport=draw(st.sampled_from(("streamable-http", "sse"))),
        **({"endpoint": ""} if launch else {}),
    )


requirements = st.builds(Requirement, category=st.sampled_from(CATEGORIES), permissions=st.sampled_from(ASKED_SCOPES))
patterns = st.sampled_from(
    (
        "*",
        "read:*",
        "*:reports",
        "re*r*s",
        "delete:*",
        "write:reports",
        "é",
        "e\u0301",
        "*\U0001f600*",
        "read:report",
        "**:**",
    )
)
absent = st.just(UNSET)
data_constraints = st.builds(
    DataConstraints,
    residency=st.sampled_from((UNSET, *RESIDENCIES)),
    sensitivity=st.sampled_from((UNSET, *SENSITIVITIES)),
)
action_constraints = st.builds(ActionConstraints, forbid=absent | st.lists(patterns, max_size=2).map(tuple))
trust_constraints = st.builds(TrustConstraints, require_signed=st.sampled_from((UNSET, False, True)))
# A strategy that stands there twice is drawn twice as often.
constraints = st.builds(
    Constraints,
    data=st.one_of(absent, data_constraints, data_constraints),
    actions=st.one_of(absent, absent, action_constraints),
    trust=st.one_of(absent, trust_constraints),
)
agent_files = st.builds(
    AgentFile,
    name=text(),
    version=text(),
    requires=st.builds(Requires, mcp=st.lists(requirements, min_size=1, max_size=4).map(tuple)),
    constraints=st.one_of(absent, constraints, constraints, constraints),
    trust=st.one_of(absent, absent, trust_constraints),
)


def forbidding(agent: AgentFile, forbid: tuple[str, ...]) -> AgentFile:
    """The same agent file with these patterns under `constraints.actions.forbid`."""
    constrained = agent.constraints or Constraints()
    return structs.replace(agent, constraints=structs.replace(constrained, actions=ActionConstraints(forbid=forbid)))


def distinct(each: st.SearchStrategy[Server]) -> st.SearchStrategy[tuple[Server, ...]]:
    """Servers in any order, no two with the same id and version."""
    return st.sampled_from((2, 4, 6, 1, 0)).flatmap(
        lambda size: st.lists(
            each, min_size=size, max_size=size, unique_by=lambda server: (server.id, server.version)
        ).map(tuple)
    )


cases = st.builds(Case, agent_files, distinct(servers))


@st.composite
def solvable_cases(draw: st.DrawFn) -> Case:
    """A case that has a lock: nothing is forbidden, and one server accepts everything."""
    perfect = draw(perfect_servers())
    others = draw(distinct(servers | perfect_servers()))
    offered = [server for server in others if (server.id, server.version) != (perfect.id, perfect.version)]
    return Case(forbidding(draw(agent_files), ()), tuple(draw(st.permutations([perfect, *offered]))))


# What people get wrong: a slip in a word, a constraint too many, a scope that nobody has. What stands there more often
# is drawn more often; most of it is right, or nothing but the first rule would ever be broken.
RIGHT_SCOPES = ("read:reports", "write:reports", "read:metrics")
WRITTEN_CATEGORIES = (*["reporting"] * 6, *["analytics"] * 3, "reportin", "Analytics", "nothing alike")
WRITTEN_SCOPES = (*RIGHT_SCOPES * 4, "read:report", "Read.Reports", "wirte:reports", "admin:reports")

narrow_servers = st.builds(
    Server,
    id=st.sampled_from(("acme", "beta", "gamma", "delta")),
    version=st.sampled_from(("1.0.0", "2.0.0")),
    endpoint=st.just("https://mcp.example"),
    categories=st.sampled_from((("reporting", "analytics"), ("reporting",), ("analytics",))),
    scopes=st.sampled_from([*[RIGHT_SCOPES] * 20, *arranged(RIGHT_SCOPES, 2)[1:]]),
    residency=st.sampled_from((("us-only",), ("us-only",), ("any",), ("eu-only",), ("us-only", "eu-only"), (), None)),
    max_sensitivity=st.sampled_from(("internal", "pii.low", "pii.high", "pii.high", "public", None)),
    signed=st.sampled_from((False, True, False, True, None)),
)
narrow_constraints = st.builds(
    Constraints,
    data=st.builds(
        DataConstraints,
        residency=st.sampled_from((UNSET, "eu-only", "eu-only", "us-only", "any")),
        sensitivity=st.sampled_from((UNSET, UNSET, "confidential", "pii.low", "pii.high")),
    ),
    actions=st.builds(
        ActionConstraints,
        forbid=st.sampled_from((UNSET, (), *arranged(("write:*", "read:reports", "*:reports", "*"), 2)[1::3])),
    ),
    trust=trust_constraints,
)
narrow_requirements = st.builds(
    Requirement,
    category=st.sampled_from(WRITTEN_CATEGORIES),
    permissions=st.lists(st.sampled_from(WRITTEN_SCOPES), min_size=1, max_size=3).map(tuple),
)
narrow_agents = st.builds(
    AgentFile,
    name=st.just("reporter"),
    version=st.just("1.0.0"),
    requires=st.builds(Requires, mcp=st.lists(narrow_requirements, min_size=1, max_size=3).map(tuple)),
    constraints=st.one_of(narrow_constraints, narrow_constraints, absent),
)
narrow_cases = st.builds(Case, narrow_agents, distinct(narrow_servers))
"""Cases that often fail, and nearly do not."""
