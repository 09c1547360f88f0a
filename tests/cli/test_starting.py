"""The start of programs that stay, beside servers that only start."""

from collections.abc import Callable

import pytest

from agent_resolver.cli.starting import start_patiently
from agent_resolver.schema import ResolverError


class Starting(ResolverError):
    """A server that does not answer yet."""

    may_be_starting = True


def failing(*errors: ResolverError) -> Callable[[], None]:
    """A program that ends with each of these errors, and then well."""
    left = list(errors)

    def attempt() -> None:
        if left:
            raise left.pop(0)

    return attempt


def test_a_program_is_run_again_until_its_server_answers() -> None:
    reported: list[str] = []

    start_patiently(failing(Starting("no answer"), Starting("no answer")), reported.append)

    assert reported == ["no answer (trying for 30 seconds)"]


def test_a_program_that_cannot_work_ends_at_once() -> None:
    reported: list[str] = []

    with pytest.raises(ResolverError, match="not a state"):
        start_patiently(failing(ResolverError("not a state")), reported.append)
    assert reported == []


def test_a_server_that_never_answers_ends_the_program() -> None:
    with pytest.raises(Starting):
        start_patiently(failing(*[Starting("no answer")] * 10), lambda _: None, seconds=2)
