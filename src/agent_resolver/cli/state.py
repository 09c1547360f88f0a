"""`agent state`: what a project keeps, a copy of it, and the removal of what is old."""

import argparse
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from agent_resolver.cli.audit import existing_store, require_state
from agent_resolver.cli.errors import Usage
from agent_resolver.cli.option import (
    Commands,
    add_agents,
    add_command,
    add_group,
    add_json,
    add_project,
    add_trust,
    output_path,
    session_of,
)
from agent_resolver.cli.output import err, out, out_json, safe
from agent_resolver.core.approval import instant
from agent_resolver.core.count import counted

if TYPE_CHECKING:
    from agent_resolver.project.state import Pruned, StateInfo

_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGE: Final = re.compile(r"(?P<count>[0-9]{1,6})(?P<unit>[mhdw])")
_DEFAULT_AGE: Final = "30d"
_STATUSES: Final = ("done", "failed", "cancelled")

_EXAMPLES = """\
  agent state info                                        what is kept, and how much of it
  agent state backup /backups/state-2026-01-31.db         copy it while it is in use
  agent state prune --older-than 30d                      remove what ended a month ago
  agent state rotate-key                                  seal it with another key
  agent state migrate --to postgresql://db/agents         move it into Postgres
"""
_INFO_EXAMPLES = """\
  agent state info
  agent state info --json
"""
_BACKUP_EXAMPLES = """\
  agent state backup /backups/state-2026-01-31.db
"""
_ROTATE_EXAMPLES = """\
  agent state rotate-key                                  a new key in the key file
  NEW=... OLD=... agent state rotate-key --config state.key_env=NEW --config state.old_key_env=OLD
"""
_MIGRATE_EXAMPLES = """\
  agent state migrate --to postgresql://agents@db.example/agents?sslmode=verify-full
  PGPASSWORD=... agent state migrate --to postgresql://agents@localhost/agents --json
"""
_PRUNE_EXAMPLES = """\
  agent state prune --older-than 30d --dry-run
  agent state prune --older-than 12h
  agent state prune --older-than 7d --status failed --status cancelled
  agent state prune --audit-before 2026-01-01T00:00:00Z   and the audit records of last year
"""


def add_to(commands: Commands) -> None:
    """Declare the commands."""
    group = add_group(
        commands,
        "state",
        "look at the state of a project, copy it, and remove what is old",
        _EXAMPLES,
    )
    info = add_command(group, "info", "print what the state holds", _INFO_EXAMPLES)
    backup = add_command(
        group, "backup", "copy the state to a file while it is in use", _BACKUP_EXAMPLES
    )
    backup.add_argument(
        "file",
        metavar="FILE",
        type=output_path,
        help="the copy; it must not be there yet",
    )
    prune = add_command(
        group,
        "prune",
        "remove runs, calls and inbox items that ended long ago",
        _PRUNE_EXAMPLES,
    )
    prune.add_argument(
        "--older-than",
        metavar="AGE",
        default=_DEFAULT_AGE,
        help=f"how long ago they ended: a number and m, h, d or w (default: {_DEFAULT_AGE})",
    )
    prune.add_argument(
        "--audit-before",
        metavar="TIME",
        help="also remove audit records from before this time (ISO 8601, or an age); a sealed anchor stays",
    )
    prune.add_argument(
        "--status",
        action="append",
        choices=_STATUSES,
        metavar="STATUS",
        help=f"only runs and tasks that ended so, and what belongs to them: {', '.join(_STATUSES)}; repeatable",
    )
    prune.add_argument(
        "--dry-run",
        action="store_true",
        help="remove nothing, and say what would be removed",
    )
    rotate = add_command(
        group, "rotate-key", "seal the state with another key", _ROTATE_EXAMPLES
    )
    rotate.add_argument(
        "--from-file",
        action="store_true",
        help="the key file sealed the state, and `state.key_env` is new",
    )
    rotate.add_argument(
        "--from-earlier-version",
        action="store_true",
        help="take over a state whose values do not name their key",
    )
    migrate = add_command(
        group,
        "migrate",
        "move the state from its file into Postgres",
        _MIGRATE_EXAMPLES,
    )
    migrate.add_argument(
        "--to",
        metavar="URL",
        required=True,
        help="the database, `postgresql://...`; it must not hold a state, and the file stays as it is",
    )
    each = (
        (info, run_info),
        (backup, run_backup),
        (prune, run_prune),
        (rotate, run_rotate_key),
        (migrate, run_migrate),
    )
    for parser, run in each:
        add_agents(parser)
        add_project(parser)
        add_trust(parser)
        add_json(parser)
        parser.set_defaults(run=run)


