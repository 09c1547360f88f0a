"""`agent audit`: what was decided and done, and whether the record of it is whole."""

import argparse
import re
from typing import TYPE_CHECKING, Final

import msgspec

from agent_resolver.cli.errors import Refusal, Usage
from agent_resolver.cli.option import (
    Commands,
    add_agents,
    add_command,
    add_group,
    add_json,
    add_project,
    add_token,
    add_trust,
    session_of,
)
from agent_resolver.cli.output import err, out, out_json, safe
from agent_resolver.cli.reader import reader_of
from agent_resolver.core.authorization import may_read_record
from agent_resolver.core.count import counted, plural
from agent_resolver.schema.audit import CONTENT, SHOWN, AuditRecord
from agent_resolver.storage.errors import FileError
from agent_resolver.storage.excerpt import excerpt_faults, open_excerpt, record_document
from agent_resolver.storage.port import Snapshot
from agent_resolver.storage.trail import trail_faults

if TYPE_CHECKING:
    from agent_resolver.project.session import Session
    from agent_resolver.schema.caller import Caller
    from agent_resolver.storage.port import ProjectStore

_MAX_DIGITS: Final = 18
# A root is a SHA-256. A trace id has 16 bytes, as in W3C Trace Context.
_ROOT_DIGITS: Final = 64
_TRACE_DIGITS: Final = 32
_MOST_NAMES: Final = 3
"""How many runs are named when several fit."""

_EXAMPLES = """\
  agent audit show --last 20                              what was decided and done
  agent audit verify                                      is the record of it whole?
"""
_SHOW_EXAMPLES = """\
  agent audit show --last 20
  agent audit show --run 4f1c0a9e --json
  agent audit show --trace 4bf92f3577b34da6a3ce929d0e0e4736
"""
_VERIFY_EXAMPLES = """\
  agent audit verify
  agent audit verify --root "$(cat noted.txt)"   fail unless the trail once ended in this root
"""


def add_to(commands: Commands) -> None:
    """Declare the commands."""
    group = add_group(commands, "audit", "show and verify the audit trail", _EXAMPLES)
    show = add_command(group, "show", "print the records of the trail", _SHOW_EXAMPLES)
    show.add_argument(
        "--run",
        dest="run_id",
        type=_parse_run_id,
        metavar="ID",
        help="only the records of this run; the beginning of its id is enough",
    )
    show.add_argument(
        "--trace",
        metavar="ID",
        help="only the records of this trace, 32 hexadecimal digits",
    )
    show.add_argument(
        "--last", type=_parse_count, metavar="N", help="only the last N records"
    )
    add_token(show)
    verify = add_command(
        group,
        "verify",
        "find any record that was changed, removed or reordered",
        _VERIFY_EXAMPLES,
    )
    verify.add_argument(
        "--root",
        metavar="HEX",
        help="a sealed root that was noted down earlier: fail unless the trail had it",
    )
    for parser, run in ((show, run_show), (verify, run_verify)):
        add_agents(parser)
        add_project(parser)
        add_trust(parser)
        add_json(parser)
        parser.set_defaults(run=run)


def run_show(options: argparse.Namespace) -> int:
    """Print the records, oldest first: where an issuer vouches for callers, one's own, or all for an auditor."""
    hint = "`agent audit show --json` has the trace of each record"
    trace = (
        None
        if options.trace is None
        else _parse_hexadecimal("--trace", options.trace, _TRACE_DIGITS, hint)
    )
    with session_of(options) as session:
        store = existing_store(session)
        reader = reader_of(session, options)
        # One snapshot serves the whole choice, so that all records belong to one
        # moment.
        records = store.read_now(
            lambda snapshot: _choose_records(snapshot, options, trace, reader)
        )
        shown = [(record, _excerpt_of(record, store)) for record in records]
    if options.json:
        out_json([record_document(record, excerpt) for record, excerpt in shown])
        return 0
    for record, excerpt in shown:
        # The excerpt has a line of its own below, and its digest means something to
        # `agent audit verify` alone.
        facts = {
            name: value
            for name, value in record.body.items()
            if name not in {CONTENT, SHOWN}
        }
        body = msgspec.json.encode(facts, order="sorted").decode()
        out(
            safe(
                f"{record.position} {record.at} {record.run[:8]}.{record.sequence} {record.kind} {body}"
            )
        )
        if excerpt is not None:
            out(safe(f"  {excerpt}"))
    return 0


def _excerpt_faults(snapshot: Snapshot, store: "ProjectStore") -> list[str]:
    """The excerpts that were changed; a copy of a trail can be verified without the key that opens them."""
    try:
        seal = store.find_seal()
    except FileError:
        return []
    return list(excerpt_faults(snapshot.records(), seal))


def _excerpt_of(record: AuditRecord, store: "ProjectStore") -> str | None:
    """The excerpt of arguments or a result, or why it cannot be read; None if the record has none."""
    # A record without an excerpt is shown without the key.
    if record.sealed is None and CONTENT not in record.body:
        return None
    try:
        return open_excerpt(record, store.find_seal())
    except FileError as error:
        return f"(it cannot be read: {error})"


