"""`agent inbox`: what waits for a person, and answers to it."""

import argparse
from importlib import import_module

from agent_resolver.cli.option import (
    Commands,
    add_agents,
    add_command,
    add_group,
    add_json,
    add_project,
    add_token,
    add_trust,
)

_EXAMPLES = """\
  agent inbox list                                        what waits for a person
  agent inbox approve 3f9a1c20b7de --reason "agreed in change 4711"
  agent inbox answer 3f9a1c20b7de retry
"""
_LIST_EXAMPLES = """\
  agent inbox list
  agent inbox list --all --json
"""
_SHOW_EXAMPLES = """\
  agent inbox show 3f9a1c20b7de
"""
_APPROVE_EXAMPLES = """\
  agent inbox approve 3f9a1c20b7de --reason "agreed in change 4711"
  AGENT_TOKEN=... agent inbox approve 3f9a1c20b7de
"""
_REJECT_EXAMPLES = """\
  agent inbox reject 3f9a1c20b7de --reason "not before the release"
"""
_ANSWER_EXAMPLES = """\
  agent inbox answer 3f9a1c20b7de retry
  agent inbox answer 3f9a1c20b7de - < answer.txt
"""


def add_to(commands: Commands) -> None:
    """Declare the commands."""
    group = add_group(
        commands, "inbox", "list and answer what waits for a person", _EXAMPLES
    )
    listing = add_command(
        group, "list", "list what waits, oldest first", _LIST_EXAMPLES
    )
    listing.add_argument(
        "--all", action="store_true", help="also what was answered, used or has expired"
    )
    show = add_command(group, "show", "show one waiting thing whole", _SHOW_EXAMPLES)
    approve = add_command(
        group, "approve", "let one call happen, once", _APPROVE_EXAMPLES
    )
    reject = add_command(
        group, "reject", "refuse a call that asks for approval", _REJECT_EXAMPLES
    )
    answer = add_command(
        group, "answer", "answer a question in words", _ANSWER_EXAMPLES
    )
    for parser in (show, approve, reject, answer):
        parser.add_argument(
            "id",
            type=_parse_id,
            metavar="ID",
            help="the waiting thing, as `agent inbox list` names it",
        )
    for parser in (approve, reject):
        parser.add_argument(
            "--reason", metavar="TEXT", help="why; kept with the answer"
        )
    answer.add_argument(
        "text",
        metavar="TEXT",
        help="the answer, or - to read it from stdin; never a secret",
    )
    # The listed name is a function of `execution`, which is looked up only when the
    # command runs.
    for parser, run in (
        (listing, "run_list"),
        (show, "run_show"),
        (approve, "run_approve"),
        (reject, "run_reject"),
        (answer, "run_answer"),
    ):
        add_agents(parser)
        add_project(parser)
        add_trust(parser)
        add_token(parser)
        add_json(parser)
        parser.set_defaults(run=_import_and_run, inbox_command=run)


def _parse_id(argument: str) -> str:
    if not argument.isprintable():  # Nor are bytes that are no UTF-8.
        raise argparse.ArgumentTypeError("nothing waits under an id like that")
    return argument


def _import_and_run(options: argparse.Namespace) -> int:
    # The module is imported only now: it brings in the state and asyncio, which the
    # help of other commands does without.
    run = getattr(
        import_module("agent_resolver.cli.inbox.execution"), options.inbox_command
    )
    return int(run(options))
