"""The page on identity has every code, and every bound, that the program has."""

import re

from agent_resolver.identity import TokenCode, issuer_http, keys, token
from tests.docs.page import ROOT

PAGE = (ROOT / "docs" / "identity.md").read_text(encoding="utf-8")


def test_every_code_is_in_the_table() -> None:
    assert sorted(re.findall(r"^\| `([A-Z_]+)` \|", PAGE, re.MULTILINE)) == sorted(TokenCode)


def test_every_algorithm_is_named_and_no_other() -> None:
    _, _, rest = PAGE.partition("It is signed with ")
    listed = re.split(r",\s+|\s+or\s+", rest.partition(".")[0])

    assert sorted(listed) == sorted(token.ALGORITHMS)


def test_every_bound_is_named() -> None:
    bounds = {
        f"{token.MAX_TOKEN_BYTES:,} bytes",
        f"{token.LEEWAY_SECONDS} seconds",
        f"{issuer_http.MAX_DOCUMENT_BYTES:,} bytes",
        f"the first {keys.MAX_KEYS} keys",
        f"for {keys.LIFETIME_SECONDS:g} seconds",
        f"at most every {keys.PAUSE_SECONDS:g} seconds",
        f"{issuer_http.ANSWER_SECONDS:g} seconds",
        f"less than {keys._SHORTEST_RSA_BITS:,} bits",
    }

    assert {bound for bound in bounds if bound not in re.sub(r"\s+", " ", PAGE)} == set()
