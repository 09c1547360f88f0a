"""The command line that a client starts this program with, wherever it does so."""

import os
import sys
from collections.abc import Iterator, Sequence

from msgspec import Struct

from agent_resolver.cli.input import INDEX
from agent_resolver.project.config_file import find_config


class ServeCommand(Struct, frozen=True, kw_only=True):
    """The options that `agent serve` is started with; paths are as the operator named them."""

    roots: Sequence[str] = ()
    index: str | None = None
    tools_of: str | None = None
    lock: str | None = None
    token_file: str | None = None
    page_size: int | None = None
    settings: Sequence[str] = ()
    flags: Sequence[str] = ()
    """Options that have no value, as `--strict`."""

    def words(self) -> tuple[str, ...]:
        """The whole command line; every path in it is absolute."""
        return (*own_command(), "serve", *self._options())

    def _options(self) -> Iterator[str]:
        # A client may start the server from any folder, so nothing may depend on the
        # one of this command.
        for root in self.roots:
            yield from ("--root", os.path.abspath(root))
        # Without this option an entry serves whatever project it is started in, and is
        # not judged to be governed.
        yield from ("--project", project_folder())
        paths = {
            "--index": self.index or (INDEX if os.path.exists(INDEX) else None),
            "--tools-of": self.tools_of,
            "--lock": self.lock,
            "--token-file": self.token_file,
        }
        for name, path in paths.items():
            if path:
                yield from (name, os.path.abspath(path))
        if self.page_size:
            yield from ("--page-size", str(self.page_size))
        for setting in self.settings:
            yield from ("--config", setting)
        yield from self.flags


def own_command() -> tuple[str, ...]:
    """The command line of this very program: clients may have another `PATH`."""
    script = os.path.join(os.path.dirname(sys.executable), "agent")
    # With `-P` Python does not look for the module in the folder of the project, which
    # may have one of the same name.
    return (
        (script,)
        if os.path.isfile(script)
        else (sys.executable, "-P", "-m", "agent_resolver")
    )


def project_folder(start: str = ".") -> str:
    """The folder of the project that a folder is in: that of the nearest `agent.toml`, else the folder itself."""
    settings = find_config(start)
    if settings:
        return os.path.dirname(settings)
    return os.path.abspath(start)
