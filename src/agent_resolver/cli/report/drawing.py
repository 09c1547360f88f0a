"""The layout of the drawing in a report; the template draws it."""

from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

from agent_resolver.cli.report.markup import visible
from agent_resolver.cli.report.requirement import Answer
from agent_resolver.schema.agent_file import AgentFile
from agent_resolver.schema.index import Server

_WIDE_CHARACTERS: Final = 0x1100
"""From here on, a character may take the room of two."""

_HEIGHT: Final = 56
_RADIUS: Final = 10
_MOST_BESIDE_THE_MIDDLE: Final = 8
"""With more requirements, the agent stands at the top, where a reader starts."""

_SIGNED_WORDS: Final = {
    True: "signed (claimed)",
    False: "not signed",
    None: "signed: not known",
}


class Box(Struct, frozen=True, kw_only=True):
    """A box with two lines of text, each cut to fit."""

    left: float
    top: float
    width: float
    upper: str
    lower: str


class Words(Struct, frozen=True, kw_only=True):
    """The point at which a text begins, or has its middle."""

    left: float
    line: float
    anchor: Literal["start", "middle"] = "start"


class DrawnBranch(Struct, frozen=True, kw_only=True):
    """A requirement, and the line from it to its server or to nothing."""

    requirement: Box
    server: Box | None
    is_signed: bool
    rejected: int
    line: str
    """The steps of the line."""
    end: str
    """The steps of what the line ends in: an arrowhead, or a cross where there is no server."""
    words: Words
    """Where the number of rejected candidates is said."""


class Drawing(Struct, frozen=True, kw_only=True):
    """A drawing for screens of one width."""

    kind: Literal["wide", "narrow"]
    width: float
    height: float
    trunk: str
    """The steps of all lines from the agent to its requirements: where several run over one another, they look like
    one."""
    agent: Box
    branches: tuple[DrawnBranch, ...]


def draw_wide(agent: AgentFile, answers: Sequence[Answer]) -> Drawing:
    """Three columns, a row for each requirement."""
    step = _HEIGHT + 16
    height = step * len(answers) - 16
    # With few rows the agent is in the middle of its column; with many it would be off
    # the screen there.
    middle = height / 2 if len(answers) <= _MOST_BESIDE_THE_MIDDLE else _HEIGHT / 2
    tops = [row * step for row in range(len(answers))]
    return Drawing(
        kind="wide",
        width=960,
        height=height,
        # Each line starts at the agent's right edge and ends at the left edge of its
        # requirement, in the middle of its row.
        trunk="".join(
            _rounded_steps(216, middle, 244, 272, top + _HEIGHT / 2) for top in tops
        ),
        agent=_agent_box(agent, 0, middle - _HEIGHT / 2, 216),
        branches=tuple(
            _wide_branch(answer, top) for answer, top in zip(answers, tops, strict=True)
        ),
    )


def _wide_branch(answer: Answer, top: float) -> DrawnBranch:
    """The server stands beside its requirement."""
    left = 564
    line = top + _HEIGHT / 2
    requirement = _requirement_box(answer, 272, top, 292)
    if answer.server is None:
        # A dead end is a shorter line with a cross at its end; the words come behind
        # the cross.
        words = Words(left=left + 108, line=line)
        return _dead_end(
            answer,
            requirement,
            f"M{left:g} {line:g}H{left + 84:g}",
            _cross_at(left + 91, line),
            words,
        )
    return DrawnBranch(
        requirement=requirement,
        server=_server_box(answer.server, left + 96, top, 300),
        is_signed=bool(answer.server.signed),
        rejected=answer.rejected,
        line=f"M{left:g} {line:g}H{left + 94:g}",
        # The arrowhead is drawn from its upper end to the tip and back down, relative
        # to the line.
        end=f"M{left + 89:g} {line - 4:g}l5.5 4 -5.5 4",
        words=Words(left=left + 46, line=line - 8, anchor="middle"),
    )


def draw_narrow(agent: AgentFile, answers: Sequence[Answer]) -> Drawing:
    """One column, each server below its requirement."""
    trunk = ""
    branches = []
    top = _HEIGHT + 20
    for answer in answers:
        line = top + _HEIGHT / 2
        # The trunk runs down from the agent and turns right, by a quarter of a circle,
        # into each requirement.
        trunk += f"M14 {_HEIGHT}V{line - _RADIUS:g}q0 {_RADIUS} {_RADIUS} {_RADIUS}H30"
        branches.append(_narrow_branch(answer, top))
        # Two boxes with the line between them, then the gap to the next branch; a dead
        # end needs nearly as much for its words.
        top += 2 * _HEIGHT + (28 if answer.server else 2) + 22
    return Drawing(
        kind="narrow",
        width=300,
        height=top - 22,
        trunk=trunk,
        agent=_agent_box(agent, 0, 0, 300),
        branches=tuple(branches),
    )


