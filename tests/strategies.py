"""Documents for properties: right ones, and ones that were right until something happened to them."""

import json
from collections.abc import Iterator
from typing import Any, TypeVar, get_args

import yaml
from hypothesis import HealthCheck, settings, strategies as st

from agent_resolver.schema import Residency, Sensitivity

Value = TypeVar("Value")


def law(examples: int) -> settings:
    """Settings of a property that is tried on so many examples, or on the share of them that the profile asks for.

    The profile of `make test` asks for fewer than the 100 that Hypothesis has by default; `make slow` tries all.
    Nothing is timed: a busy machine is no fault of the code.
    """
    share = settings().max_examples / 100
    return settings(max_examples=round(examples * share), deadline=None, suppress_health_check=[HealthCheck.too_slow])


FEW = law(100)
MANY = law(300)


class Pairs(list[tuple[str, Any]]):
    """An object as it is written: a key may stand there twice."""


class Verbatim(str):
    """A value that is written as it is, right or wrong."""

    __slots__ = ()


# Right documents ------------------------------------------------------------------------------------------------------

_NAMES = st.text("abcxyz019-._:/ é😀", min_size=1, max_size=6)
_RESIDENCIES = st.sampled_from(get_args(Residency))
_SENSITIVITIES = st.sampled_from(get_args(Sensitivity))


def _lists(values: st.SearchStrategy[Value], *, least: int = 0) -> st.SearchStrategy[list[Value]]:
    return st.lists(values, min_size=least, max_size=2)


