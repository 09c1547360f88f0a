"""A document that goes to stdout, or to a file of its own."""

import argparse
import os
from collections.abc import Collection

from agent_resolver.cli.client_command import project_folder
from agent_resolver.cli.errors import Refusal
from agent_resolver.cli.output import out, out_json, out_text
from agent_resolver.storage.file import write_atomic
from agent_resolver.storage.ownership import (
    believed_users,
    refuse_link_away,
    require_own,
)


def print_or_write(
    options: argparse.Namespace, text: str, read: Collection[str]
) -> None:
    """Print a document, or write it to the file that the operator named, whole or not at all.

    Args:
        options: The command line.
        text: The document.
        read: The real paths of the files that it was made of.
    """
    if not options.output:
        out_text(text)
        return
    refuse_input(options.output, read)
    # A named file may be anywhere, but neither a link in the project nor another user
    # decides what is overwritten.
    refuse_link_away(options.output, project_folder(), is_named=True)
    require_own(options.output, believed_users(os.environ))
    is_changed = write_atomic(options.output, [text.encode()])
    if options.json:
        out_json({"success": True, "path": options.output, "changed": is_changed})
    else:
        out(f"✓ {options.output}: {'written' if is_changed else 'unchanged'}")


def refuse_input(path: str, read: Collection[str]) -> None:
    """Refuse to write over a file that the export is made of.

    Raises:
        Refusal: It is one of these files.
    """
    # By its real path, since a link to the lock leads to the lock.
    if os.path.realpath(path) in read:
        raise Refusal(
            f"`{path}` is what the export is made of",
            "name another file with `--output`",
        )
