"""Checks that every retriever and every source of health passes, of any author.

The author gives a function that makes an adapter for documents or states that are known. Each check raises
`AssertionError` with what it missed:

    @pytest.mark.parametrize("name", RETRIEVER_CHECKS)
    def test_my_retriever_keeps_the_promises_of_the_port(name: str) -> None:
        asyncio.run(RETRIEVER_CHECKS[name](make_mine))
"""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from agent_resolver.reasoner.knowledge_budget import measured_snippet
from agent_resolver.reasoner.port import HEALTH_STATES, Health, Retriever

MakeRetriever = Callable[[Mapping[str, str]], Retriever]
"""Makes a retriever of these documents, each text by its source."""
RetrieverCheck = Callable[[MakeRetriever], Coroutine[Any, Any, None]]
MakeHealth = Callable[[Mapping[str, str]], Health]
"""Makes a source of health that knows these states, each by its system."""
HealthCheck = Callable[[MakeHealth], Coroutine[Any, Any, None]]

_DOCUMENTS: Final = {
    "guides/printers.md": "Printers jam when paper is damp.\n\nReset a printer with the green button.",
    "guides/refunds.md": "Refunds above 100 euros take an approval.\n\nRefunds are booked on the next day.",
    "guides/vpn.md": "The VPN asks for a certificate. Renew the certificate every year.",
}
_QUESTION: Final = "How do I renew the certificate of the VPN?"
# Syntax of query languages, control and bidirectional characters, a lone surrogate, and
# a text without end.
_HOSTILE: Final = (
    "",
    " ",
    '"',
    "' OR 1=1 --",
    "AND NOT (",
    "*",
    "\x00",
    "\u202e",
    "\ud800",
    "ü" * 100_000,
)
_STATES: Final = {"mail": "degraded", "orders": "healthy", "search": "down"}
_MAX_SUMMARY: Final = 500


# Retrievers ---------------------------------------------------------------------------


async def _the_best_passage_comes_first(make: MakeRetriever) -> None:
    found = await make(_DOCUMENTS).find(_QUESTION, 3)
    assert found, "nothing was found, though a document has the words of the question"
    assert found[0].source == "guides/vpn.md", (
        f"the best passage is said to be in {found[0].source}"
    )


async def _no_more_is_found_than_was_asked_for(make: MakeRetriever) -> None:
    retriever = make(_DOCUMENTS)
    for limit in (0, 1, 2, 100):
        count = len(await retriever.find("refunds printers certificate", limit))
        assert count <= limit, f"{count} passages came where {limit} are the most"


async def _a_passage_is_part_of_its_document(make: MakeRetriever) -> None:
    found = await make(_DOCUMENTS).find("refunds printers certificate", 10)
    assert found, "nothing was found, though documents have the words of the question"
    for snippet in found:
        document = " ".join(_DOCUMENTS.get(snippet.source, "").split())
        assert snippet.text.strip(), f"a passage of {snippet.source} is empty"
        assert " ".join(snippet.text.split()) in document, (
            f"{snippet.source} does not have {snippet.text[:100]!r}"
        )
    assert len(set(found)) == len(found), "a passage came twice"


async def _tokens_are_estimated_as_the_budget_does(make: MakeRetriever) -> None:
    for snippet in await make(_DOCUMENTS).find(_QUESTION, 10):
        expected = measured_snippet(snippet.source, snippet.text).tokens
        assert snippet.tokens == expected, (
            f"{snippet.tokens} tokens are counted, and not {expected}"
        )


async def _the_same_question_has_the_same_answer(make: MakeRetriever) -> None:
    retriever = make(_DOCUMENTS)
    first = await retriever.find(_QUESTION, 5)
    assert await retriever.find(_QUESTION, 5) == first, (
        "asked again, it answers something else"
    )
    reordered = dict(reversed(_DOCUMENTS.items()))
    assert await make(reordered).find(_QUESTION, 5) == first, (
        "the order of the documents decides about the answer"
    )


async def _every_text_can_be_asked_for(make: MakeRetriever) -> None:
    retriever = make(_DOCUMENTS)
    for text in _HOSTILE:
        count = len(await retriever.find(text, 5))
        assert count <= len(_DOCUMENTS) * 2, f"{count} passages came for {text[:20]!r}"


async def _without_documents_nothing_is_found(make: MakeRetriever) -> None:
    found = await make({}).find(_QUESTION, 5)
    assert found == (), f"without documents, {found} was found"


RETRIEVER_CHECKS: Final[Mapping[str, RetrieverCheck]] = {
    check.__name__.strip("_"): check
    for check in (
        _the_best_passage_comes_first,
        _no_more_is_found_than_was_asked_for,
        _a_passage_is_part_of_its_document,
        _tokens_are_estimated_as_the_budget_does,
        _the_same_question_has_the_same_answer,
        _every_text_can_be_asked_for,
        _without_documents_nothing_is_found,
    )
}
"""Every check by its name."""


# Health -------------------------------------------------------------------------------


async def _each_system_is_reported_in_the_order_asked(make: MakeHealth) -> None:
    health = make(_STATES)
    for systems in (
        (),
        ("search",),
        ("search", "mail", "orders"),
        ("orders", "search"),
        ("mail", "mail"),
    ):
        reports = await health.report(systems)
        named = tuple(report.system for report in reports)
        assert named == systems, f"asked for {systems}, it reports {named}"


async def _each_state_is_the_one_that_is_known(make: MakeHealth) -> None:
    reports = await make(_STATES).report(tuple(_STATES))
    found = {report.system: report.state for report in reports}
    assert found == _STATES, f"the states are {found}, and not {_STATES}"


async def _a_system_that_is_not_known_is_unknown(make: MakeHealth) -> None:
    systems = ("payments", "", "mail ", "x" * 10_000, "'; --", "\u202e")
    for report in await make(_STATES).report(systems):
        assert report.state == "unknown", (
            f"{report.system[:50]!r} is said to be {report.state}"
        )


async def _a_report_is_a_known_word_and_a_short_sentence(make: MakeHealth) -> None:
    for report in await make(_STATES).report((*_STATES, "payments")):
        assert report.state in HEALTH_STATES, f"{report.state!r} is not a state"
        size = len(report.summary)
        assert size <= _MAX_SUMMARY, (
            f"the summary of {report.system} has {size} characters, {_MAX_SUMMARY} are the most"
        )


HEALTH_CHECKS: Final[Mapping[str, HealthCheck]] = {
    check.__name__.strip("_"): check
    for check in (
        _each_system_is_reported_in_the_order_asked,
        _each_state_is_the_one_that_is_known,
        _a_system_that_is_not_known_is_unknown,
        _a_report_is_a_known_word_and_a_short_sentence,
    )
}
"""Every check by its name."""
