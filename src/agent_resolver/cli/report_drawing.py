"""The drawing of a report: from the agent to its requirements, and from each to its server or to nothing."""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from agent_resolver.cli.report_markup import count, plain, visible
from agent_resolver.core.server import Server
from agent_resolver.schema.agent_file import AgentFile, Requirement

_WIDE_CHARACTERS: Final = 0x1100
"""From here on, a character may take the room of two."""

_HEIGHT: Final = 56
_RADIUS: Final = 10
_MOST_BESIDE_THE_MIDDLE: Final = 8
"""With more requirements, the agent stands at the top, where a reader starts."""


class DrawnBranch(Struct, frozen=True):
    """One requirement, its server or None, and how many candidates were rejected for it."""

    requirement: Requirement
    server: Server | None
    rejected: int


def drawing(agent: AgentFile, branches: Sequence[DrawnBranch]) -> str:
    """The drawing twice, of which a screen shows the one that fits its width."""
    return _wide(agent, branches) + "\n" + _narrow(agent, branches)


def _wide(agent: AgentFile, branches: Sequence[DrawnBranch]) -> str:
    """Three columns, a row for each requirement."""
    step = _HEIGHT + 16
    tall = step * len(branches) - 16
    middle = tall / 2 if len(branches) <= _MOST_BESIDE_THE_MIDDLE else _HEIGHT / 2
    tops = [row * step for row in range(len(branches))]
    # One path for all lines: where several run over one another, they look like one.
    lines = _path("".join(_elbow(216, middle, 244, 272, top + _HEIGHT / 2) for top in tops))
    parts = [lines, _agent(agent, 0, middle - _HEIGHT / 2, 216)]
    for top, branch in zip(tops, branches, strict=True):
        parts += [_requirement(branch, 272, top, 292), *_beside(branch, 564, top)]
    return _svg("wide", 960, tall, branches, parts)


def _beside(branch: DrawnBranch, left: float, top: float) -> Iterator[str]:
    line = top + _HEIGHT / 2
    if branch.server:
        yield _arrow(f"M{left:g} {line:g}H{left + 94:g}", left + 95, line)
        yield _label(left + 46, line - 8, f"{branch.rejected:,} rejected", "middle")
        yield _server(branch.server, left + 96, top, 300)
    else:
        yield _path(f"M{left:g} {line:g}H{left + 84:g}", "line dead") + _cross(left + 91, line)
        yield _nothing(branch, left + 108, line)


def _narrow(agent: AgentFile, branches: Sequence[DrawnBranch]) -> str:
    """One column, each server below its requirement."""
    parts = [_agent(agent, 0, 0, 300)]
    lines, top = "", _HEIGHT + 20
    for branch in branches:
        line = top + _HEIGHT / 2
        lines += f"M14 {_HEIGHT}V{line - _RADIUS:g}q0 {_RADIUS} {_RADIUS} {_RADIUS}H30"
        parts += [_requirement(branch, 30, top, 270), *_below(branch, 58, top + _HEIGHT)]
        top += 2 * _HEIGHT + (28 if branch.server else 2) + 22
    return _svg("narrow", 300, top - 22, branches, [_path(lines), *parts])


def _below(branch: DrawnBranch, left: float, top: float) -> Iterator[str]:
    if branch.server:
        yield _arrow(f"M{left:g} {top:g}V{top + 26:g}", left, top + 27, down=True)
        yield _label(left + 14, top + 18, f"{branch.rejected:,} rejected")
        yield _server(branch.server, left - 28, top + 28, 270)
    else:
        yield _path(f"M{left:g} {top:g}V{top + 26:g}", "line dead") + _cross(left, top + 33)
        yield _nothing(branch, left + 20, top + 30)


def _svg(kind: str, width: float, height: float, branches: Sequence[DrawnBranch], parts: Sequence[str]) -> str:
    failed = sum(branch.server is None for branch in branches)
    title = "Which server serves which requirement"
    said = (
        f"From the agent, a line leads to each of its {count(len(branches), 'requirement')}, "
        f"and from each a line to the server that was chosen for it; {count(failed, 'line')} "
        f"{'ends' if failed == 1 else 'end'} without a server. The table after the drawing says the same in words."
    )
    return (
        f'<svg class="drawing {kind}" viewBox="-1 -1 {width + 2:g} {height + 2:g}" role="img" '
        f'aria-labelledby="{kind}-title" aria-describedby="{kind}-description">\n'
        f'<title id="{kind}-title">{title}</title>\n<desc id="{kind}-description">{said}</desc>\n'
        + "\n".join(parts)
        + "\n</svg>"
    )


def _agent(agent: AgentFile, left: float, top: float, width: float) -> str:
    version = _fit(f"Agent, version {agent.version}", width - 32)
    lines = [_text(16, 24, version, "kind"), _text(16, 43, _fit(agent.name, width - 28))]
    return _node("agent", left, top, width, lines)


