"""The report of `agent index import`."""

import argparse
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from agent_resolver.cli.output import (
    condense,
    err,
    issue_document,
    out,
    out_json,
    place,
    shown,
)
from agent_resolver.core.count import counted
from agent_resolver.exchange.imported import Note, NoteKind
from agent_resolver.exchange.merge import Merged
from agent_resolver.exchange.source_file import SourceReading, SourcesReading

_FEW: Final = 3
_MANY: Final = 10
_TITLES: Final = {
    NoteKind.ENVIRONMENT: "need environment variables",
    NoteKind.OPTIONAL_ENVIRONMENT: "read optional environment variables, which the entry leaves out",
    NoteKind.TOKEN: "need a bearer token",
    NoteKind.HEADER: "have headers that are not carried over",
    NoteKind.MISSING_VALUE: "have a value to fill in",
    NoteKind.GRANT: "ask for access to this machine that the entry does not give",
    NoteKind.OTHER_WAY: "can be reached in other ways too",
    NoteKind.TOOLS: "have a list of tools; `agent index probe` pins what they offer",
    NoteKind.STATUS: "have a status that the index has no word for",
    NoteKind.NOT_CARRIED: "have settings that are not carried over",
    NoteKind.MAPPED_ID: "have a name that cannot be an id, and got one",
    NoteKind.ID_CLASH: "have a name that maps to the id of another, and got a suffix",
    NoteKind.OTHER_SERVER: "share an id with a server that is another package",
}
_STATUS_WORDS: Final = {
    "written": "written",
    "unchanged": "says all of this already",
    "would-write": "would be written",
    "refused": "not written",
}


def report_import(
    options: argparse.Namespace, reading: SourcesReading, merged: Merged, status: str
) -> None:
    """Print what became of the sources and the index."""
    # Some notes arise while a source is read and others when all are merged; the report
    # makes no difference.
    notes = (
        *(note for file in reading.files for note in file.imported.notes),
        *merged.notes,
    )
    if options.json:
        out_json(_import_document(options.output, reading, merged, status, notes))
        return
    for file in reading.files:
        _print_faults(file)
    _print_summary(options.output, reading, merged, status)
    _print_lines(
        "conflict", "kept the earlier value", merged.conflicts, everything=options.all
    )
    _print_lines(
        "update",
        "changed since the last import",
        merged.updates,
        everything=options.all,
    )
    _print_notes(notes, everything=options.all)
    _err_warnings(merged.warnings, everything=options.all)
    _print_settings(notes, merged, everything=options.all)
    # It names every server that was read, also those that changed nothing; it is empty
    # only if no entry was usable.
    if merged.ids:
        err("hint: `agent index coverage` says which facts to fill in first")
    else:
        err("error: No server could be imported")


def _import_document(
    path: str,
    reading: SourcesReading,
    merged: Merged,
    status: str,
    notes: Sequence[Note],
) -> dict[str, object]:
    # Each file is listed with its count, zero included: a source that yielded nothing
    # must not drop out of sight.
    sources = [
        {
            "path": file.path,
            "format": file.format or None,
            "servers": len(file.imported.entries),
        }
        for file in reading.files
    ]
    faults = [
        {"path": file.path, "issues": list(map(issue_document, file.imported.faults))}
        for file in reading.files
        if file.imported.faults
    ]
    return {
        "success": status != "refused",
        "index": path,
        "status": status,
        "sources": sources,
        "passedOver": reading.passed_over,
        "total": len(merged.entries),
        "added": merged.added,
        "updates": merged.updates,
        "conflicts": merged.conflicts,
        "warnings": [_note_document(note, merged) for note in merged.warnings],
        "notes": [_note_document(note, merged) for note in notes],
        "settings": {"servers": dict(_token_settings(notes, merged))},
        "faults": faults,
    }


def _note_document(note: Note, merged: Merged) -> dict[str, object]:
    return {
        "id": merged.ids.get(note.server),
        "kind": note.kind,
        "server": note.server,
        "message": note.message,
        "names": note.names,
    }


