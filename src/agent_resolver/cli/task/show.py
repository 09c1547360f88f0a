"""The command `agent task show`."""

import argparse

from agent_resolver.cli.output import out_json
from agent_resolver.cli.task.looking import look_at
from agent_resolver.cli.task.report import print_task


def run(options: argparse.Namespace) -> int:
    """Print a task."""
    view = look_at(options, options.chosen)
    if options.json:
        out_json(view.document())
    else:
        print_task(view)
    return 0