def _requirement(branch: DrawnBranch, left: float, top: float, width: float) -> str:
    need = branch.requirement
    scopes = _fit_list(need.permissions, (width - 32) / 7.4)
    lines = [_text(16, 24, _fit(need.category, width - 32)), _text(16, 43, scopes, "detail")]
    return _node("requirement" if branch.server else "requirement failed", left, top, width, lines)


def _server(server: Server, left: float, top: float, width: float) -> str:
    # The version must survive where a long id is cut.
    version = visible(f"@{server.version}")
    version = version if len(version) <= 14 else _fit(version, 14 * 8.5)  # noqa: PLR2004 - a third of the box
    shown = _fit(server.id, width - 32 - 8.5 * len(version)) + version
    mark = f'<circle class="{"seal" if server.signed else "seal open"}" cx="22" cy="39" r="5"/>'
    mark += '<path class="tick" d="M19.6 39.2l1.8 1.8 3-3.8"/>' if server.signed else ""
    said = f"{SIGNED_WORDS[server.signed]}, {residency_words(server)}"
    lines = [_text(16, 24, shown), mark, _text(33, 43, said, "detail sans")]
    return _node("server", left, top, width, lines)


SIGNED_WORDS: Final = {True: "signed", False: "not signed", None: "signed: not known"}


def residency_words(server: Server) -> str:
    """Where a server keeps data, in one phrase."""
    if server.residency is None:
        return "residency not known"
    return " or ".join(server.residency) or "no residency stated"


def _nothing(branch: DrawnBranch, left: float, line: float) -> str:
    rejected = f"{count(branch.rejected, 'candidate')} rejected" if branch.rejected else "no server offers it"
    words = _text(left, line - 3, "No server", "word failed") + _text(left, line + 15, rejected, "detail sans")
    return f"<g>{words}</g>"


def _node(kind: str, left: float, top: float, width: float, inside: Sequence[str]) -> str:
    """A box that nothing in it can leave: an inner drawing is cut at its edges."""
    box = f'<rect class="box" x=".5" y=".5" width="{width - 1:g}" height="{_HEIGHT - 1}" rx="8"/>'
    place = f'x="{left:g}" y="{top:g}" width="{width:g}" height="{_HEIGHT}"'
    return f'<svg class="node {kind}" {place}>{box}{"".join(inside)}</svg>'


def _text(left: float, line: float, value: str, kind: str = "word") -> str:
    return f'<text class="{kind}" x="{left:g}" y="{line:g}">{plain(value)}</text>'


def _label(left: float, line: float, value: str, anchor: str = "start") -> str:
    return f'<text class="label" x="{left:g}" y="{line:g}" text-anchor="{anchor}">{value}</text>'


def _path(steps: str, kind: str = "line") -> str:
    return f'<path class="{kind}" d="{steps}"/>'


def _arrow(steps: str, left: float, line: float, *, down: bool = False) -> str:
    head = f"M{left - 4:g} {line - 6:g}l4 5.5 4 -5.5" if down else f"M{left - 6:g} {line - 4:g}l5.5 4 -5.5 4"
    return _path(steps) + _path(head)


def _cross(left: float, line: float) -> str:
    return _path(f"M{left - 5:g} {line - 5:g}l10 10m0 -10l-10 10", "cross")


def _elbow(start: float, line: float, turn: float, end: float, target: float) -> str:
    """A line that goes right, up or down, and right again, its corners rounded."""
    if target == line:
        return f"M{start:g} {line:g}H{end:g}"
    away = 1 if target > line else -1
    bend = min(_RADIUS, abs(target - line) / 2) * away
    side = abs(bend)
    return (
        f"M{start:g} {line:g}H{turn - side:g}q{side:g} 0 {side:g} {bend:g}"
        f"V{target - bend:g}q0 {bend:g} {side:g} {bend:g}H{end:g}"
    )


def _fit(value: str, room: float) -> str:
    """As much of a value as fits into `room` pixels in a fixed-width letter, with dots for the rest."""
    shown = visible(value)
    columns = int(room / 8.5)
    if _columns(shown) <= columns:
        return shown
    while shown and _columns(shown) > columns - 1:
        shown = shown[: columns - 1] if len(shown) >= columns else shown[:-1]
    return f"{shown}…"


def _fit_list(values: Sequence[str], columns: float) -> str:
    """As many values as fit, and how many more there are."""
    shown = ""
    for position, value in enumerate(values):
        longer = f"{shown}, {visible(value)}" if shown else visible(value)
        rest = len(values) - position - 1
        if _columns(longer) > columns - (len(f" +{rest}") if rest else 0):
            hidden = f"+{rest + 1}"
            return f"{shown} {hidden}" if shown else _fit(value, (columns - len(hidden) - 1) * 8.5) + _more(rest)
        shown = longer
    return shown


def _more(rest: int) -> str:
    return f" +{rest}" if rest else ""


def _columns(value: str) -> int:
    return sum(2 if ord(character) >= _WIDE_CHARACTERS and character not in "…⟨⟩" else 1 for character in value)
