"""A JSON index may be written in many ways: the compiled form and the cache read each as the JSON reader does."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from agent_resolver.project import open_index as opening
from agent_resolver.project.compiled_index import CompiledIndex
from agent_resolver.project.index_build import build_index
from agent_resolver.project.index_cache_writer import write_cache
from agent_resolver.project.open_index import OpenIndex, open_index
from agent_resolver.schema.errors import InvalidIndex
from tests.index_files import agent_asking, document_of
from tests.storage.test_index_file import NEEDS, everything, many

ENTRIES = [
    {**document_of(server), "description": 'é😀 "q" \\ \u2028' * number} for number, server in enumerate(many(6))
]
PRETTY = json.dumps(ENTRIES, indent=3, ensure_ascii=False).encode()
ONE_LINE = json.dumps(ENTRIES).encode()
MARK = b"\xef\xbb\xbf"
VALID = {
    "on many lines": PRETTY,
    "with a byte order mark": MARK + PRETTY,
    "with carriage returns and line feeds": MARK + PRETTY.replace(b"\n", b"\r\n"),
    "with carriage returns": PRETTY.replace(b"\n", b"\r"),
    "on one line": ONE_LINE,
    "with space around": b" \n\t" + ONE_LINE + b"\n\n",
    "as an object": MARK + json.dumps({"servers": ENTRIES}, indent=1).encode().replace(b"\n", b"\r\n"),
    "as an object with the entries twice": json.dumps({"note": ENTRIES, "servers": ENTRIES}).encode(),
    "with an entry in an entry": json.dumps([{**ENTRIES[0], "x": ENTRIES[1]}, ENTRIES[1]]).encode(),
    "with escapes in ids": ONE_LINE.replace(b"server-00000", rb"server\u002d00000"),
    "without categories and scopes": json.dumps(
        [{**ENTRIES[0], "categories": []}, {**ENTRIES[1], "scopes": []}]
    ).encode(),
    "with a category twice": json.dumps([{**ENTRIES[0], "categories": ["c", "c"], "scopes": ["s", "s"]}]).encode(),
    "with a number beyond all": ONE_LINE.replace(b'"id"', b'"big": 1e400, "id"'),
    "without servers": b"[]",
}
INVALID = {
    "a key twice": b'{"servers": [], "servers": ' + ONE_LINE + b"}",
    "a NUL in a category": json.dumps([{**ENTRIES[0], "categories": ["a\0b"]}]).encode(),
    "half a surrogate pair": ONE_LINE.replace(b'"reporting"', rb'"\ud800"'),
    "UTF-16": ONE_LINE.decode().encode("utf-16"),
    "Latin-1": json.dumps([{**ENTRIES[0], "categories": ["é"]}], ensure_ascii=False).encode("latin-1"),
    "a server twice": json.dumps([ENTRIES[0], ENTRIES[0]]).encode(),
    "an empty scope": json.dumps([{**ENTRIES[0], "scopes": [""]}]).encode(),
}


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setattr(opening, "LARGE", 0)
    return {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "AGENT_INDEX_CACHE": "true"}


def answers(index: OpenIndex) -> list[Any]:
    """All that an index says, places included."""
    servers = [*index.servers]
    places = {key: (str(at.tree), at.path) for key, at in index.entries_at(servers).items()}
    return [everything(agent_asking(NEEDS), index.servers), places, sorted(map(str, index.each())), index.digest]


@pytest.mark.parametrize("raw", VALID.values(), ids=VALID.keys())
def test_each_way_to_write_it_has_one_answer(tmp_path: Path, environment: dict[str, str], raw: bytes) -> None:
    source, compiled = tmp_path / "mcp.index.json", tmp_path / "mcp.index.db"
    source.write_bytes(raw)
    as_json = answers(open_index(str(source)))
    build_index([str(source)], str(compiled), environment)
    assert write_cache(str(source), environment)
    with_cache = open_index(str(source), environment)

    assert isinstance(with_cache, CompiledIndex)
    assert answers(with_cache) == as_json
    assert answers(open_index(str(compiled))) == as_json


@pytest.mark.parametrize("raw", INVALID.values(), ids=INVALID.keys())
def test_what_the_json_reader_refuses_is_never_compiled(
    tmp_path: Path, environment: dict[str, str], raw: bytes
) -> None:
    source, compiled = tmp_path / "mcp.index.json", tmp_path / "mcp.index.db"
    source.write_bytes(raw)

    with pytest.raises(InvalidIndex):
        build_index([str(source)], str(compiled), environment)
    with pytest.raises(InvalidIndex):
        write_cache(str(source), environment)
    assert not compiled.exists()
    with pytest.raises(InvalidIndex):
        open_index(str(source), environment)
