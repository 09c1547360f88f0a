"""`agent run`: let an agent do something, and watch it."""

import argparse
import math
from importlib import import_module

from agent_resolver.cli.catalog import add_root
from agent_resolver.cli.errors import Usage
from agent_resolver.cli.option import (
    Commands,
    add_command,
    add_index,
    add_json,
    add_project,
    add_token,
    add_trust,
)

_EXAMPLES = """\
  agent run reviewer "Review the last change"
  agent run "Review the last change"               where the project has one agent
  git diff | agent run reviewer -                  the prompt from stdin
  agent run reviewer "Tidy up" --max-rounds 4 --max-cost 0.05
  agent run reviewer "Tidy up" --json              one event a line, for a program
  agent run reviewer "Go on" --thread review       go on with the conversation of that name
  agent run --workflow feature.md "Add a search"   a step for each heading, as the agent that it mentions
  agent run --workflow feature.md --check          its steps and their agents, without running them

exit codes:
  0    the agent came to its end
  1    it did not: a budget was used up, a rule blocked it, it waits for a person, the model failed
  2    usage, or a file that is missing
  130  interrupted; `agent runs resume` goes on with it
"""


_MAX_THREAD = 200
"""As `runtime.run_check` has it, which takes long to import."""


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands, "run", "run an agent with a prompt, and show what it does", _EXAMPLES
    )
    parser.add_argument(
        "agent",
        metavar="AGENT",
        nargs="?",
        help="the name of an agent, or its address (default: the only one)",
    )
    parser.add_argument(
        "prompt",
        metavar="PROMPT",
        nargs="?",
        help="what it shall do, or - to read it from stdin",
    )
    parser.add_argument(
        "--workflow",
        metavar="FILE",
        help="take the steps of a workflow, a Markdown file, one after the other; AGENT is left out",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="with --workflow: show the steps and their agents, and run nothing",
    )
    add_model(parser)
    add_budget(parser)
    add_no_input(parser)
    parser.add_argument(
        "--thread",
        metavar="NAME",
        type=_thread,
        help="go on with your conversation of this name, or begin one",
    )
    add_surroundings(parser)
    parser.set_defaults(run=_import_and_run)


def add_surroundings(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where and for whom a run works: the same for a run that starts and one that goes on."""
    add_tool_use(parser)
    add_root(parser)
    add_index(parser)
    add_project(parser)
    add_token(parser)
    add_trust(parser)
    add_json(parser, "print each event as a line of JSON on stdout")


def add_model(parser: argparse.ArgumentParser) -> None:
    """`--model`."""
    parser.add_argument(
        "--model",
        metavar="NAME",
        help="a model in place of the one that the agent names",
    )


def add_no_input(parser: argparse.ArgumentParser) -> None:
    """`--no-input`."""
    parser.add_argument(
        "--no-input",
        action="store_true",
        help="ask nothing at the terminal: a run that has to wait ends suspended",
    )


def add_tool_use(parser: argparse.ArgumentParser) -> None:
    """`--timeout` and `--verbose`."""
    parser.add_argument(
        "--timeout",
        type=_positive,
        default=60.0,
        metavar="SECONDS",
        help="how long a server may take (default: 60)",
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="show what launched servers log"
    )


def add_budget(parser: argparse.ArgumentParser) -> None:
    """The limits of one run; each only narrows what the agent's own budget allows."""
    counts = (
        ("--max-rounds", "answers of the model"),
        ("--max-tokens", "tokens, of questions and answers"),
    )
    for option, what in counts:
        parser.add_argument(
            option,
            metavar="N",
            type=count_argument,
            help=f"end the run after so many {what}",
        )
    amounts = (
        ("--max-cost", "USD", "US dollars"),
        (
            "--max-seconds",
            "SECONDS",
            "seconds, without the time that it waits for people",
        ),
    )
    for option, metavar, what in amounts:
        parser.add_argument(
            option,
            metavar=metavar,
            type=_positive,
            help=f"end the run after so many {what}",
        )


def _thread(text: str) -> str:
    if not (text.isprintable() and 0 < len(text) <= _MAX_THREAD):
        raise argparse.ArgumentTypeError(
            f"the name of a thread has 1 to {_MAX_THREAD} printable characters"
        )
    return text


def count_argument(text: str) -> int:
    """A whole number above 0, as an option takes it."""
    # `isdigit` alone accepts digits of other scripts and superscripts, and `int`
    # refuses some of them.
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"`{text}` is not a whole number above 0")
    return int(text)


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    # Neither NaN nor infinity is a limit, and `float` accepts the words for both.
    if not (number > 0 and math.isfinite(number)):
        raise argparse.ArgumentTypeError(f"`{text}` is not a number above 0")
    return number


def _import_and_run(options: argparse.Namespace) -> int:
    if options.workflow is not None:
        return _import_and_run_workflow(options)
    if options.check:
        # These mistakes are found before the runtime is imported, which takes long.
        raise Usage(
            "`--check` is for a workflow",
            "name it with `--workflow FILE`; `agent plan` checks one agent",
        )
    if options.prompt is None and options.agent is None:
        raise Usage(
            "Say what the agent shall do",
            'such as `agent run reviewer "Review the last change"`',
        )
    # An error must then be one line of JSON as well, like the events that came before
    # it.
    options.json_lines = options.json
    code: int = import_module("agent_resolver.cli.run.execution").run(options)
    return code


def _import_and_run_workflow(options: argparse.Namespace) -> int:
    if options.prompt is not None:
        raise Usage(
            "A workflow names its agents itself",
            'leave the agent out: `agent run --workflow FILE "PROMPT"`',
        )
    if options.thread is not None:
        raise Usage("A workflow is not a conversation", "leave out `--thread`")
    if options.check and options.agent is not None:
        raise Usage("`--check` runs nothing, and takes no prompt", "leave it out")
    # `--check` prints one document instead of events, so its errors are documents too.
    options.json_lines = options.json and not options.check
    code: int = import_module("agent_resolver.cli.run.workflow").run(options)
    return code
