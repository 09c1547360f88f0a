"""Permission rules: what each names, and where a text is none."""

from contextlib import suppress

import pytest
from hypothesis import given, strategies as st

from agent_resolver.core import BadRule, CallMatch, FieldMatch, TextMatch, parse_rule


def exact(text: str) -> TextMatch:
    return TextMatch("exact", text)


def glob(text: str) -> TextMatch:
    return TextMatch("glob", text)


def regex(text: str) -> TextMatch:
    return TextMatch("regex", text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Bash", CallMatch(exact("Bash"))),
        ("notes.read", CallMatch(exact("notes.read"))),
        ("notes.*", CallMatch(glob("notes.*"))),
        ("note?", CallMatch(glob("note?"))),
        ("note[a-z]", CallMatch(glob("note[a-z]"))),
        ("note[!a-z]", CallMatch(glob("note[!a-z]"))),
        ("note[]]", CallMatch(glob("note[]]"))),
        (r"note\*", CallMatch(exact("note*"))),
        (r"odd\(name\)", CallMatch(exact("odd(name)"))),
        (r"\!odd\{\}", CallMatch(exact("!odd{}"))),
        ("/^mcp__.*/", CallMatch(regex("^mcp__.*"))),
        (r"/a\/b/", CallMatch(regex(r"a\/b"))),
        ("/^mcp/ (*)", CallMatch(regex("^mcp"), glob("*"))),
        ("/^mcp/ ", CallMatch(regex("^mcp"))),
        ("Bash(*)", CallMatch(exact("Bash"), glob("*"))),
        ("Bash(npm *)", CallMatch(exact("Bash"), glob("npm *"))),
        ("Bash (git:*)", CallMatch(exact("Bash"), glob("git:*"))),
        ("Read(./.env)", CallMatch(exact("Read"), exact("./.env"))),
        ("Bash(FOO=bar *)", CallMatch(exact("Bash"), glob("FOO=bar *"))),
        ("Bash(a(b)c)", CallMatch(exact("Bash"), exact("a(b)c"))),
        ('Edit(path ~ "src/*")', CallMatch(exact("Edit"), fields=(FieldMatch(("path",), glob("src/*")),))),
        (
            'Edit(a.b[0].c = "x", [*].n != "1", * =~ "^y", d !~ "z*", e !=~ "\\\\d")',
            CallMatch(
                exact("Edit"),
                fields=(
                    FieldMatch(("a", "b", "0", "c"), exact("x")),
                    FieldMatch(("*", "n"), exact("1"), is_negated=True),
                    FieldMatch(("*",), regex("^y")),
                    FieldMatch(("d",), glob("z*"), is_negated=True),
                    FieldMatch(("e",), regex(r"\d"), is_negated=True),
                ),
            ),
        ),
        (r'Edit(a = "say \"hi\" \n")', CallMatch(exact("Edit"), fields=(FieldMatch(("a",), exact('say "hi" \\n')),))),
    ],
)
def test_a_rule_names_a_tool_and_calls_of_it(text: str, expected: CallMatch) -> None:
    assert parse_rule(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "parse error at 0: it names no tool"),
        ("  ", "parse error at 0: it names no tool"),
        ("(npm *)", "parse error at 0: it names no tool"),
        ("Bash(npm *", "parse error at 10: the parenthesis is not closed"),
        ("Bash(npm *) more", "parse error at 16: the parenthesis is not closed"),
        ("Bash()", "parse error at 5: there is nothing between the parentheses"),
        ("!Bash", "parse error at 0: a pattern cannot be negated with `!`; write `\\!` for the character"),
        ("{Bash,Read}", "parse error at 0: a pattern has no braces; write `\\{` for the character"),
        ("Bash(echo {a})", "parse error at 10: a pattern has no braces; write `\\{` for the character"),
        ("note[a-z", "parse error at 4: the class of characters is not closed"),
        ("note[z-a]", "parse error at 4: `z-a` is not a range of characters"),
        ("note\\", "parse error at 5: dangling escape"),
        ("/mcp", "parse error at 4: the regular expression has no closing slash"),
        ("/mcp\\", "parse error at 5: the regular expression has no closing slash"),
        ("//", "parse error at 1: the regular expression is empty"),
        ("/mcp/x", "parse error at 5: after a regular expression there is only `(`"),
        ("/a(/", "parse error at 2: no regular expression: missing ), unterminated subpattern"),
        ("/a{99999999999}/", "parse error at 1: no regular expression: it is too large"),
        ("/x[[a]/", "parse error at 2: a class in a regular expression has no `[`, `--`, `&&`, `~~` and `||`"),
        ("/[a||b]/", "parse error at 1: a class in a regular expression has no `[`, `--`, `&&`, `~~` and `||`"),
        ('Edit(a = "x)', "parse error at 11: the quote is not closed"),
        ('Edit(a = "x" b = "y")', "parse error at 13: expected `,` between two fields"),
        ('Edit(a = "x",)', 'parse error at 13: expected a field, as `path ~ "pattern"`'),
        ('Edit(a = "x", b)', 'parse error at 13: expected a field, as `path ~ "pattern"`'),
        ('Edit(a ~ "{")', "parse error at 10: a pattern has no braces; write `\\{` for the character"),
        ('Edit(a =~ "(")', "parse error at 11: no regular expression: missing ), unterminated subpattern"),
        ("Edit(" + ", ".join(['a = "x"'] * 17) + ")", "parse error at 147: a rule asks for at most 16 fields"),
        ("x" * 1025, "parse error at 1024: a rule has at most 1024 characters"),
    ],
)
def test_a_text_that_is_no_rule_says_where_and_why(text: str, message: str) -> None:
    with pytest.raises(BadRule) as caught:
        parse_rule(text)

    assert str(caught.value) == message


@given(st.text(alphabet='ab*?[]!-\\(){}/=~",. 0', max_size=30))
def test_no_text_ends_in_another_error(text: str) -> None:
    with suppress(BadRule):
        parse_rule(text)