def run_info(options: argparse.Namespace) -> int:
    """Print what the state holds."""
    from agent_resolver.project.state import state_info

    with session_of(options) as session:
        existing_store(session)
        info = state_info(session, instant(datetime.now(UTC)))
    if options.json:
        out_json(info)
    else:
        _print_info(info)
    return 0


def run_backup(options: argparse.Namespace) -> int:
    """Copy the state."""
    from agent_resolver.project.state import back_up

    with session_of(options) as session:
        # Looking for the state must not make an empty one, which would then be backed
        # up.
        existing_store(session)
        size = back_up(session, options.file)
        # A key that comes from a variable is kept by the operator; one in a file has to
        # be backed up as well.
        has_key_file = not session.config.state.key_env
        key_path = session.key_path
    if options.json:
        out_json({"success": True, "path": options.file, "bytes": size})
        return 0
    out(safe(f"✓ {options.file}: {size} bytes"))
    if has_key_file:
        err(
            safe(
                f"hint: what is in it is sealed with `{key_path}`: keep a copy of that too, elsewhere"
            )
        )
    return 0


def run_rotate_key(options: argparse.Namespace) -> int:
    """Seal the state with another key."""
    import secrets

    from agent_resolver.project.key_rotation import rotate_key

    with session_of(options) as session:
        # The rotation opens the state itself, alone, so that no other process writes
        # with the old key meanwhile.
        require_state(session)
        rotated = rotate_key(
            session,
            # The rotation is recorded as a run of its own, under a fresh id.
            secrets.token_hex(16),
            instant(datetime.now(UTC)),
            from_file=options.from_file,
            from_earlier_version=options.from_earlier_version,
        )
    if options.json:
        out_json(rotated)
    elif rotated.before == rotated.key:
        out(f"✓ The state is sealed with the key {rotated.key}")
    else:
        sealed = counted(rotated.values, "value is", "values are")
        out(
            f"✓ {sealed} sealed with the key {rotated.key}, in place of {rotated.before or 'none'}"
        )
    # The old key is kept under another name: backups from before can be opened with it
    # alone.
    if rotated.old_key is not None and not options.json:
        err(
            safe(
                f"hint: the old key is in `{rotated.old_key}`: keep it with older backups, or remove it"
            )
        )
    return 0


def run_migrate(options: argparse.Namespace) -> int:
    """Move the state into Postgres."""
    from agent_resolver._extra import needing_extra
    from agent_resolver.cli.progress import progress_line
    from agent_resolver.project.state_move import move_state
    from agent_resolver.project.state_place import (
        POSTGRES,
        has_password,
        without_password,
    )

    if not options.to.startswith(POSTGRES):
        raise Usage(
            "`--to` takes a database, `postgresql://host/database`",
            "a state can be moved into Postgres only",
        )
    # The driver of Postgres is an extra, so its absence is explained instead of raising
    # an import error.
    with needing_extra("postgres"):
        from agent_resolver.storage.postgres.address import PostgresAddress
    with session_of(options) as session:
        require_state(session)
        if session.state_place.is_outside:
            raise Usage(
                f"The state is in `{session.state_path}` already",
                "only a state in a file can be moved",
            )
        address = PostgresAddress(options.to, environment=session.environment)
        try:
            moved = move_state(
                session,
                address,
                lambda table, count: progress_line(f"{table} {count}…"),
            )
        finally:
            progress_line("")
        key_path = None if session.config.state.key_env else session.key_path
    if options.json:
        out_json(moved)
        return 0
    rows = sum(moved.rows.values())
    out(
        safe(
            f"✓ {moved.target}: {counted(rows, 'row')} and {counted(moved.records, 'audit record')}, verified"
        )
    )
    out(f"  Root: {moved.root or 'none'}, the same as before")
    # A move changes no settings: until agent.toml names the database, every process
    # goes on with the file.
    out("Now write this into agent.toml, and start workers and servers again:")
    out("  [state]")
    out(safe(f'  url = "{without_password(options.to)}"'))
    # A password in the URL would end up in a file that is committed, so a variable
    # takes its place.
    if has_password(options.to):
        out('  password_env = "AGENT_STATE_PASSWORD"')
        err(
            "hint: a password does not belong into agent.toml: put it into that variable"
        )
    # Values move as they are sealed, so the same key is needed to read them.
    if key_path is not None:
        err(
            safe(
                f"hint: it is sealed with the key in `{key_path}`: every machine needs it, see docs/state.md"
            )
        )
    err(
        safe(
            f"hint: `{moved.source}` is as it was, and is not used any more: keep it as a backup"
        )
    )
    return 0


