"""Options that several commands share."""

import argparse
import os
from typing import TYPE_CHECKING, Any

from agent_resolver.cli.errors import Usage
from agent_resolver.cli.input import AGENT_FILE, INDEX
from agent_resolver.cli.output import err_warnings
from agent_resolver.cli.parser import HelpText

if TYPE_CHECKING:
    from agent_resolver.project.session import Session

Commands = Any
"""What `add_subparsers` returns; argparse keeps its type private."""


def add_command(
    commands: Commands, name: str, summary: str, examples: str
) -> argparse.ArgumentParser:
    """A command with its help and examples."""
    # `allow_abbrev` is off: an abbreviation in a script would break once a longer
    # option with the same beginning is added.
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=f"examples:\n{examples}",
        formatter_class=HelpText,
        allow_abbrev=False,
    )
    # The innermost command sets it last: the parser that knows the options that may
    # follow.
    parser.set_defaults(parser=parser)
    return parser


def add_group(commands: Commands, name: str, summary: str, examples: str) -> Commands:
    """A command that only has commands below it."""
    parser = add_command(commands, name, summary, examples)
    return parser.add_subparsers(title="commands", metavar="COMMAND", required=True)


def add_project(parser: argparse.ArgumentParser) -> None:
    """The options of every command that opens a project."""
    parser.add_argument(
        "--config",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        dest="settings",
        help="override a setting of agent.toml, such as state.url=sqlite:///other.db (repeatable)",
    )


def add_governed(parser: argparse.ArgumentParser) -> None:
    """The options of every command that works under a lock."""
    add_agents(parser)
    add_index(parser)
    add_lock(parser)
    add_project(parser)
    add_token(parser)
    add_trust(parser)


def add_trust(parser: argparse.ArgumentParser) -> None:
    """`--trust`."""
    parser.add_argument(
        "--trust",
        action="store_true",
        help="let the project's code run this once, for CI",
    )


def add_token(parser: argparse.ArgumentParser) -> None:
    """`--token-file`."""
    parser.add_argument(
        "--token-file",
        metavar="PATH",
        help="a file with the token that says who you are, for projects with an issuer (default: $AGENT_TOKEN)",
    )


def add_lock(parser: argparse.ArgumentParser) -> None:
    """`--lock`."""
    parser.add_argument(
        "--lock",
        metavar="PATH",
        help="path of the lock (default: beside the agent file, <stem>.lock)",
    )


def add_workspace(parser: argparse.ArgumentParser, what: str) -> None:
    """`--workspace`."""
    parser.add_argument(
        "-w",
        "--workspace",
        metavar="DIR",
        nargs="?",
        const=".",
        help=f"{what} every agent file with `requires` below DIR (default: .), with the lock beside each; "
        "the index is DIR/mcp.index.json unless --index names another",
    )


def folder_of(path: str) -> str:
    """A folder that a person names."""
    if not os.path.isdir(path):
        raise Usage(
            f"`{path}` is no folder", "name the folder that holds the agent files"
        )
    return os.path.normpath(path)


def workspace_of(options: argparse.Namespace, *others: str) -> tuple[str, str]:
    """The folder of a workspace and its index; options that belong to a single agent file are refused."""
    # The path is shown in messages and joined to others, so it is brought into one form
    # first.
    folder = os.path.normpath(options.workspace)
    # The option is named as the operator typed it; argparse has turned its dashes into
    # underscores.
    given = [f"--{name.replace('_', '-')}" for name in others if getattr(options, name)]
    if options.agents != AGENT_FILE:
        given.append("--agents")
    if given:
        raise Usage(
            f"`--workspace` takes every agent file below a folder, so `{given[0]}` has no place there"
        )
    folder_of(folder)
    return folder, options.index or os.path.normpath(os.path.join(folder, INDEX))


def session_of(options: argparse.Namespace) -> "Session":
    """The session that the options name; without an agent file here, that of the nearest `agent.toml` above."""
    from agent_resolver.project.config_file import find_config
    from agent_resolver.project.session import Session

    # Not every command has `--index` or `--lock`, which `getattr` allows for.
    index = getattr(options, "index", None) or INDEX
    is_named = options.agents != AGENT_FILE
    # An `agent.toml` above marks its folder as the project, whose agent file is taken
    # where none is here.
    if (
        not is_named
        and not os.path.lexists(AGENT_FILE)
        and (settings := find_config("."))
    ):
        # The path stays relative, so that messages show what the operator can type.
        root = os.path.relpath(os.path.dirname(settings))
        if os.path.lexists(os.path.join(root, AGENT_FILE)):
            options.agents = os.path.normpath(os.path.join(root, AGENT_FILE))
            # An index that was named is meant from here; only the default moves with
            # the project.
            index = (
                os.path.normpath(os.path.join(root, INDEX)) if index == INDEX else index
            )
    return Session(
        options.agents,
        index,
        lock_path=getattr(options, "lock", None),
        environment=os.environ,
        flags=tuple(options.settings),
        trusts=getattr(options, "trust", False),
        is_agent_named=is_named,
        on_index=err_warnings,
    )


def session_here(options: argparse.Namespace) -> "Session":
    """The session of the folder that the command runs in, for commands that name no agent file."""
    from agent_resolver.project.session import Session

    index = options.index or INDEX
    return Session(
        AGENT_FILE,
        index,
        environment=os.environ,
        flags=tuple(options.settings),
        trusts=getattr(options, "trust", False),
        on_index=err_warnings,
    )


def output_path(text: str) -> str:
    """The path of a file to write, as an option takes it; `-` would be taken for a file of that name."""
    # Output files are put in place by renaming, which stdout does not allow; refusing
    # `-` avoids a file of that name.
    if text == "-":
        reason = "the file is put in place whole, which cannot be done on stdout; name a file, or `./-`"
        raise argparse.ArgumentTypeError(f"`-` is not a file: {reason}")
    return text


def add_for_state(parser: argparse.ArgumentParser) -> None:
    """The options of a command that needs nothing but the state, and the caller."""
    add_agents(parser)
    add_project(parser)
    add_token(parser)
    # To read the state takes trust as well where the settings of the project keep it
    # elsewhere.
    add_trust(parser)
    add_json(parser)


def add_agents(parser: argparse.ArgumentParser) -> None:
    """`--agents`."""
    parser.add_argument(
        "-a",
        "--agents",
        metavar="PATH",
        default=AGENT_FILE,
        help=f"path to the agent file (default: {AGENT_FILE})",
    )


def add_index(parser: argparse.ArgumentParser) -> None:
    """`--index`."""
    parser.add_argument(
        "-i",
        "--index",
        metavar="PATH",
        help=f"path to the server index (default: {INDEX})",
    )


def add_json(
    parser: argparse._ActionsContainer, what: str = "print the result as JSON on stdout"
) -> None:
    """`--json`."""
    parser.add_argument("--json", action="store_true", help=what)
