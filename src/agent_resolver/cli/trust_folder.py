"""`agent trust-folder`: let the code and commands of a project run."""

import argparse
import os

from agent_resolver.cli.errors import Usage
from agent_resolver.cli.option import Commands, add_command, add_json
from agent_resolver.cli.output import out, out_json, safe
from agent_resolver.project.trust import TrustedFolders

_EXAMPLES = """\
  agent trust-folder                 the project in this folder
  agent trust-folder --list
  agent trust-folder --remove ~/old-project
"""


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "trust-folder",
        "let the code and commands of a project run",
        _EXAMPLES,
    )
    parser.add_argument(
        "folder", metavar="DIR", nargs="?", default=".", help="the folder (default: .)"
    )
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--remove", action="store_true", help="trust it no longer")
    instead.add_argument(
        "--list", action="store_true", help="print every trusted folder"
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Add or remove a folder, or list them."""
    trusted = TrustedFolders(os.environ)
    if not options.list:
        _change_trust(trusted, options)
    if options.json:
        out_json(trusted.all())
    elif options.list:
        for folder in trusted.all():
            out(safe(folder))
    return 0


def _change_trust(trusted: TrustedFolders, options: argparse.Namespace) -> None:
    root = _folder_to_change(trusted, options)
    changed = trusted.remove(root) if options.remove else trusted.add(root)
    if not options.json:
        word = "Trusted no longer" if options.remove else "Trusted"
        out(f"✓ {word}: {safe(root)}{'' if changed else ' (unchanged)'}")


def _folder_to_change(trusted: TrustedFolders, options: argparse.Namespace) -> str:
    """The folder itself; one on the list may be taken off it even when it is gone."""
    # Trust belongs to the folder itself and not to a link, which could be changed to
    # lead elsewhere.
    folder: str = os.path.realpath(options.folder)
    if options.remove and trusted.is_trusted(folder):
        return folder
    if not os.path.isdir(folder):
        raise Usage(f"`{options.folder}` is no folder")
    return folder
