"""Regular expressions that no text can make slow."""

import pytest

from agent_resolver.registry import compile_linear_regex


@pytest.mark.parametrize(
    ("pattern", "text", "is_found"),
    [
        ("b", "abc", True),
        ("^b", "abc", False),
        ("c$", "abc", True),
        ("c$", "abc\n", False),
        ("a.c", "a\nc", False),
        ("(?s)a.c", "a\nc", True),
        ("(?i)ABC", "xabc", True),
        (r"\d+", "a1", True),
        ("^(a+)+$", "a" * 50_000 + "b", False),
        ("(.*)(.*)(.*)(.*)(.*)[^a]$", "a" * 50_000, False),
        ("", "", True),
        ("é", "café", True),
    ],
)
def test_an_expression_is_found_anywhere_in_a_text(pattern: str, text: str, *, is_found: bool) -> None:
    assert compile_linear_regex(pattern)(text) is is_found


@pytest.mark.parametrize("pattern", ["(a)\\1", "(?=a)", "(?!a)", "(?<=a)b", "[", "(", "a{1000}{1000}{1000}", "*"])
def test_what_needs_another_engine_or_is_too_large_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="no regular expression without lookaround and references, or too large"):
        compile_linear_regex(pattern)


def test_a_text_that_is_not_text_raises_what_the_judge_of_rules_takes() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        compile_linear_regex("a")("\ud800")
