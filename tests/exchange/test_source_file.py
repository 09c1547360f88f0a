"""Files to import from: hostile ones get an error each, with their place, and lose nothing else."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from agent_resolver.exchange import FORMATS, Source, read_sources
from agent_resolver.schema import IssueCode
from agent_resolver.storage import UnreadableFile

GOOD = {"mcpServers": {"w": {"command": "npx", "args": ["-y", "w"]}}}
DEEP = '{"mcpServers": ' + '{"a": ' * 100 + "1" + "}" * 101
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "\n".join(
    f"{chr(98 + level)}: &{chr(98 + level)} [{', '.join([f'*{chr(97 + level)}'] * 9)}]" for level in range(9)
)


def faults(path: Path) -> list[tuple[str, int, int]]:
    (file,) = read_sources([str(path)]).files
    assert file.imported.entries == ()
    return [(fault.code.value, fault.line, fault.column) for fault in file.imported.faults]


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("a.json", DEEP, IssueCode.LIMIT),
        ("a.yaml", BOMB, IssueCode.LIMIT),
        ("a.yaml", "[" * 200 + "]" * 200, IssueCode.LIMIT),
        ("a.toml", "a = " + "[" * 5000 + "]" * 5000, IssueCode.LIMIT),
        ("a.json", "[" + "[]," * 2_000_000 + "[]]", IssueCode.LIMIT),
        ("a.json", '{"mcpServers": {"w": {}, "w": {}}}', IssueCode.DUPLICATE_KEY),
        ("a.json", '{"mcpServers": ', IssueCode.SYNTAX),
        ("a.yaml", "a: [", IssueCode.SYNTAX),
        ("a.toml", "a = ", IssueCode.SYNTAX),
        ("a.json", '{"mcpServers": {"w": {"command": "x\\u001b[31m"}}}', IssueCode.CONTROL_CHARACTER),
        ("a.json", '{"mcpServers": {"w\\u001b[31m": {"command": "x"}}}', IssueCode.CONTROL_CHARACTER),
        ("a.json", '{"mcpServers": {"../../etc": {"command": "x"}}}', IssueCode.NAME_REFUSED),
        ("a.json", '{"mcpServers": {"' + "w" * 300 + '": {"command": "x"}}}', IssueCode.LIMIT),
        ("a.json", '{"mcpServers": {"w": {"command": "' + "x" * 5000 + '"}}}', IssueCode.LIMIT),
        ("a.json", '{"mcpServers": {"w": {"command": "x", "args": [' + '"y",' * 1000 + '"y"]}}}', IssueCode.LIMIT),
        ("a.json", '{"mcpServers": {"w": [1]}}', IssueCode.INVALID_TYPE),
        ("a.json", '"mcpServers"', IssueCode.UNKNOWN_FORMAT),
        ("a.json", "\ud800".encode("utf-8", "surrogatepass"), IssueCode.ENCODING),
    ],
)
def test_a_hostile_file_gets_an_error(tmp_path: Path, name: str, content: str | bytes, code: IssueCode) -> None:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())

    assert {found for found, _, _ in faults(path)} == {code}


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with path.open("wb") as file:
        file.truncate(33 * 1024 * 1024)

    assert faults(path) == [("limit", 1, 1)]


def test_too_many_servers_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_resolver.exchange.source_file.MAX_SOURCE_ENTRIES", 2)
    servers = {f"w{number}": {"command": "x"} for number in range(3)}
    (tmp_path / "a.json").write_text(json.dumps({"mcpServers": servers}))

    assert faults(tmp_path / "a.json") == [("limit", 1, 1)]


def test_a_fault_has_the_line_and_column_of_its_value(tmp_path: Path) -> None:
    path = tmp_path / ".mcp.json"
    path.write_text('{\n  // mine\n  "mcpServers": {\n    "w": {"command": 5},\n    "x": {"command": "x"},\n  },\n}\n')

    (file,) = read_sources([str(path)]).files
    assert [entry.id for entry in file.imported.entries] == ["x"]
    assert {(fault.path, fault.line) for fault in file.imported.faults} == {("mcpServers.w.command", 4)}


def test_an_unknown_format_lists_those_that_are_known(tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"name": "x"}')

    (file,) = read_sources([str(tmp_path / "package.json")]).files
    assert all(each.name in file.imported.faults[0].hint for each in FORMATS)


def test_a_format_can_be_asked_for(tmp_path: Path) -> None:
    both = {**GOOD, "servers": {"v": {"command": "x"}}, "inputs": []}
    (tmp_path / "a.json").write_text(json.dumps(both))

    for name, found in (("client-config", "w"), ("vscode", "v")):
        (file,) = read_sources([str(tmp_path / "a.json")], name).files
        assert [entry.id for entry in file.imported.entries] == [found]
    (file,) = read_sources([str(tmp_path / "a.json")], "codex").files
    assert file.imported.faults[0].code is IssueCode.UNKNOWN_FORMAT


def test_a_folder_is_read_in_order_with_all_folders_below(tmp_path: Path) -> None:
    for name in ("b/.mcp.json", "a/x.json", ".vscode/mcp.json", "node_modules/y/.mcp.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(json.dumps(GOOD))
    (tmp_path / "package.json").write_text("{}")
    (tmp_path / "notes.md").write_text("# notes")
    (tmp_path / "link.json").symlink_to(tmp_path / "a" / "x.json")

    reading = read_sources([str(tmp_path), str(tmp_path / "a" / "x.json")])

    shown = [Path(file.path).relative_to(tmp_path).as_posix() for file in reading.files]
    assert shown == [".vscode/mcp.json", "a/x.json", "b/.mcp.json"]
    assert [Path(path).name for path in reading.passed_over] == ["package.json"]


def test_a_server_and_the_list_of_its_tools_are_read_together(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "server.yaml").write_text("name: w\ntype: server\nimage: a/w\nmeta: {category: search}\n")
    (tmp_path / "w" / "tools.json").write_text('[{"name": "today"}]')

    reading = read_sources([str(tmp_path)])

    assert reading.passed_over == ()
    assert [note.names for file in reading.files for note in file.imported.notes] == [("today",)]


def test_a_broken_list_of_tools_does_not_lose_the_server(tmp_path: Path) -> None:
    (tmp_path / "server.yaml").write_text("name: w\ntype: server\nimage: a/w\nmeta: {category: search}\n")
    (tmp_path / "tools.json").write_text("[")

    assert len(read_sources([str(tmp_path / "server.yaml")]).files[0].imported.entries) == 1


@pytest.mark.parametrize("name", ["absent.json", "https://registry.example/servers"])
def test_a_source_that_is_not_a_file_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(UnreadableFile):
        read_sources([name])


def test_arbitrary_bytes_never_get_past_the_readers(tmp_path: Path) -> None:
    """Pieces of real formats in any order are an entry, a note or a fault, never an exception."""
    pieces = [
        '{"mcpServers":', '{"servers":', '{"registry":', '{"installations":', '{"name":', "[", "]", "{", "}", ":", ",",
        '"x"', '"server"', "1", "null", "true", '"packages"', '"remotes"', '"type"', '"meta"', '"command"', '"url"',
        '"image"', '"transport"', '"tier"',
    ]  # fmt: skip
    random = Random(11)
    for number in range(300):
        path = tmp_path / f"{number}.json"
        path.write_text("".join(random.choices(pieces, k=random.randint(1, 25))))
    read_sources([str(tmp_path)])


VALUES: list[Any] = [None, True, 5, "x", "", [], ["x"], [5], {}, {"x": 5}, {"name": "x"}, [{"name": "x"}], [{}]]
KEYS = [
    "name", "type", "image", "meta", "about", "remote", "run", "config", "packages", "remotes", "version", "_meta",
    "transport", "tier", "tools", "tags", "env_vars", "args", "permissions", "installations", "command", "env", "url",
    "headers", "status", "arguments", "categories", "title", "description", "server", "target_port", "env_http_headers",
]  # fmt: skip


@pytest.mark.parametrize("name", [each.name for each in FORMATS])
def test_wrong_types_are_faults_in_every_format(name: str) -> None:
    """No value of any type in any place of an entry stops an importer."""
    (each,) = (each for each in FORMATS if each.name == name)
    random = Random(name)
    for _ in range(1500):
        entry = {key: random.choice(VALUES) for key in random.sample(KEYS, k=random.randint(0, 12))}
        wrapped = {"mcpServers": {"w": entry}, "mcp_servers": {"w": entry}, "servers": {"w": entry}}
        for content in (entry, wrapped, {"registry": {"w": entry}}, {"servers": [entry]}, {"w": entry}):
            each.read(Source(content, "folder", random.choice(VALUES)))
