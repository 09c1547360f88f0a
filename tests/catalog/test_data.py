"""Agent files as people have published them, where they are at hand; and very many at once."""

from pathlib import Path

import pytest

from agent_resolver.catalog import parse_uri
from tests.catalog.conftest import Make, uris

DATA = Path(__file__).parents[3] / "shared" / "data" / "agents"


@pytest.mark.skipif(not DATA.is_dir(), reason="the published agent files are not at hand")
def test_every_published_agent_file_is_served(make: Make) -> None:
    catalog = make(DATA)
    files = {path.read_bytes() for path in DATA.rglob("*.md")}

    assert catalog.total == len(uris(catalog)) == 273
    assert {catalog.definition(parse_uri(uri)).raw for uri in uris(catalog)} == files
    assert {found.issue.code.value for found in catalog.findings()} == {"name-clash"}
