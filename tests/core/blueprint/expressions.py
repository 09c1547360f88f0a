"""Expressions, templates and scopes for properties."""

from typing import Any

from hypothesis import strategies as st

NAMES = ("a", "b", "t", "x")
SCALARS: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4)
)
JSON: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES) | st.text(), inner, max_size=3),
    max_leaves=8,
)
SCOPES: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "input": JSON,
        "steps": st.dictionaries(st.sampled_from(["a", "b"]), JSON),
        "item": JSON,
        "index": st.integers(0, 10),
        "run": JSON,
        "result": JSON,
    },
)

_ROOTS = st.sampled_from(["input", "steps.a", 'steps["b"]', "item", "index", "run", "run.id", "result"])
_MEMBERS = st.lists(
    st.sampled_from([".a", ".b", ".t", '["x"]', "['__class__']", "[0]", "[-1]", "[1]", "[9999999999]"]), max_size=3
)
PATHS = st.tuples(_ROOTS, _MEMBERS).map(lambda parts: parts[0] + ("" if parts[0] == "run" else "".join(parts[1])))
_LITERALS = st.sampled_from(["null", "true", "false", "0", "-1", "1.0", "1e3", "'a'", '"b}"', "'it\\'s'", "''"])


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Expressions made of others, each of which is put in parentheses where the grammar may ask for it."""
    wrapped = inner.map(lambda text: f"({text})")
    signs = st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "&&", "||", "??"])
    return (
        st.tuples(wrapped, signs, wrapped).map(" ".join)
        | st.tuples(wrapped, wrapped, inner).map(lambda parts: f"{parts[0]} ? {parts[1]} : {parts[2]}")
        | wrapped.map(lambda text: f"!{text}")
        | st.tuples(st.sampled_from(["length", "text", "has", "unchecked"]), inner).map(
            lambda parts: f"{parts[0]}({parts[1]})"
        )
    )


EXPRESSIONS = st.recursive(PATHS | _LITERALS, _larger, max_leaves=5)

_TEXTS = (
    EXPRESSIONS.map(lambda text: f"${{{text}}}")
    | st.tuples(EXPRESSIONS, EXPRESSIONS).map(lambda pair: f"<${{{pair[0]}}}$${{{{${{ {pair[1]} }}>")
    | st.sampled_from(["", "plain", "$${", "$", "}"])
)
TEMPLATES: st.SearchStrategy[Any] = st.recursive(
    _TEXTS | st.sampled_from([None, True, 0, 1.5]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=4,
)
