"""`agent eval`: how well requests in plain words are understood and planned."""

import argparse
import math
from typing import Final

from agent_resolver.cli.option import (
    Commands,
    add_agents,
    add_command,
    add_group,
    add_json,
    add_project,
    add_trust,
    output_path,
)

_GATE: Final = 0.8

_EXAMPLES = """\
  agent eval run                              the set that agent.toml names
  agent eval run evals/requests.yaml --baseline evals/baseline.json
"""
_RUN_EXAMPLES = """\
  agent eval run
  agent eval run evals/requests.yaml --gate 0.9
  agent eval run --report evals.html
  agent eval run --save baseline.json             keep the report
  agent eval run --baseline baseline.json         and later say which requests changed
  agent eval run --model haiku                    compare a model with the planner that needs none
  agent eval run --model haiku --model sonnet     compare two models
  agent eval run --model haiku --skills next      compare changed prompts with those of the project

exit codes:
  0  both scores reach the gate, and no request got worse
  1  a score is below the gate, a request got worse, or a file is refused
  2  usage, or a file that is missing
"""


def add_to(commands: Commands) -> None:
    """Declare the commands."""
    group = add_group(
        commands, "eval", "score how requests are understood and planned", _EXAMPLES
    )
    parser = add_command(
        group,
        "run",
        "plan every request of an eval set, and score the answers",
        _RUN_EXAMPLES,
    )
    parser.add_argument(
        "set",
        metavar="SET",
        nargs="?",
        help="the eval set, a YAML or JSON file (default: `[reasoner] evals`)",
    )
    parser.add_argument(
        "--gate",
        metavar="SCORE",
        type=_gate_argument,
        default=_GATE,
        help=f"the least score of routing and of plans, from 0 to 1 (default: {_GATE})",
    )
    parser.add_argument(
        "--model",
        metavar="NAME",
        action="append",
        default=[],
        help="plan with this model of the settings, and compare; twice: the second with the first, once: with the "
        "planner that needs no model (repeatable)",
    )
    parser.add_argument(
        "--skills",
        metavar="DIR",
        action="append",
        default=[],
        help="give the model the prompts in this folder, and compare; once: with those of the project (repeatable)",
    )
    parser.add_argument(
        "--baseline",
        metavar="FILE",
        help="a report that was saved earlier, to compare with",
    )
    parser.add_argument(
        "--save",
        metavar="FILE",
        type=output_path,
        help="write the report, as a baseline",
    )
    parser.add_argument(
        "--report",
        metavar="FILE",
        type=output_path,
        help="write the report as a page (HTML)",
    )
    add_agents(parser)
    add_project(parser)
    add_trust(parser)
    add_json(parser)
    parser.set_defaults(run=_import_and_run)


def _gate_argument(text: str) -> float:
    try:
        gate = float(text)
    except ValueError:
        # No comparison with NaN is true, so text is refused below as a number out of
        # range is.
        gate = math.nan
    if not 0 <= gate <= 1:
        raise argparse.ArgumentTypeError(f"`{text}` is not a number from 0 to 1")
    return gate


def _import_and_run(options: argparse.Namespace) -> int:
    # The planner takes long to import, and `--help` has to be quick.
    from agent_resolver.cli.eval.run import run

    return run(options)
