"""The command `agent task start`."""

import argparse
import re
import sys
from typing import TYPE_CHECKING, Final

import msgspec

from agent_resolver.cli.errors import Refusal, Usage
from agent_resolver.cli.option import session_of
from agent_resolver.cli.task.driving import acts_as_worker, drive
from agent_resolver.cli.task.report import report_end
from agent_resolver.schema.golden_context import Incident
from agent_resolver.schema.golden_path import MAX_INTENT
from agent_resolver.storage.file import read_bounded

if TYPE_CHECKING:
    from agent_resolver.project.task import OpenTasks
    from agent_resolver.schema.caller import Caller

_MAX_INCIDENT_BYTES: Final = 64 * 1024
_TRACE: Final = re.compile("[0-9a-f]{32}")


def run(options: argparse.Namespace) -> int:
    """Start a task, and print where it stands."""
    text = _request(options.request)
    incident = _incident(options.incident)
    # The form is that of W3C Trace Context, in which a trace id of zeros is invalid.
    if options.trace_id is not None and not (
        _TRACE.fullmatch(options.trace_id) and int(options.trace_id, 16)
    ):
        raise Usage(
            f"`{options.trace_id}` is not a trace id: 32 small hexadecimal digits, not all 0"
        )
    with session_of(options) as session:
        environment = options.environment or session.config.reasoner.environment
        # A worker acts for those who started tasks, and must not start one itself.
        if acts_as_worker(session, options):
            raise Refusal(
                "A task is started by a person, and no token was given",
                "set AGENT_TOKEN, or give --token-file",
            )

    async def work(opened: "OpenTasks", caller: "Caller") -> int:
        from agent_resolver.reasoner.tasks import TaskRequest

        request = TaskRequest(
            text=text,
            environment=environment,
            incident=incident,
            trace_id=options.trace_id or "",
        )
        return report_end(
            await opened.tasks.start(request, caller), is_json=options.json
        )

    return drive(options, "Planning", work)


def _request(given: str) -> str:
    text = given
    if given == "-":
        # So many bytes hold more characters than are taken, whatever characters they
        # are.
        text = sys.stdin.buffer.read(4 * MAX_INTENT + 1).decode(errors="replace")
    if not text.strip():
        raise Usage("The request is empty", "say what shall be done")
    if len(text) > MAX_INTENT:
        raise Usage(f"A request has at most {MAX_INTENT:,} characters")
    # An argument may hold surrogates for bytes that are not UTF-8, which cannot be
    # written as JSON.
    return text.encode(errors="replace").decode()


def _incident(path: str | None) -> Incident:
    if path is None:
        return Incident()
    try:
        return msgspec.json.decode(
            read_bounded(path, _MAX_INCIDENT_BYTES), type=Incident
        )
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        hint = f"its keys are {', '.join(Incident.__struct_fields__)}"
        raise Refusal(f"`{path}` is not an incident: {error}", hint) from None
