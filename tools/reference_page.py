"""Common parts of the programs that write reference pages: texts from the code, tables, and `--check`."""

import argparse
import ast
import inspect
import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType

from msgspec import NODEFAULT, UnsetType, inspect as types, json

from agent_resolver.schema import DECLARED_ORDER

DOCS = Path(__file__).parents[1] / "docs"

_PARAGRAPH = re.compile(r"\s*\n\s*")
_PLAIN_TYPES: dict[type[types.Type], str] = {
    types.AnyType: "any",
    types.BoolType: "boolean",
    types.DictType: "object",
    types.EnumType: "string",
    types.FloatType: "number",
    types.IntType: "integer",
    types.NoneType: "null",
    types.StrType: "string",
}
_UNSET = types.type_info(UnsetType)


@cache
def member_texts(module: ModuleType) -> dict[str, dict[str, str]]:
    """The text below each field or member of each class of a module; below each constant, for the class ``."""
    tree = ast.parse(inspect.getsource(module))
    classes = {node.name: dict(_texts_below(node.body)) for node in tree.body if isinstance(node, ast.ClassDef)}
    return {**classes, "": dict(_texts_below(tree.body))}


def _texts_below(body: Sequence[ast.stmt]) -> Iterator[tuple[str, str]]:
    for statement, below in pairwise(body):
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                    yield name, inspect.cleandoc(str(below.value.value))


def class_text(described: type) -> str:
    """The docstring of a class, which begins a section."""
    return inspect.cleandoc(described.__doc__ or "")


def cell(text: str) -> str:
    """A text as a cell of a table."""
    return _PARAGRAPH.sub(" ", text.strip()).replace("|", "\\|")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table without the columns that are empty in every row."""
    used = [column for column in range(len(head)) if any(row[column] for row in rows)]
    lines = [[head[column] for column in used], ["---"] * len(used)]
    lines += [[row[column] for column in used] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def without_unset(kind: types.Type) -> types.Type:
    """The type that a value has if it is set."""
    if isinstance(kind, types.UnionType):
        members = tuple(member for member in kind.types if member != _UNSET)
        return members[0] if len(members) == 1 else types.UnionType(members)
    return kind


def type_words(kind: types.Type) -> str:
    """A type in words, with its bounds."""
    match kind:
        case types.Metadata():
            words = type_words(kind.type)
        case types.UnionType(types=members):
            words = " or ".join(map(type_words, members))
        case types.LiteralType():
            words = " or ".join(filter(None, [", ".join(spelled_values(kind)[:-1]), spelled_values(kind)[-1]]))
        case types.VarTupleType():
            words = _list_words(kind)
        case types.IntType(ge=int(least), le=int(most)):
            words = f"integer, {least:,} to {most:,}"
        case types.IntType(ge=int(least)):
            words = f"integer, at least {least:,}"
        case _:
            words = _PLAIN_TYPES[type(kind)]
    return words


def _list_words(kind: types.VarTupleType) -> str:
    item = kind.item_type
    items = ", ".join(spelled_values(item)) if isinstance(item, types.LiteralType) else "strings"
    least = f", at least {kind.min_length}" if kind.min_length else ""
    most = f", at most {kind.max_length}" if kind.max_length else ""
    return f"list of {items}{least}{most}"


def spelled_values(kind: types.LiteralType) -> list[str]:
    """The values of an enumeration, in the order of their declaration where that is known."""
    values = {str(value) for value in kind.values}
    return [f"`{value}`" for value in DECLARED_ORDER.get(frozenset(values), sorted(values))]


def default_words(field: types.Field) -> str:
    """The default of a field in words."""
    if field.required:
        return "required"
    if field.default_factory is not NODEFAULT:
        return f"`{json.encode(field.default_factory()).decode()}`"
    # A field that can be left unset has no default that can be looked at.
    return "none" if field.default is NODEFAULT else f"`{json.encode(field.default).decode()}`"


def write_or_check(name: str, text: str, source: str) -> int:
    """Write the page of this name, or with `--check` compare it with its source.

    Returns:
        1 if the page is out of date, else 0.
    """
    page = DOCS / name
    options = argparse.ArgumentParser(description=f"Writes docs/{name} from {source}.")
    options.add_argument("--check", action="store_true", help="write nothing, exit 1 if the page is out of date")
    if options.parse_args().check:
        is_current = page.is_file() and page.read_text(encoding="utf-8") == text
        if not is_current:
            print(f"docs/{name} is not what {source} gives")
        return int(not is_current)
    page.write_text(text, encoding="utf-8")
    return 0