def run_verify(options: argparse.Namespace) -> int:
    """Recompute the whole chain."""
    hint = "give the whole root, as `agent audit verify` printed it"
    noted = (
        ""
        if options.root is None
        else _parse_hexadecimal("--root", options.root, _ROOT_DIGITS, hint)
    )
    with session_of(options) as session:
        store = existing_store(session)
        key = store.trail_key
        faults, seal = store.read_now(
            lambda snapshot: trail_faults(snapshot, key, noted)
        )
        faults += store.read_now(lambda snapshot: _excerpt_faults(snapshot, store))
    count = seal.count
    root = seal.root
    if options.json:
        # The anchor is the position of the last record that was pruned, and so their
        # number as well.
        pruned = {"pruned": seal.anchor} if seal.anchor else {}
        out_json(
            {
                "success": not faults,
                "records": count,
                **pruned,
                "root": root,
                "faults": faults,
            }
        )
    elif faults:
        err("✗ The audit trail does not verify:")
        for fault in faults:
            err(f"  - {safe(fault)}")
    else:
        kept = count - seal.anchor
        after = f" after {seal.anchor} pruned" if seal.anchor else ""
        verify = plural(kept, "verifies", "verify")
        out(f"✓ {counted(kept, 'record')} {verify}{after}, root {root or '(empty)'}")
    return 1 if faults else 0


def existing_store(session: "Session") -> "ProjectStore":
    """The state, which must be there: looking at what was recorded must not make an empty one."""
    require_state(session)
    return session.store


def require_state(session: "Session") -> None:
    """Refuse to go on where there is no state yet."""
    if not session.has_state:
        hint = "nothing was recorded here yet; name another project's agent file with `--agents`"
        is_missing = (
            "has no state" if session.state_place.is_outside else "does not exist"
        )
        raise Usage(f"`{session.state_path}` {is_missing}", hint)


def _choose_records(
    trail: Snapshot,
    options: argparse.Namespace,
    trace: str | None,
    reader: "Caller | None",
) -> list[AuditRecord]:
    run = options.run_id
    last = options.last
    # Where nothing narrows the choice, the store reads the last records alone, however
    # long the trail is.
    if run is None and trace is None and reader is None:
        return list(trail.records(last=last))
    chosen = _readable_records(trail, run, reader)
    if trace is not None:
        chosen = [record for record in chosen if record.body.get("trace") == trace]
        if not chosen:
            of_run = "" if run is None else f"of run {run} "
            raise Refusal(
                f"No record {of_run}has the trace {trace}",
                "`agent audit show` prints every record",
            )
    if last is None:
        return chosen
    # `chosen[-last:]` would be every record where none is asked for.
    return chosen[max(0, len(chosen) - last) :]


def _readable_records(
    trail: Snapshot, run: str | None, reader: "Caller | None"
) -> list[AuditRecord]:
    """The records that the caller may read: of the run, if one is named."""
    # The store finds a whole id at once, where the beginning of one takes a look at
    # every record.
    if run is not None and reader is None:
        of_exact_id = list(trail.records(run))
        if of_exact_id:
            return of_exact_id
    # Records of others are not there, so that no message names a run of theirs.
    readable = [
        record
        for record in trail.records()
        if reader is None or may_read_record(record.body, reader)
    ]
    if run is None:
        return readable
    return _records_of_run(readable, run)


def _records_of_run(records: list[AuditRecord], run: str) -> list[AuditRecord]:
    """The records of the one run whose id is, or begins with, what was given."""
    known = {record.run for record in records}
    # A whole id is not ambiguous, even if longer ids begin with it.
    names = (
        [run]
        if run in known
        else sorted(name for name in known if name.startswith(run))
    )
    if not names:
        raise Refusal(
            f"No run has an id that begins with {run}",
            "`agent audit show` prints every run",
        )
    if len(names) > 1:
        more = (
            "" if len(names) <= _MOST_NAMES else f" and {len(names) - _MOST_NAMES} more"
        )
        raise Refusal(
            f"Several runs begin with {run}: {', '.join(names[:_MOST_NAMES])}{more}",
            "give more of the id",
        )
    return [record for record in records if record.run == names[0]]


def _parse_hexadecimal(option: str, given: str, count: int, hint: str) -> str:
    digits = given.strip().lower()
    if not re.fullmatch(f"[0-9a-f]{{{count}}}", digits):
        raise Usage(f"`{option}` takes {count} hexadecimal digits", hint)
    return digits


def _parse_run_id(argument: str) -> str:
    if not (
        argument and argument.isprintable()
    ):  # Bytes that are no UTF-8 are not printable either.
        raise argparse.ArgumentTypeError("no run has an id like that")
    return argument


def _parse_count(argument: str) -> int:
    # SQLite counts to 2**63, and no trail has that many records.
    if not (argument.isascii() and argument.isdigit() and len(argument) <= _MAX_DIGITS):
        raise argparse.ArgumentTypeError(
            f"expected a number of records, found {argument!r}"
        )
    return int(argument)
