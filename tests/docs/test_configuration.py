"""The page of settings, which is generated, has every key of `agent.toml`, and says what the program does with it."""

import re
from collections.abc import Iterator

import msgspec
import pytest
from msgspec import Struct

from agent_resolver.project import Config, InvalidConfig, Layers, load_config
from tests.docs.page import ROOT, prose

PAGE = ROOT / "docs" / "settings.md"
SOURCES = ROOT / "src" / "agent_resolver"
UNREAD = "Nothing reads this table yet."


class Row(Struct, frozen=True):
    """One key of the page."""

    key: str
    type: str
    default: str
    variable: str
    meaning: str


def rows() -> Iterator[Row]:
    for _, line in prose(PAGE):
        if line.startswith("| `"):
            key, kind, default, *variable, meaning = (cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|")))
            yield Row(key.strip("`"), kind, default, "".join(variable).strip("`"), meaning)


def test_every_key_with_a_default_has_its_row() -> None:
    shown = {row.key: row.default for row in rows() if "<" not in row.key}

    assert shown == {
        setting.key: "none" if setting.value is None else f"`{msgspec.json.encode(setting.value).decode()}`"
        for setting in load_config(Layers()).settings
    }


def test_every_key_of_a_table_with_names_has_its_row() -> None:
    schema = msgspec.json.schema(Config)["$defs"]
    shown = {row.key.rpartition(".")[2] for row in rows()}
    tables = {"data", "members", "modalities", "oauth", "prices", "switch"}

    assert {key for name in schema for key in schema[name]["properties"]} - shown == {
        *(name for name in Config.__struct_fields__ if name not in shown),
        *tables,
    }


def test_every_key_has_a_meaning() -> None:
    assert [row.key for row in rows() if not row.meaning.endswith(".")] == []


def test_every_variable_is_read() -> None:
    for row in rows():
        if row.variable:
            samples = {"integer": "7", "boolean": "false"}
            text = samples.get(row.type.partition(",")[0])
            text = text or (re.split("`", row.type)[1] if "`" in row.type else "some,text")
            loaded = load_config(Layers(environment={row.variable: text}))
            assert [item.origin for item in loaded.settings if item.key == row.key] == [row.variable]


def test_every_bound_is_kept() -> None:
    bounded = [(row.variable, re.findall(r"[\d,]+\d|\d", row.type)) for row in rows() if "integer," in row.type]

    assert len([variable for variable, _ in bounded if variable]) == 3
    for variable, bounds in bounded:
        if variable:
            least, *most = (int(bound.replace(",", "")) for bound in bounds)
            for value in (least - 1, *(each + 1 for each in most)):
                with pytest.raises(InvalidConfig):
                    load_config(Layers(environment={variable: str(value)}))
            for value in (least, *most):
                load_config(Layers(environment={variable: str(value)}))


def test_a_table_is_called_unread_until_the_program_reads_it() -> None:
    sources = [path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py") if path.name != "config.py"]
    read = {match for text in sources for match in re.findall(r"\bconfig\.(\w+)", text)} & set(Config.__struct_fields__)
    parts = re.split(r"^## (\w+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))

    assert sections.keys() == {name.title() for name in Config.__struct_fields__}
    assert {name for name in Config.__struct_fields__ if UNREAD in sections[name.title()]} == {
        name for name in Config.__struct_fields__ if name not in read
    }