def _narrow_branch(answer: Answer, top: float) -> DrawnBranch:
    """The server stands below its requirement."""
    left = 58
    end = top + _HEIGHT
    requirement = _requirement_box(answer, 30, top, 270)
    line = f"M{left:g} {end:g}V{end + 26:g}"
    if answer.server is None:
        return _dead_end(
            answer,
            requirement,
            line,
            _cross_at(left, end + 33),
            Words(left=left + 20, line=end + 30),
        )
    return DrawnBranch(
        requirement=requirement,
        server=_server_box(answer.server, left - 28, end + 28, 270),
        is_signed=bool(answer.server.signed),
        rejected=answer.rejected,
        line=line,
        end=f"M{left - 4:g} {end + 21:g}l4 5.5 4 -5.5",
        words=Words(left=left + 14, line=end + 18),
    )


def _dead_end(
    answer: Answer, requirement: Box, line: str, end: str, words: Words
) -> DrawnBranch:
    return DrawnBranch(
        requirement=requirement,
        server=None,
        is_signed=False,
        rejected=answer.rejected,
        line=line,
        end=end,
        words=words,
    )


def _agent_box(agent: AgentFile, left: float, top: float, width: float) -> Box:
    # Both lines are cut to the width that the padding of the box leaves.
    version = _fit_text(f"Agent, version {agent.version}", width - 32)
    return Box(
        left=left,
        top=top,
        width=width,
        upper=version,
        lower=_fit_text(agent.name, width - 28),
    )


def _requirement_box(answer: Answer, left: float, top: float, width: float) -> Box:
    category = _fit_text(answer.category, width - 32)
    # Scopes are set in a smaller letter, 7.4 pixels wide, so that more of them fit.
    scopes = _fit_list(answer.choice.requirement.permissions, (width - 32) / 7.4)
    return Box(left=left, top=top, width=width, upper=category, lower=scopes)


def _server_box(server: Server, left: float, top: float, width: float) -> Box:
    # The version must survive where a long id is cut.
    version = visible(f"@{server.version}")
    version = version if len(version) <= 14 else _fit_text(version, 14 * 8.5)  # noqa: PLR2004 - a third of the box
    # The id gets the room that the version leaves.
    name = _fit_text(server.id, width - 32 - 8.5 * len(version)) + version
    return Box(
        left=left, top=top, width=width, upper=name, lower=describe_claims(server)
    )


def describe_claims(server: Server) -> str:
    """The signature of a server and the place of its data, in one phrase."""
    return f"{_SIGNED_WORDS[server.signed]}, {describe_residency(server)}"


def describe_residency(server: Server) -> str:
    """The place where a server keeps data, in one phrase."""
    if server.residency is None:
        return "residency not known"
    return " or ".join(server.residency) or "no residency stated"


def _cross_at(left: float, line: float) -> str:
    return f"M{left - 5:g} {line - 5:g}l10 10m0 -10l-10 10"


def _rounded_steps(
    start: float, line: float, turn: float, end: float, target: float
) -> str:
    """A line that goes right, up or down, and right again, its corners rounded."""
    # A straight line needs no corners, and its radius would be 0.
    if target == line:
        return f"M{start:g} {line:g}H{end:g}"
    away = 1 if target > line else -1
    # The corner shrinks if the rows are close: two full radii might not fit between
    # them.
    bend = min(_RADIUS, abs(target - line) / 2) * away
    side = abs(bend)
    first_corner = f"H{turn - side:g}q{side:g} 0 {side:g} {bend:g}"
    second_corner = f"V{target - bend:g}q0 {bend:g} {side:g} {bend:g}"
    return f"M{start:g} {line:g}{first_corner}{second_corner}H{end:g}"


def _fit_text(value: str, room: float) -> str:
    """As much of a value as fits into `room` pixels in a fixed-width letter, with dots for the rest."""
    shown = visible(value)
    # A letter of the fixed-width font is 8.5 pixels wide at the size of the box.
    columns = int(room / 8.5)
    if _count_columns(shown) <= columns:
        return shown
    # One column stays free for the dots. Wide letters take two, so characters are
    # dropped until the rest fits.
    while shown and _count_columns(shown) > columns - 1:
        # A long value is first cut to the right length at once, since dropping one
        # letter at a time would take long.
        shown = shown[: columns - 1] if len(shown) >= columns else shown[:-1]
    return f"{shown}…"


def _fit_list(values: Sequence[str], columns: float) -> str:
    """As many values as fit, and how many more there are."""
    shown = ""
    for position, value in enumerate(values):
        longer = f"{shown}, {visible(value)}" if shown else visible(value)
        # As long as values are left, there must be room for their number as well.
        rest = len(values) - position - 1
        if _count_columns(longer) > columns - (len(f" +{rest}") if rest else 0):
            # This value counts as hidden too, unless it is the first: that one is cut,
            # so the list never begins with a number.
            hidden = f"+{rest + 1}"
            return (
                f"{shown} {hidden}"
                if shown
                else _fit_text(value, (columns - len(hidden) - 1) * 8.5)
                + _count_of_hidden(rest)
            )
        shown = longer
    return shown


def _count_of_hidden(rest: int) -> str:
    return f" +{rest}" if rest else ""


def _count_columns(value: str) -> int:
    # The sign for the rest and the brackets of a code point lie in the range of wide
    # letters, and are narrow.
    wide = [
        character
        for character in value
        if ord(character) >= _WIDE_CHARACTERS and character not in "…⟨⟩"
    ]
    return len(value) + len(wide)
