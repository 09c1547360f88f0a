"""Why a server was chosen for a requirement, or every reason against it."""

from collections.abc import Iterator

from msgspec import Struct

from agent_resolver.core.choice import Choice, lost_tie_break, selection
from agent_resolver.core.resolution import Resolution
from agent_resolver.core.rule import every_broken, preference
from agent_resolver.schema.agent_file import Requirement
from agent_resolver.schema.explanation import Reason
from agent_resolver.schema.index import Server


class Verdict(Struct, frozen=True):
    """The outcome of one server for one requirement."""

    server: Server
    chosen_because: str | None
    """None for a server that was not chosen."""
    reasons: tuple[Reason, ...]
    """Every rule that it breaks, or the tie-break it lost; nothing for the chosen one."""


class Answer(Struct, frozen=True):
    """The outcome of one requirement, as far as the question goes."""

    requirement: Requirement
    verdicts: tuple[Verdict, ...]
    """The chosen server first, then the others by preference."""
    others: int
    """How many servers do not offer the category, where the question is about the category."""
    is_served: bool
    """True if a server was chosen for the requirement, whether the question is about that server or not."""


def why(resolution: Resolution, word: str) -> tuple[Answer, ...]:
    """Every requirement of the category `word`; or, for the server `word` or `id@version`, every one it could serve.

    A server that offers no category of the agent file is held against all of them.
    """
    named = resolution.pool.named(word)
    answers = tuple(_find_answers(resolution, word, named))
    near = tuple(answer for answer in answers if _is_near(answer, word))
    return near or answers


def _is_near(answer: Answer, word: str) -> bool:
    category = answer.requirement.category
    return category == word or any(
        category in verdict.server.categories for verdict in answer.verdicts
    )


def _find_answers(
    resolution: Resolution,
    word: str,
    named: list[Server],
) -> Iterator[Answer]:
    offering = [*resolution.pool.offering(word)]
    for choice in resolution.choices:
        if choice.requirement.category == word:
            yield _make_answer(
                resolution,
                choice,
                offering,
                len(resolution.pool) - len(offering),
            )
        elif named:
            yield _make_answer(resolution, choice, named, 0)


def _make_answer(
    resolution: Resolution,
    choice: Choice,
    servers: list[Server],
    others: int,
) -> Answer:
    ordered = sorted(
        servers,
        key=lambda server: (
            (server.id, server.version) != choice.key,
            preference(server),
        ),
    )
    verdicts = tuple(_judge_server(resolution, choice, server) for server in ordered)
    return Answer(choice.requirement, verdicts, others, choice.server is not None)


def _judge_server(resolution: Resolution, choice: Choice, server: Server) -> Verdict:
    chosen = selection(choice)
    if chosen and (server.id, server.version) == choice.key:
        return Verdict(server, chosen.selection_reason, ())
    broken = every_broken(server, choice.requirement, resolution.limits)
    return Verdict(server, None, broken or (lost_tie_break(choice),))
