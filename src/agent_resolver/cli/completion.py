"""`agent completion`: what a shell needs to complete commands, options and paths."""

import argparse

import shtab

from agent_resolver.cli.option import Commands, add_command
from agent_resolver.cli.output import out_text

_EXAMPLES = """\
  agent completion bash > ~/.local/share/bash-completion/completions/agent
  agent completion zsh > "${fpath[1]}/_agent"
  agent completion fish > ~/.config/fish/completions/agent.fish
"""


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands, "completion", "print a completion script for a shell", _EXAMPLES
    )
    parser.add_argument(
        "shell",
        choices=("bash", "zsh", "fish", "tcsh", "powershell"),
        help="which shell",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the script."""
    # Only here: the application imports this module.
    from agent_resolver.cli.app import build_parser

    out_text(f"{shtab.complete(build_parser(), shell=options.shell)}\n")
    return 0