def _token_settings(
    notes: Iterable[Note], merged: Merged
) -> Iterable[tuple[str, dict[str, str]]]:
    """The settings that belong in agent.toml, by the id of the server."""
    for note in notes:
        # A note of this kind names a variable and never its value: secrets are not
        # carried over.
        if note.kind is NoteKind.TOKEN:
            yield merged.ids[note.server], {"token_env": note.names[0]}


def _print_faults(file: SourceReading) -> None:
    if not file.imported.faults:
        return
    err(f"✗ {shown(file.path)}: {counted(len(file.imported.faults), 'fault')}")
    # Many faults of one kind are cut to a few, so that a broken catalogue does not bury
    # the others.
    kept, left_out = condense(file.imported.faults, lambda issue: issue.code)
    for issue in kept:
        err(f"  - {issue} ({place(file.path, issue)})")
        if issue.hint:
            err(f"    hint: {issue.hint}")
    for code, hidden in left_out.items():
        err(f"  … and {len(hidden)} more of `{code}`; --json has each")


def _print_summary(
    path: str, reading: SourcesReading, merged: Merged, status: str
) -> None:
    counts = Counter[str]()
    # Servers are counted by format, because one import may mix client configurations
    # and catalogues.
    for file in reading.files:
        counts[file.format] += len(file.imported.entries)
    listed = ", ".join(
        f"{count:,} of {name}" for name, count in sorted(counts.items()) if count
    )
    total = sum(counts.values())
    out(f"{counted(total, 'server')} read" + (f": {listed}" if listed else ""))
    if reading.passed_over:
        out(f"{counted(len(reading.passed_over), 'file')} of other formats passed over")
    sign = "✗" if status == "refused" else "✓"
    facts = counted(len(merged.updates), "changed fact")
    conflicts = counted(len(merged.conflicts), "conflict")
    changes = f"{len(merged.added):,} new, {facts}, {conflicts}"
    out(
        f"{sign} {shown(path)} {_STATUS_WORDS[status]}: {counted(len(merged.entries), 'server')}, {changes}"
    )


def _err_warnings(warnings: Sequence[Note], *, everything: bool) -> None:
    # A short list is shown whole: a cut to a few pays only where many are alike.
    kept = warnings if everything or len(warnings) <= _MANY else warnings[:_FEW]
    for note in kept:
        err(f"warning: {note.server}: {note.message}")
    more = len(warnings) - len(kept)
    if more:
        err(
            f"warning: {more} more ids mean another server than before: --all shows each"
        )


def _print_lines(
    word: str, meaning: str, lines: Sequence[object], *, everything: bool
) -> None:
    if not lines:
        return
    kept = lines if everything or len(lines) <= _MANY else lines[:_FEW]
    for line in kept:
        out(f"  {word}: {line}")
    more = len(lines) - len(kept)
    if more:
        out(f"  … and {more} more that {meaning}: --all shows each")


def _print_notes(notes: Sequence[Note], *, everything: bool) -> None:
    """One line for each kind of note, or each note."""
    # The order of the enum decides, so that the report does not depend on the order of
    # the sources.
    for kind in NoteKind:
        of_kind = [note for note in notes if note.kind is kind]
        if of_kind:
            _print_kind(kind, of_kind, everything=everything)
    # The advice is printed once, and only if a kind was summed up above.
    counts = Counter(note.kind for note in notes).values()
    if not everything and any(count > _FEW for count in counts):
        out("  --all shows each note")


def _print_kind(kind: NoteKind, notes: Sequence[Note], *, everything: bool) -> None:
    """The notes of one kind, or one line for many of them."""
    if everything or len(notes) <= _FEW:
        for note in notes:
            out(f"  {kind}: {note.server}: {note.message}")
        return
    named = ", ".join(note.server for note in notes[:_FEW])
    out(f"  {kind}: {len(notes):,} {_TITLES[kind]} ({named}, …)")


def _print_settings(notes: Sequence[Note], merged: Merged, *, everything: bool) -> None:
    settings = list(_token_settings(notes, merged))
    if not settings:
        return
    kept = settings if everything else settings[:_FEW]
    out("For agent.toml:")
    for server_id, values in kept:
        out(f'  [servers."{server_id}"]')
        out(f'  token_env = "{values["token_env"]}"')
    if len(kept) < len(settings):
        out(f"  … and {len(settings) - len(kept)} more: --all shows each")
