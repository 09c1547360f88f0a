"""The command `agent runs export`."""

import argparse
import os
from typing import TYPE_CHECKING

from agent_resolver.cli.audit import existing_store
from agent_resolver.cli.errors import Refusal
from agent_resolver.cli.option import session_of
from agent_resolver.cli.output import err, out_text
from agent_resolver.cli.reader import readable_runs
from agent_resolver.cli.runs.chosen_run import find_run
from agent_resolver.runtime.run_export import export_bytes, export_run
from agent_resolver.storage.file import Batch
from agent_resolver.storage.ownership import require_safe_target

if TYPE_CHECKING:
    from agent_resolver.project.session import Session


def run(options: argparse.Namespace) -> int:
    """Write a run as one JSON document."""
    with session_of(options) as session:
        if options.output is not None:
            # The target is judged first: an export may take long, and a bad path would
            # waste it.
            require_target(options.output, session)
        store = existing_store(session)
        may_read = readable_runs(session, options)
        chosen = store.read_now(
            lambda snapshot: find_run(snapshot, options.chosen, may_read)
        )
        document = store.read_now(
            lambda snapshot: export_run(snapshot, chosen, session.seal)
        )
    # Another process may prune between the two reads.
    if document is None:
        raise Refusal(
            f"Run {options.chosen} was removed a moment ago", "`agent runs list`"
        )
    content = export_bytes(document)
    if options.output is None:
        out_text(content.decode())
        return 0
    with Batch() as batch:
        # It holds the whole conversation, with what tools returned: only its owner may
        # read it.
        batch.write(options.output, [content], is_private=True)
    err(f"✓ {options.output}: {len(content)} bytes")
    return 0


def require_target(path: str, session: "Session") -> None:
    """Refuse to write where a link of the project decides what is changed, or over the state itself.

    Raises:
        FileError: A link leads out of the project, or the file is one of another user.
        Refusal: The run would be lost with all others.
    """
    require_safe_target(path, session.root, session.users, is_named=True)
    # Links are resolved before the comparison, since one could lead to the state or to
    # its key.
    if os.path.realpath(path) in {
        session.state_path,
        os.path.realpath(session.key_path),
    }:
        raise Refusal(
            f"`{path}` is the state of the project", "name another file with `--output`"
        )
