"""Entries are taken out of the settings of a client, and shown without secrets."""

import pytest

from agent_resolver.exchange import CLIENTS, read_entries, shown_settings, without_entries


def test_entries_are_taken_out_and_the_rest_of_the_text_stays() -> None:
    text = '{\n  // Mine.\n  "other": 1,\n  "mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}\n}\n'
    toml = '# Mine.\n[mcp_servers.a]\ncommand = "x"\n\n[mcp_servers.b]\ncommand = "y"\n\n[other]\nkey = 1 # Stays.\n'

    found = without_entries(CLIENTS["claude-code"], text, ["a"], "f")
    table = without_entries(CLIENTS["codex"], toml, ["a"], "f")
    empty = without_entries(CLIENTS["codex"], toml, ["a", "b"], "f")

    assert found.startswith('{\n  // Mine.\n  "other": 1,\n')
    assert '"a"' not in found
    assert '"b"' in found
    assert "mcp_servers.a" not in table
    assert table.endswith('[mcp_servers.b]\ncommand = "y"\n\n[other]\nkey = 1 # Stays.\n')
    assert "mcp_servers" not in empty
    assert "key = 1 # Stays." in empty


KEPT_IN_JSON = """\
{
  "mcpServers": {
    // about a
    "a": { "command": "x" }, // behind a
    /* about b */ "b": { "port": 1e5, "port": 1.0 }, "c": 1,
    "d": 2 // the last
  }, // end
}
"""


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a"], KEPT_IN_JSON.replace('"a": { "command": "x" }, // behind', "// behind")),
        (["c"], KEPT_IN_JSON.replace(' "c": 1,', " ")),
        (["d"], KEPT_IN_JSON.replace('"d": 2 // the', "// the").replace('"c": 1,', '"c": 1')),
        (["a", "b", "c", "d"], None),
        (["other"], KEPT_IN_JSON),
    ],
)
def test_what_is_beside_a_removed_entry_stays_to_the_letter(names: list[str], expected: str | None) -> None:
    found = without_entries(CLIENTS["vscode"], KEPT_IN_JSON.replace("mcpServers", "servers"), names, "f")

    if expected is not None:
        assert found == expected.replace("mcpServers", "servers")
    assert dict(read_entries(CLIENTS["vscode"], found, "f")).keys() == set("abcd").difference(names)
    for comment in ("// about a", "// behind a", "/* about b */", "// the last", "// end"):
        assert comment in found


@pytest.mark.parametrize(
    ("text", "names", "expected"),
    [
        ('{"mcpServers": {"a": 1, "b": 2}}', ["a"], '{"mcpServers": {"b": 2}}'),
        ('{"mcpServers": {"a": 1, "b": 2}}', ["b"], '{"mcpServers": {"a": 1}}'),
        ('{"mcpServers": { "a": 1, "b": 2 }}', ["a", "b"], '{"mcpServers": {  }}'),
        ('{"mcpServers": {\n  "a": 1,\n  "b": 2\n}}', ["b"], '{"mcpServers": {\n  "a": 1\n}}'),
        ('{"mcpServers": {\r\n\t"a": 1,\r\n\t"b": 2,\r\n}}', ["a"], '{"mcpServers": {\r\n\t"b": 2,\r\n}}'),
        ('{"mcpServers": {"a": 1, "a": 2, "b": 3}}', ["a"], '{"mcpServers": {"b": 3}}'),
        ('{"other": 1}', ["a"], '{"other": 1}'),
    ],
)
def test_an_entry_is_removed_with_its_comma_and_its_line(text: str, names: list[str], expected: str) -> None:
    assert without_entries(CLIENTS["cursor"], text, names, "f") == expected


KEPT_IN_TOML = """\
\ufeff# Mine.
model = "x"

[mcp_servers.a] # a
command = "x"
# inside
args = [
  "[mcp_servers.b]",
]

[mcp_servers.a.env]
KEY = "v"

# About the profile.
[profiles.one]
model = "y"

[mcp_servers.b]
command = "y" # b
"""


def test_comments_behind_a_removed_table_stay() -> None:
    found = without_entries(CLIENTS["codex"], KEPT_IN_TOML, ["a"], "f")
    crlf = without_entries(CLIENTS["codex"], KEPT_IN_TOML.replace("\n", "\r\n"), ["b"], "f")

    head, tail = KEPT_IN_TOML.partition("[mcp_servers.a] # a")[0], KEPT_IN_TOML.partition('KEY = "v"\n\n')[2]
    assert found == head + tail
    assert crlf == KEPT_IN_TOML.partition("[mcp_servers.b]\n")[0].replace("\n", "\r\n")


@pytest.mark.parametrize(
    "text",
    [
        'mcp_servers.a.command = "x"\nmcp_servers.b.command = "y"\n',
        '[mcp_servers]\na = {command = "x"}\nb = {command = "y"}\n',
        'mcp_servers = {a = {command = "x"}, b = {command = "y"}}\n',
    ],
)
def test_a_table_is_removed_however_it_is_written(text: str) -> None:
    found = without_entries(CLIENTS["codex"], text, ["a"], "f")

    assert read_entries(CLIENTS["codex"], found, "f") == [("b", {"command": "y"})]
    assert read_entries(CLIENTS["codex"], without_entries(CLIENTS["codex"], text, ["a", "b"], "f"), "f") == []


@pytest.mark.parametrize("client", ["claude-code", "codex"])
def test_of_settings_only_what_is_known_is_shown(client: str) -> None:
    values = {
        "command": "x",
        "args": ["--token", "canary", 5],
        "env": {"NAME": "canary", "PORT": 443},
        "headers": {"Authorization": "canary"},
        "oauth": {"clientSecret": ["canary"]},
        "enabled": False,
    }

    shown = shown_settings(CLIENTS[client], {"a": values, "b": "canary"}, {"x", "--token"})

    assert "canary" not in shown
    assert "443" not in shown
    for word in ("NAME", '"x"', "clientSecret", "--token", "false"):
        assert word in shown
    assert shown_settings(CLIENTS[client], {}, set()) == ""