def run_prune(options: argparse.Namespace) -> int:
    """Remove what ended long ago."""
    import asyncio
    import secrets

    from agent_resolver.project.state import prune

    # One moment for both limits, so that ages mean the same for runs and for the trail.
    now = datetime.now(UTC)
    before = instant(_moment_ago(options.older_than, "--older-than", now))
    audit_before = (
        None
        if options.audit_before is None
        else instant(_parse_moment(options.audit_before, now))
    )
    # The removal itself is recorded in the trail, under this id.
    run = secrets.token_hex(16)
    with session_of(options) as session:
        store = existing_store(session)
        statuses = None if options.status is None else frozenset(options.status)
        trial = options.dry_run
        pruning = prune(
            store,
            run,
            instant(now),
            before,
            audit_before,
            is_trial=trial,
            statuses=statuses,
        )
        pruned = asyncio.run(pruning)
    if options.json:
        out_json(
            {
                "success": True,
                "dryRun": options.dry_run,
                "before": before,
                "removed": pruned,
            }
        )
    else:
        _print_pruned(pruned, is_trial=options.dry_run)
    return 0


def _moment_ago(text: str, option: str, now: datetime) -> datetime:
    """The moment that is this long ago."""
    found = _AGE.fullmatch(text)
    hint = "give a number and a unit, such as `12h`, `30d` or `8w`"
    if found is None:
        raise Usage(f"`{option}` takes an age, not `{text}`", hint)
    try:
        # The pattern bounds the digits, but weeks may still reach back before the first
        # year.
        return now - timedelta(**{_UNITS[found["unit"]]: int(found["count"])})
    except OverflowError:
        raise Usage(
            f"`{option}` takes an age, and `{text}` is too long ago", hint
        ) from None


def _parse_moment(text: str, now: datetime) -> datetime:
    if _AGE.fullmatch(text):
        return _moment_ago(text, "--audit-before", now)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    # A time without a zone would remove more or less depending on the machine.
    if moment is None or moment.tzinfo is None:
        hint = "use an ISO 8601 time with its zone such as `2026-01-01T00:00:00Z`, or an age such as `90d`"
        raise Usage(f"`--audit-before` takes a time, not `{text}`", hint)
    return moment


def _print_info(info: "StateInfo") -> None:
    out(safe(f"{info.path}: {info.bytes} bytes, schema {info.schema}"))
    out(safe(f"  Key: {info.key}, {info.key_id}"))
    for label, counts in (
        ("Calls", info.ledger),
        ("Inbox", info.pending),
        ("Runs", info.runs),
    ):
        listed = ", ".join(f"{count} {state}" for state, count in counts.items())
        out(f"  {label}: {listed or 'none'}")
    steps = counted(info.journal, "step")
    plans = counted(info.plans, "plan")
    out(f"  Journal: {steps}, {plans}, {counted(info.threads, 'thread')}")
    trail = info.trail
    # A pruned trail no longer begins with its first record, so its count alone would
    # mislead.
    pruned = f", {trail.pruned} pruned" if trail.pruned else ""
    between = f", {trail.first_at} to {trail.last_at}" if trail.first_at else ""
    out(safe(f"  Audit: {counted(trail.records, 'record')}{pruned}{between}"))


def _print_pruned(pruned: "Pruned", *, is_trial: bool) -> None:
    items = counted(pruned.pending, "inbox item")
    counts = f"{counted(pruned.ledger, 'call')}, {items}, {counted(pruned.runs, 'run')}"
    verb = "Would remove" if is_trial else "✓ Removed"
    out(f"{verb} {counts} and {counted(pruned.audit, 'audit record')}")