def _objects(required: dict[str, st.SearchStrategy[Any]], **optional: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(required, optional=optional)


_LAUNCHES = _objects(
    {"command": _NAMES},
    args=_lists(_NAMES | st.just("")),
    env=_lists(_NAMES),
    transport=st.sampled_from(["stdio", "streamable-http"]),
)
_SERVERS = _objects(
    {
        "id": _NAMES,
        "endpoint": _NAMES,
        "categories": _lists(_NAMES),
    },
    version=st.sampled_from(["1.0.0", "2.0.0", "1"]),
    scopes=_lists(_NAMES),
    data=_objects({}, residency=_lists(_RESIDENCIES), maxSensitivity=_SENSITIVITIES),
    trust=_objects({}, signed=st.booleans(), publisher=_NAMES | st.just("")),
    name=_NAMES,
    description=_NAMES | st.just(""),
    transport=st.sampled_from(["streamable-http", "sse"]),
    status=st.sampled_from(["active", "deprecated", "deleted"]),
    tools=st.dictionaries(_NAMES, _NAMES, max_size=2),
    drafted=_lists(_NAMES),
    source=_NAMES,
    policy=_objects({}, rateLimitPerMin=st.integers(-1, 10**20) | st.floats(-1e9, 1e300)),
    toolScopes=st.dictionaries(_NAMES, _lists(_NAMES), max_size=2),
)
_STARTED_SERVERS = st.tuples(_SERVERS, _LAUNCHES).map(
    lambda pair: {key: value for key, value in pair[0].items() if key != "endpoint"} | {"launch": pair[1]}
)


def indexes() -> st.SearchStrategy[list[Any]]:
    """Indexes that follow the schema."""
    servers = _SERVERS | _STARTED_SERVERS
    return st.lists(servers, min_size=1, max_size=3, unique_by=lambda server: (server["id"], server.get("version")))


def agents() -> st.SearchStrategy[dict[str, Any]]:
    """Front matter that follows the schema."""
    requirement = _objects({"category": _NAMES, "permissions": _lists(_NAMES, least=1)})
    return _objects(
        {"name": _NAMES, "version": _NAMES, "requires": _objects({"mcp": _lists(requirement, least=1)})},
        description=_NAMES,
        constraints=_objects(
            {},
            data=_objects({}, residency=_RESIDENCIES, sensitivity=_SENSITIVITIES),
            actions=_objects({}, forbid=_lists(_NAMES)),
            trust=_objects({}, requireSigned=st.booleans()),
        ),
        trust=_objects({}, requireSigned=st.booleans()),
    ).filter(_agrees_on_signed_servers)


def _agrees_on_signed_servers(document: dict[str, Any]) -> bool:
    rules = (document.get("trust", {}), document.get("constraints", {}).get("trust", {}))
    return len({rule["requireSigned"] for rule in rules if rule}) <= 1


# What happens to them -------------------------------------------------------------------------------------------------

_ODD_TEXTS = st.sampled_from(["", *'@,[}"\\\x00\x7f\x80\u2028\ufeff', "a|b", "a\x1fb", '":', ": ", "\\u0041"])
_ODD_VALUES = st.sampled_from([None, True, 0, -1.5, 10**400, 1e308, [], {}, [None], {"a": 1}, "1.0", "eu-onlyy"])
_NESTED_VALUES = st.tuples(st.sampled_from([1, 2, 40, 55, 60, 62, 70]), st.sampled_from(["[]", "{}", "[{}]"])).map(
    lambda pair: nested(*pair)
)
_NOT_JSON = st.sampled_from(
    [*"+-:,]}", "NaN", "-Infinity", "01", "1.", "0x1F", "1e999", "nul", "'a'", '"\\q"', '"\\ud800"', '"\\ude00\\ud83d"']
).map(Verbatim)
_STRANGERS = _ODD_TEXTS | _ODD_VALUES | _NESTED_VALUES | _ODD_VALUES | _NOT_JSON


def nested(levels: int, brackets: str) -> Verbatim:
    """So many brackets inside each other, of one kind or of two in turn."""
    kinds = [brackets[step % (len(brackets) // 2)] for step in range(levels)]
    opening = "".join('{"a":' if kind == "{" else "[" for kind in kinds)
    return Verbatim(opening + "0" + "".join("}" if kind == "{" else "]" for kind in reversed(kinds)))


def pairs(value: Any) -> Any:
    """The value with every object as the pairs it is written as."""
    if isinstance(value, dict):
        return Pairs((key, pairs(member)) for key, member in value.items())
    return [pairs(member) for member in value] if isinstance(value, list) else value


def _containers(value: Any) -> Iterator[list[Any]]:
    if isinstance(value, list):
        if value:
            yield value
        for member in value:
            yield from _containers(member[1] if isinstance(value, Pairs) else member)


def _disturb(draw: st.DrawFn, document: list[Any]) -> None:
    """One thing goes wrong, or only odd, somewhere in `document`."""
    container = draw(st.sampled_from([*_containers(document)]))
    position = draw(st.integers(0, len(container) - 1))
    key, value = container[position] if isinstance(container, Pairs) else ("", container[position])
    match draw(st.sampled_from(["inject", "inject", "replace", "repeat", "drop", "rename", "add"])):
        case "drop":
            del container[position]
            return
        case "repeat":
            container.append(container[position])
            return
        case "replace":
            value = draw(_STRANGERS)
        case "inject" if isinstance(value, str):
            value = value + draw(_ODD_TEXTS)
        case "rename":
            key = draw(st.sampled_from([key[:-1], key + "s", key.upper(), "endpoint", "launch", "policy"]))
        case _ if isinstance(container, Pairs):
            container.append(
                (
                    draw(st.sampled_from(["x", "toolScopes", "policy", "", "residency", "data", "trust"])),
                    pairs(draw(_STRANGERS)),
                )
            )
    container[position] = (key, pairs(value)) if isinstance(container, Pairs) else pairs(value)


@st.composite
def disturbed(draw: st.DrawFn, documents: st.SearchStrategy[Any]) -> Any:
    """Documents of which up to three things were changed, objects as `Pairs`."""
    document = pairs(draw(documents))
    for _ in range(draw(st.integers(0, 3))):
        if any(_containers(document)):
            _disturb(draw, document)
    return document


def written(value: Any, colon: str = ": ", comma: str = ", ", *, ascii_only: bool = False) -> str:
    """The JSON text of a value whose objects are `Pairs`."""

    def inner(value: Any) -> str:
        match value:
            case Pairs():
                return "{" + comma.join(f"{inner(key)}{colon}{inner(member)}" for key, member in value) + "}"
            case list():
                return "[" + comma.join(map(inner, value)) + "]"
            case Verbatim():
                return value
        return json.dumps(value, ensure_ascii=ascii_only)

    return inner(value)


_FRAGMENTS = [
    *(b" ", b"\n", b"\r", b"\t", b'"', b"\\", b",", b":", b"{", b"}", b"[", b"]", b"@", b"|", b"0", b"-", b"1e9", b"#"),
    *(b"\x00", b"\x01", b"\x7f", b"\xe9", b"\xff\xfe", b"\xed\xa0\x80", b"\xef\xbb\xbf", "\u2028\x85".encode()),
    *(b"NaN", b"null", b"\\ud800", b"\\u0041", b"\\n", b"//", b"---\n", b"...\n", b"&a ", b"*a", b"!!str ", b"%", b"'"),
]


def _edit(draw: st.DrawFn, raw: bytes) -> bytes:
    """One edit of a text: something put in, cut out, or spelled another way."""
    at = draw(st.integers(0, len(raw)))
    match draw(st.sampled_from(["insert", "cut", "escape", "space"])):
        case "insert":
            return raw[:at] + draw(st.sampled_from(_FRAGMENTS)) + raw[at:]
        case "cut":
            return raw[:at] + raw[at + draw(st.integers(1, 8)) :]
        case "escape":
            return raw[:at] + b"\\u%04x" % raw[at] + raw[at + 1 :] if raw[at : at + 1].isalpha() else raw
    colon = raw.find(b":", at)
    return raw[:colon] + draw(st.sampled_from([b" ", b"\n\t"])) + raw[colon:] if colon >= 0 else raw


@st.composite
def edited(draw: st.DrawFn, texts: st.SearchStrategy[bytes]) -> bytes:
    """Texts with up to three edits, and now and then a byte order mark or two."""
    raw = draw(texts)
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 1, 3]))):
        raw = _edit(draw, raw)
    return draw(st.sampled_from([b"", b"", b"", b"\xef\xbb\xbf", b"\xef\xbb\xbf\xef\xbb\xbf"])) + raw


@st.composite
def json_texts(draw: st.DrawFn, documents: st.SearchStrategy[Any]) -> bytes:
    """Documents as JSON, spaced and escaped one way or another."""
    colon = draw(st.sampled_from([":", ": ", " : ", "\n:\t"]))
    comma = draw(st.sampled_from([",", ", ", "\r\n, "]))
    return written(draw(documents), colon, comma, ascii_only=draw(st.booleans())).encode()


def index_texts() -> st.SearchStrategy[bytes]:
    """Index files, right and wrong."""
    texts = json_texts(disturbed(indexes()))
    return texts | edited(texts)


def agent_texts() -> st.SearchStrategy[bytes]:
    """Agent files, right and wrong; the front matter is written as JSON, which is YAML too, or as YAML."""
    as_json = json_texts(disturbed(agents()))
    as_yaml = agents().map(lambda agent: yaml.safe_dump(agent, allow_unicode=True).encode())
    return edited((as_json | as_yaml).map(lambda front_matter: b"---\n" + front_matter + b"\n---\n\n# Body\n"))
