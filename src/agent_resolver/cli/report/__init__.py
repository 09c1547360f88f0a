"""`agent report`: the resolution as a page for a person."""

import argparse
import os
import re
from collections.abc import Iterable
from typing import Final

from agent_resolver.cli.artifact import Status
from agent_resolver.cli.errors import Refusal, Usage
from agent_resolver.cli.input import INDEX, load
from agent_resolver.cli.option import (
    Commands,
    add_agents,
    add_command,
    add_index,
    add_json,
    output_path,
)
from agent_resolver.cli.output import (
    err,
    err_warnings,
    issue_document,
    out,
    out_json,
    safe,
    shown,
)
from agent_resolver.core.resolution import Resolution, resolve
from agent_resolver.schema.artifact_path import lock_path_of, report_path_of
from agent_resolver.storage.file import read_head, write_atomic

_EXAMPLES = """\
  agent report
  agent report -a agents/support.md -i servers-prod.json
  agent report -o review/agents.html
"""

_OURS: Final = re.compile(
    rb'<!doctype html>\n<html [^>]*>\n<head>\n(?:<meta [^>]*>\n)*?<meta name="generator" '
)
_GENERATOR: Final = b'content="agent report">\n'
_HEAD_BYTES: Final = 1024


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "report",
        "write a page that shows which servers are chosen, and why",
        _EXAMPLES,
    )
    add_agents(parser)
    add_index(parser)
    parser.add_argument(
        "--lock",
        metavar="PATH",
        help="path of the lock (default: beside the agent file, <stem>.lock)",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        type=output_path,
        help="path of the page (default: beside the agent file, <stem>.report.html)",
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Resolve, look at the lock, and write the page whatever the outcome."""
    from agent_resolver.cli.report.lock import lock_state
    from agent_resolver.cli.report.page import Subject, page

    index = options.index or INDEX
    lock = options.lock or lock_path_of(options.agents)
    output = options.output or report_path_of(options.agents)
    # Both refusals come before anything is written; this one before the inputs are even
    # read.
    _refuse_input(output, (options.agents, index, lock))
    inputs = load(options.agents, index)
    # The page is recognized by its head alone, and judged before the resolution, which
    # may take longer.
    _refuse_foreign(output)
    resolution = resolve(inputs.agent, inputs.servers)
    # A page holds no absolute path, so that it can be shared, and is the same on every
    # machine.
    subject = Subject(
        resolution=resolution,
        warnings=tuple(inputs.warnings),
        lock=lock_state(lock, resolution),
        # The name alone is enough: all other paths are as seen from the folder of this
        # file.
        agent_path=os.path.basename(options.agents),
        index_path=_seen_from(options.agents, index),
        lock_path=_seen_from(options.agents, lock),
    )
    # The page is written also for a failed resolution: it is then that a reader wants
    # to know why.
    status = (
        Status.WRITTEN
        if write_atomic(output, [page(subject).encode()])
        else Status.UNCHANGED
    )
    if options.json:
        documents = [issue_document(issue) for issue in inputs.warnings]
        success = resolution.success
        document = {
            "success": success,
            "path": output,
            "status": status,
            "resolved": success,
        }
        out_json({**document, "lock": subject.lock.status, "warnings": documents})
    else:
        err_warnings(options.agents, inputs.warnings)
        _print_result(resolution, output, status)
    return 0 if resolution.success else 1


def _refuse_input(output: str, inputs: Iterable[str]) -> None:
    for path in inputs:
        # Real paths are compared: a link to an input must not let the page overwrite
        # it.
        if os.path.realpath(path) == os.path.realpath(output):
            raise Usage(
                f"The page cannot be written over `{path}`, which it is made from",
                "choose another `--output`",
            )


def _refuse_foreign(output: str) -> None:
    head = read_head(output, _HEAD_BYTES)
    # Other tools write the same `generator` element with their own name, so the content
    # has to fit too.
    ours = _OURS.match(head) if head else None
    if head and not (ours and head.startswith(_GENERATOR, ours.end())):
        raise Refusal(
            f"`{output}` exists and was not written by `agent report`",
            "choose another path with `--output`, or move the file away",
        )


def _seen_from(agent_path: str, path: str) -> str:
    """A path as one types it in the folder of the agent file, without the places of this machine."""
    folder = os.path.dirname(agent_path)
    relative = os.path.relpath(path, folder or os.curdir)
    # The way out of the folder may show names of this machine, unless both paths were
    # given as relative ones.
    leaves = relative.split(os.sep)[0] == os.pardir
    if leaves and (os.path.isabs(path) or os.path.isabs(folder)):
        return os.path.basename(path)
    return relative.replace(os.sep, "/")


def _print_result(resolution: Resolution, output: str, status: Status) -> None:
    out(
        f"✓ Wrote {safe(shown(output))}{' (unchanged)' if status is Status.UNCHANGED else ''}"
    )
    if resolution.failed:
        # Several requirements may share a category, which is then named once.
        categories = dict.fromkeys(
            requirement.category for requirement in resolution.failed
        )
        err(
            f"Resolution failed: no candidates for categories: {safe(', '.join(categories))}"
        )
