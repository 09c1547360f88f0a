"""Index files for tests: servers as JSON, and the same compiled."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from agent_resolver import AgentFile, Server, parse_index, servers_of
from agent_resolver.project.compiled_index import CompiledIndex, open_compiled
from agent_resolver.schema.agent_file import Requirement, Requires
from agent_resolver.storage.index_file.layout import SourceFile, salt_of
from agent_resolver.storage.index_file.reader import IndexTables
from agent_resolver.storage.index_file.writer import BuiltFrom, write_index_file


def document_of(server: Server) -> dict[str, Any]:
    """The entry that states a server."""
    stated = {
        "id": server.id,
        "version": server.version,
        "endpoint": server.endpoint or None,
        "categories": server.categories,
        "scopes": server.scopes,
        "data": _stated(residency=server.residency, maxSensitivity=server.max_sensitivity),
        "trust": _stated(signed=server.signed, publisher=server.publisher),
        "launch": server.launch,
        "toolScopes": server.tool_scopes,
        "tools": server.tools,
        "transport": server.transport,
        "status": server.status,
    }
    return _stated(**stated)


def _stated(**values: object) -> dict[str, object]:
    return {key: value for key, value in values.items() if value is not None}


def index_bytes(servers: Sequence[Server]) -> bytes:
    """The JSON index that states these servers."""
    return msgspec.json.format(msgspec.json.encode(list(map(document_of, servers))), indent=2)


def compile_bytes(raw: bytes, path: str) -> None:
    """Compile a JSON index with this content to `path`."""
    file = SourceFile(path="mcp.index.json", size=len(raw), sha256=sha256(raw).hexdigest())
    source = BuiltFrom(file=file, raw=raw, servers=servers_of(parse_index(raw)), overlay=None)
    write_index_file(path, [source])


@contextmanager
def compiled(raw: bytes) -> Iterator[CompiledIndex]:
    """A JSON index with this content, compiled, for as long as the test needs it."""
    with TemporaryDirectory() as folder:
        path = f"{folder}/mcp.index.db"
        compile_bytes(raw, path)
        yield open_compiled(path, None)


def salt_in(path: Path) -> int:
    """The salt of a compiled index, which a program that makes a file that lies can work out too."""
    about = IndexTables(str(path)).about
    return salt_of(about.sources, about.stamp)


def agent_asking(needs: Sequence[Requirement]) -> AgentFile:
    """An agent file with these requirements."""
    return AgentFile(name="a", version="1", requires=Requires(mcp=tuple(needs)))


def only_file(folder: Path) -> list[str]:
    """The names of the files in a folder."""
    return sorted(each.name for each in folder.iterdir())
