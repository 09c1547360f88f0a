"""The adapters in memory keep the promises of their ports."""

import asyncio

import pytest

from agent_resolver.reasoner import HEALTH_CHECKS, RETRIEVER_CHECKS, HealthReport, MemoryHealth, MemoryRetriever
from agent_resolver.schema.planning import Snippet


def find(documents: dict[str, str], text: str, limit: int = 5) -> tuple[Snippet, ...]:
    return asyncio.run(MemoryRetriever(documents).find(text, limit))


@pytest.mark.parametrize("name", RETRIEVER_CHECKS)
def test_the_retriever_in_memory_keeps_the_promises_of_the_port(name: str) -> None:
    asyncio.run(RETRIEVER_CHECKS[name](MemoryRetriever))


@pytest.mark.parametrize("name", HEALTH_CHECKS)
def test_the_health_in_memory_keeps_the_promises_of_the_port(name: str) -> None:
    asyncio.run(HEALTH_CHECKS[name](MemoryHealth))


def test_a_rare_word_counts_for_more_than_a_common_one() -> None:
    documents = {"a": "ticket ticket ticket", "b": "ticket refund", "c": "ticket close"}

    assert [snippet.source for snippet in find(documents, "refund a ticket")] == ["b", "a", "c"]


def test_equal_fits_come_in_the_order_of_source_and_place() -> None:
    documents = {"b": "same words", "a": "same words\n\n \nwords same"}

    found = [(snippet.source, snippet.text) for snippet in find(documents, "words")]
    assert found == [("a", "same words"), ("a", "words same"), ("b", "same words")]


def test_only_passages_that_share_a_word_are_found_in_any_case() -> None:
    documents = {"a": "Straße gesperrt", "b": "***"}

    assert [snippet.source for snippet in find(documents, "STRASSE")] == ["a"]
    assert find(documents, "nothing of that") == ()


def test_a_long_paragraph_comes_in_pieces() -> None:
    found = find({"a": "word " * 1_000, "b": "x" * 5_000 + " word"}, "word", 10)

    assert all(len(snippet.text) <= 2_000 for snippet in found)
    assert {snippet.source for snippet in found} == {"a", "b"}


def test_health_has_a_sentence_where_there_is_more_to_say() -> None:
    health = MemoryHealth({"mail": "degraded"}, {"mail": "The queue is long"})

    (report,) = asyncio.run(health.report(("mail",)))
    assert report == HealthReport(system="mail", state="degraded", summary="The queue is long")


def test_a_state_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="and not on fire"):
        MemoryHealth({"mail": "on fire"})
