"""Editing one table of a TOML file leaves everything else as it is."""

import tomllib

import pytest
from hypothesis import given, strategies as st

from agent_resolver.exchange import CannotEdit, NotToml, with_toml_table

VALUES = {"command": "/bin/agent", "args": ["serve"]}
HEADER = '[mcp_servers.agent-resolver]\ncommand = "/bin/agent"\nargs = ["serve"]\n'

BEFORE = [
    "",
    "# mine\n",
    'model = "x" # which\n',
    '[mcp_servers.other]\n# why\ncommand = "o"\n',
    '[mcp_servers]\nother.command = "o"\n',
    'mcp_servers.other.command = "o"\n',
    "[profiles.a]\nb = 1\r\n",
    '[mcp_servers."o ther"]\ncommand = """\n# no comment\n"""\n\n\n[z]\n# end\n',
    "\ufeffa = 1\n",
    "a = 1",
]  # fmt: skip


@pytest.mark.parametrize("text", BEFORE)
def test_a_new_table_goes_to_the_end(text: str) -> None:
    edited = with_toml_table(text, "mcp_servers", "agent-resolver", VALUES)

    assert edited.startswith(text)
    assert tomllib.loads(edited.removeprefix("\ufeff"))["mcp_servers"]["agent-resolver"] == VALUES
    assert with_toml_table(edited, "mcp_servers", "agent-resolver", VALUES) == edited


def test_an_empty_file_gets_the_table_alone() -> None:
    assert with_toml_table("", "mcp_servers", "agent-resolver", VALUES) == HEADER


def test_a_table_that_is_there_is_changed_in_place() -> None:
    text = (
        "# first\n[mcp_servers.agent-resolver] # ours\n# the program\ncommand = '/old' # old\nenabled = false\n"
        "\n# about the next\n[other]\nx = 1 # x\n[mcp_servers.more]\ncommand = 'm'\n"
    )

    edited = with_toml_table(text, "mcp_servers", "agent-resolver", VALUES)

    assert [line for line in text.splitlines() if "#" in line and "old" not in line] == [
        line for line in edited.splitlines() if "#" in line and "old" not in line
    ]
    assert tomllib.loads(edited)["mcp_servers"]["agent-resolver"] == VALUES
    assert edited.endswith("[other]\nx = 1 # x\n[mcp_servers.more]\ncommand = 'm'\n")
    assert with_toml_table(edited, "mcp_servers", "agent-resolver", VALUES) == edited


def test_a_table_in_line_is_changed_in_place() -> None:
    text = "mcp_servers = { agent-resolver = { command = 'o' }, b = { command = 'b' } } # all\n"

    edited = with_toml_table(text, "mcp_servers", "agent-resolver", VALUES)

    assert tomllib.loads(edited)["mcp_servers"] == {"agent-resolver": VALUES, "b": {"command": "b"}}
    assert edited.endswith("# all\n")


@pytest.mark.parametrize(
    "text", ["mcp_servers = 1\n", "mcp_servers = { b = { command = 'b' } }\n", "[[mcp_servers]]\n"]
)
def test_a_file_that_has_no_place_for_the_table_is_refused(text: str) -> None:
    with pytest.raises(CannotEdit):
        with_toml_table(text, "mcp_servers", "agent-resolver", VALUES)


def test_an_edit_that_would_lose_a_comment_is_refused() -> None:
    text = "[mcp_servers.agent-resolver.env]\nA = 'a'\n\n# about the next\n[other]\nx = 1\n"

    with pytest.raises(CannotEdit, match="comment"):
        with_toml_table(text, "mcp_servers", "agent-resolver", VALUES)


@pytest.mark.parametrize("text", ["[", "a = ", "a = 1\na = 2\n", "x" * 100])
def test_what_is_not_toml_is_refused(text: str) -> None:
    with pytest.raises(NotToml):
        with_toml_table(text, "mcp_servers", "agent-resolver", VALUES)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=6), min_size=1, max_size=4))
def test_any_text_can_be_a_value(words: list[str]) -> None:
    values = {"command": words[0], "args": words}

    edited = with_toml_table("", "mcp_servers", "x", values)
    changed = with_toml_table('[mcp_servers.x]\ncommand = "old"\n', "mcp_servers", "x", values)

    assert tomllib.loads(edited)["mcp_servers"]["x"] == values
    assert tomllib.loads(changed)["mcp_servers"]["x"] == values
