"""The output of `agent diff`: for a person, for a program, for a review comment."""

import re
from collections.abc import Sequence

from msgspec import Struct

from agent_resolver.cli.output import out, out_json, safe
from agent_resolver.core.lock_diff import Change, Risk, worst

_SIGNS = {Risk.SAFE: "✓", Risk.REVIEW: "?", Risk.RISK: "✗"}
_WORDS = {
    None: "Nothing changed",
    Risk.SAFE: "Nothing that changed is a risk",
    Risk.REVIEW: "Something changed that needs a look",
    Risk.RISK: "Something changed that is a risk",
}
# Everything that may be markup: an underscore counts as a character of words, and may
# be emphasis all the same.
_MARKDOWN = re.compile(r"[^\w ]|_")
# None of these characters ends a code span or a cell of a table.
_HARMLESS = re.compile(r"[A-Za-z0-9 .,:/@+_-]+")


class Source(Struct, frozen=True):
    """The files that one side of the comparison is made of."""

    lock: str
    agents: str | None
    """None where there is no agent file beside the lock."""
    index: str | None
    """None where there is no index beside the lock."""


class DiffReport(Struct, frozen=True):
    """Two locks and what changed between them."""

    old: Source
    new: Source
    changes: tuple[Change, ...]


def print_json(report: DiffReport) -> None:
    """The whole comparison as one JSON document."""
    changes = [
        {
            "kind": change.kind,
            "risk": change.risk,
            "subject": change.subject,
            "before": change.before,
            "after": change.after,
        }
        for change in report.changes
    ]
    document = {
        "worst": worst(report.changes),
        "old": report.old,
        "new": report.new,
        "changes": changes,
    }
    out_json({"success": True, **document, "notes": _notes_on_gaps(report)})


def print_text(report: DiffReport) -> None:
    """The comparison for a person, the worst first."""
    out(f"{report.old.lock} → {report.new.lock}")
    for change in _worst_first(report.changes):
        values = safe(_render_values(change))
        out(
            f"  {_SIGNS[change.risk]} {change.risk:<6}  {safe(change.subject)}: {change.kind} {values}"
        )
    out(_WORDS[worst(report.changes)])
    for note in _notes_on_gaps(report):
        out(f"hint: {note}")


def print_markdown(report: DiffReport) -> None:
    """The comparison for a review comment; names from the files cannot pose as markup there."""
    out(f"### {_WORDS[worst(report.changes)]}")
    out()
    if report.changes:
        out("| risk | about | change | before | after |")
        out("| --- | --- | --- | --- | --- |")
    for change in _worst_first(report.changes):
        risk = f"**{change.risk}**" if change.risk is Risk.RISK else change.risk.value
        cells = (
            risk,
            _render_code(change.subject),
            change.kind.value,
            _render_code(change.before),
            _render_code(change.after),
        )
        out(f"| {' | '.join(cells)} |")
    if report.changes:
        out()
    out(
        f"Compared {_render_code(report.old.lock)} with {_render_code(report.new.lock)} (`agent diff`)."
    )
    for note in _notes_on_gaps(report):
        out()
        out(f"> {note}")


def _worst_first(changes: Sequence[Change]) -> list[Change]:
    # The members of `Risk` come with the least first. The sort is stable, so changes of
    # one risk keep their order.
    order = list(Risk)
    return sorted(changes, key=lambda change: -order.index(change.risk))


def _render_values(change: Change) -> str:
    if change.before is None:
        return f"+ {change.after}"
    return (
        f"- {change.before}"
        if change.after is None
        else f"{change.before} → {change.after}"
    )


def _notes_on_gaps(report: DiffReport) -> list[str]:
    """The parts that could not be compared."""
    notes = []
    sides = (report.old, report.new)
    if not all(side.index for side in sides):
        notes.append(
            "residency, signature and publisher were not compared: "
            "there is no index beside both locks, name them with `--old-index` and `--new-index`"
        )
    elif report.old.index == report.new.index:
        # Facts are read from the index of today, so one index for both sides agrees
        # with itself.
        notes.append(
            "both locks were held against one index, so a fact that changed in it does not show"
        )
    if not all(side.agents for side in sides):
        notes.append(
            "constraints were not compared: "
            "there is no agent file beside both locks, name them with `--old-agents` and `--new-agents`"
        )
    return notes


def _render_code(value: str | None) -> str:
    """Text as code in a table cell, whatever it holds."""
    if not value:
        return ""
    if _HARMLESS.fullmatch(value):
        return f"`{value}`"
    # Markdown resolves character references inside of an element, and leaves them as
    # they are in a code span.
    return f"<code>{_MARKDOWN.sub(lambda found: f'&#{ord(found.group())};', safe(value))}</code>"
