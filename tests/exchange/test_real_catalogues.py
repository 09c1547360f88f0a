"""Every server of the real catalogues imports, where they are at hand; they are not part of this repository."""

import os
from pathlib import Path

import pytest
from msgspec import UNSET

from agent_resolver.exchange import Batch, merge_entries, read_sources
from agent_resolver.schema import parse_index, to_json

CATALOGUES = Path(os.environ.get("AGENT_RESOLVER_CATALOGUES", "../shared/data/servers"))

pytestmark = pytest.mark.skipif(not CATALOGUES.is_dir(), reason="the catalogues are not here")


def test_every_server_of_both_catalogues_imports() -> None:
    reading = read_sources([str(CATALOGUES / "docker"), str(CATALOGUES / "toolhive")])

    entries = [entry for file in reading.files for entry in file.imported.entries]
    assert [fault for file in reading.files for fault in file.imported.faults] == []
    assert len(entries) == 395
    for entry in entries:
        assert parse_index(to_json([entry])) == (entry,)
        assert entry.categories
        assert (entry.scopes, entry.data, entry.trust, entry.tool_scopes) == (UNSET, UNSET, UNSET, UNSET)


def test_both_catalogues_merge_into_one_index() -> None:
    folders = [str(CATALOGUES / "docker"), str(CATALOGUES / "toolhive")]
    batches = [Batch(file.path, file.imported.entries) for file in read_sources(folders).files]
    merged = merge_entries([], batches)

    assert parse_index(to_json(merged.entries)) == merged.entries
    assert merge_entries(merged.entries, batches).entries == merged.entries
    assert {conflict.fact for conflict in merged.conflicts} <= {"categories", "reach"}
