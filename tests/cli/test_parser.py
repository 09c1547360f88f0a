"""A misspelt command line: what was probably meant is named."""

import pytest

from tests.conftest import Run


@pytest.mark.parametrize(
    ("command", "prog", "problem"),
    [
        (["rsolve"], "agent", "argument COMMAND: invalid choice: 'rsolve'; did you mean `resolve`?"),
        (["tools", "lst"], "agent tools", "argument COMMAND: invalid choice: 'lst'; did you mean `list`?"),
        (["inbox", "aprove"], "agent inbox", "argument COMMAND: invalid choice: 'aprove'; did you mean `approve`?"),
        (["catalog", "chek"], "agent catalog", "argument COMMAND: invalid choice: 'chek'; did you mean `check`?"),
        (["resolve", "--jsno"], "agent resolve", "unrecognized arguments: --jsno; did you mean `--json`?"),
        (["tools", "list", "--jsno"], "agent tools list", "unrecognized arguments: --jsno; did you mean `--json`?"),
        (
            ["catalog", "list", "--rot=a"],
            "agent catalog list",
            "unrecognized arguments: --rot=a; did you mean `--root`?",
        ),
        (["resolve", "--qqq"], "agent resolve", "unrecognized arguments: --qqq"),
        (["resolve", "json"], "agent resolve", "unrecognized arguments: json"),
        (["--json", "resolve"], "agent resolve", "unrecognized arguments: --json; write it after `agent resolve`"),
        ([], "agent", "the following arguments are required: COMMAND; `agent --help` lists them"),
        (["tools"], "agent tools", "the following arguments are required: COMMAND; `agent tools --help` lists them"),
    ],
)
def test_a_misspelt_command_line_names_what_was_probably_meant(
    run: Run, command: list[str], prog: str, problem: str
) -> None:
    ran = run(*command)

    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr.startswith("usage: agent")
    assert ran.stderr.splitlines()[-1] == f"{prog}: error: {problem}"


def test_a_word_that_is_like_no_command_lists_them_all(run: Run) -> None:
    ran = run("inbox", "zzz")

    assert ran.stderr.endswith("invalid choice: 'zzz' (choose from 'list', 'show', 'approve', 'reject', 'answer')\n")


@pytest.mark.parametrize("command", [[], ["tools"], ["index"]])
def test_help_has_only_words_that_were_written(run: Run, command: list[str]) -> None:
    """A text that is left out of the parser leaves no line in the help."""
    ran = run(*command, "--help")

    assert ran.code == 0
    assert "None" not in ran.stdout
    assert "\ncommands:\n  COMMAND\n" in ran.stdout
