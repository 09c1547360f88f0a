"""The `agent` command."""

import gc
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

__all__ = ["entry", "main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the `agent` command and return its exit code."""
    # A command lives for moments and makes no cycles: looking for them would cost a
    # third of a large resolution.
    gc.disable()
    from agent_resolver.cli.app import run

    return run(sys.argv[1:] if arguments is None else arguments)


def entry() -> NoReturn:
    """Run the `agent` command as a process of its own."""
    _open_streams()
    try:
        code = main()
    except SystemExit as stop:  # argparse ends `--help` and usage errors like this.
        code = int(stop.code or 0)
    except KeyboardInterrupt:  # While the command was being imported.
        sys.stderr.write("Interrupted\n")
        code = 130
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except ValueError:
            pass  # Code of the project has closed it.
        except BrokenPipeError:
            pass  # The reader has seen enough.
        except OSError:
            code = code or 1  # It cannot be written.
    # Taking a million values apart takes longer than making them, and the system does
    # it for nothing.
    os._exit(code)


def _open_streams() -> None:
    """Open what the process was started without: the next file would be taken for its input or its output."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            nothing = os.open(os.devnull, os.O_RDWR)
            os.dup2(nothing, number)
            if nothing == number:
                os.set_inheritable(number, True)  # noqa: FBT003 - it takes no name
            else:
                os.close(nothing)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))
