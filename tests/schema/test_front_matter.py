"""Where front matter starts and ends."""

import pytest

from agent_resolver.schema import MAX_FRONT_MATTER_CHARACTERS, Document, Issue, Unreadable, split


def refusal(text: str) -> str:
    with pytest.raises(Unreadable) as caught:
        split(text)
    return caught.value.issue.message


@pytest.mark.parametrize(
    ("text", "front_matter", "body"),
    [
        ("---\na: b\n---\nbody\n", "a: b\n", "body\n"),
        ("---\na: b\n---", "a: b\n", ""),
        ("---\n---\nbody", "", "body"),
        ("---\n---", "", ""),
        ("--- \t\na: b\n---  \nbody", "a: b\n", "body"),
        ("---\r\na: b\r\n---\r\nbody", "a: b\r\n", "body"),
        ("---\ra: b\r---\rbody", "a: b\r", "body"),
        ("---\r---\r", "", ""),
        ("---\r\n---\r\n", "", ""),
        ("\ufeff---\na: b\n---\n", "a: b\n", ""),
        ("---\na: b\n---\n---\nbody\n---\n", "a: b\n", "---\nbody\n---\n"),
        ("---\na: ---\n ---\n--- x\n----\n---\n", "a: ---\n ---\n--- x\n----\n", ""),
    ],
)
def test_front_matter_stands_between_the_first_two_fences(text: str, front_matter: str, body: str) -> None:
    assert split(text) == Document(front_matter, body)


@pytest.mark.parametrize(
    "text", ["", " ", "a: b", "\n---\na: b\n---\n", " ---\n---\n", "----\n----\n", "--- a\n---\n", "***"]
)
def test_without_a_fence_on_the_first_line_there_is_none(text: str) -> None:
    assert isinstance(split(text), Issue)


@pytest.mark.parametrize(
    "text", ["---", "---\n", "---\na: b", "---\na: b\n---x\n", "---\na: b\n ---\n", "---\n\x0b---\n"]
)
def test_front_matter_must_be_closed(text: str) -> None:
    assert refusal(text) == "Front matter is not closed"


def test_the_limit_is_on_the_front_matter_and_not_on_the_body() -> None:
    longest = "#" * (MAX_FRONT_MATTER_CHARACTERS - 1) + "\n"

    assert split(f"---\n{longest}---\n{'x' * 10**6}") == Document(longest, "x" * 10**6)
    assert refusal(f"---\n\n{longest}---\n") == "Front matter is longer than 262144 characters"
