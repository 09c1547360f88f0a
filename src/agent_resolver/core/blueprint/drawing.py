"""A blueprint as a drawing in text: one row for each wave of steps, from top to bottom."""

from collections.abc import Iterator
from typing import Final

from agent_resolver.core.blueprint.prepared_blueprint import waves_of
from agent_resolver.core.blueprint.step_words import (
    StepWords,
    printable,
    words_of_steps,
)
from agent_resolver.schema.blueprint import Blueprint

_ASCII: Final = str.maketrans(
    {"│": "|", "├": "+", "└": "+", "┬": "+", "─": "-", "▼": "v", "…": "...", "—": "-"}
)


def draw_text(blueprint: Blueprint, *, is_ascii: bool = False) -> str:
    """The steps of a blueprint as text. Steps of one row start together, each row when the one above has ended.

    The blueprint must have been checked.

    Args:
        blueprint: The blueprint.
        is_ascii: True for a terminal or file that takes nothing but ASCII.
    """
    words = words_of_steps(blueprint)
    width = max(map(len, words))
    lines = [f"{printable(blueprint.id)} {printable(blueprint.version)}", "▼ input"]
    for wave in waves_of(blueprint):
        lines.append("│")
        for place, step in enumerate(wave):
            lines += _lines_of_step(words[step], place, len(wave), width)
    text = "\n".join([*lines, "│", "▼ output"]) + "\n"
    # The texts of an author may hold any character, and those without an ASCII form are
    # escaped.
    return (
        text.translate(_ASCII).encode("ascii", "backslashreplace").decode()
        if is_ascii
        else text
    )


def _lines_of_step(
    step: StepWords,
    place: int,
    count: int,
    width: int,
) -> Iterator[str]:
    is_last = place == count - 1
    if count == 1:
        branch = "├───"
    elif place == 0:
        branch = "├─┬─"
    else:
        branch = "│ └─" if is_last else "│ ├─"
    yield f"{branch} {step.id:{width}}  {step.action}"
    rail = "│   " if is_last else "│ │ "
    for detail in step.details:
        yield f"{rail} {'':{width}}  {detail}"
