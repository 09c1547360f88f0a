"""The page of settings has every key of `agent.toml`, and says of each what the program says."""

import re
from collections.abc import Iterator

import msgspec
from msgspec import NODEFAULT, Struct, UnsetType, inspect

from agent_resolver.project import Config, Layers, load_config
from agent_resolver.schema import DECLARED_ORDER
from tests.docs.page import ROOT, prose

PAGE = ROOT / "docs" / "configuration.md"
SOURCES = ROOT / "src" / "agent_resolver"
UNREAD = "*nothing reads it yet*"


def rows() -> Iterator[tuple[str, str, str, str]]:
    """Each key of the page with its type, its default and its variable."""
    for _, line in prose(PAGE):
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| `") and "." in cells[0]:
            variable = cells[3].strip("`") if cells[3].startswith("`AGENT_") else ""
            yield cells[0].strip("`"), cells[1], cells[2], variable


def settings() -> Iterator[tuple[str, str, str, str]]:
    """The same of the program."""
    for table in msgspec.structs.fields(Config):
        if isinstance(table.default, Struct):
            for key, kind, default in keys(inspect.type_info(type(table.default))):
                yield f"{table.name}.{key}", kind, default, f"AGENT_{table.name}_{key}".upper()
        else:
            members = inspect.type_info(table.type)
            assert isinstance(members, inspect.DictType)
            name = "id" if table.name == "servers" else "name"
            for key, kind, default in keys(members.value_type):
                yield f"{table.name}.<{name}>.{key}", kind, default, ""


def keys(struct: inspect.Type) -> Iterator[tuple[str, str, str]]:
    """Each key of a table and of the tables in it, with its type and default."""
    assert isinstance(struct, inspect.StructType)
    for field in struct.fields:
        kind = without_unset(field.type)
        if isinstance(kind, inspect.VarTupleType) and isinstance(kind.item_type, inspect.StructType):
            of_item = keys(kind.item_type)
            yield from ((f"{field.encode_name}[].{key}", inner, default) for key, inner, default in of_item)
        elif isinstance(kind, inspect.StructType):
            yield from ((f"{field.encode_name}.{key}", inner, default) for key, inner, default in keys(kind))
        else:
            yield field.encode_name, words(kind), default_of(field)


def without_unset(kind: inspect.Type) -> inspect.Type:
    if isinstance(kind, inspect.UnionType):
        return next(member for member in kind.types if member != inspect.type_info(UnsetType))
    return kind


def words(kind: inspect.Type) -> str:
    match kind:
        case inspect.Metadata():
            return words(kind.type)
        case inspect.LiteralType():
            *first, last = spelled(kind)
            return f"{', '.join(first)} or {last}"
        case inspect.VarTupleType(item_type=inspect.LiteralType() as item):
            return "list of " + ", ".join(spelled(item))
        case inspect.VarTupleType():
            return "list of strings"
    names = {inspect.StrType: "string", inspect.IntType: "integer", inspect.FloatType: "number"}
    return {**names, inspect.BoolType: "boolean"}[type(kind)]


def spelled(kind: inspect.LiteralType) -> list[str]:
    values = {str(value) for value in kind.values}
    return [f"`{value}`" for value in DECLARED_ORDER.get(frozenset(values), sorted(values))]


def default_of(field: inspect.Field) -> str:
    if field.required:
        return "required"
    # What is unset has no default that can be looked at.
    return "none" if field.default is NODEFAULT else f"`{msgspec.json.encode(field.default).decode()}`"


def test_no_key_is_missing_and_each_has_its_type_its_default_and_its_variable() -> None:
    assert sorted(rows()) == sorted(settings())


def test_every_variable_is_read() -> None:
    for key, kind, _, variable in rows():
        if variable:
            samples = {"integer": "7", "boolean": "false"}
            text = samples.get(kind) or (re.split("`", kind)[1] if "`" in kind else "some,text")
            loaded = load_config(Layers(environment={variable: text}))
            assert [item.origin for item in loaded.settings if item.key == key] == [variable]


def test_a_setting_counts_as_used_once_the_program_reads_it() -> None:
    """Whoever begins to read a table that the page calls unread has to move it."""
    sources = [path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py") if path.name != "config.py"]
    read = {match for text in sources for match in re.findall(r"\bconfig\.(\w+)", text)} & set(Config.__struct_fields__)
    in_use, _, unread = PAGE.read_text(encoding="utf-8").partition("## Settings that nothing reads yet")
    told = {key.partition(".")[0] for key in re.findall(r"^\| `(\w+\.[^`]+)`", in_use, re.MULTILINE)}

    assert read == told
    assert {f"### {name.title()}" for name in Config.__struct_fields__ if name not in read} <= set(unread.splitlines())


def test_a_key_counts_as_used_once_the_program_reads_it() -> None:
    sources = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py") if path.name != "config.py")
    unread = {line.split("`")[1] for _, line in prose(PAGE) if UNREAD in line}

    assert {key for key in unread if re.search(rf"\bconfig\.{re.escape(key)}\b", sources)} == set()
    assert unread == set()
