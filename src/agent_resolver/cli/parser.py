"""Reads a command line, and names what was probably meant by a word that it does not know."""

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NoReturn


def _untranslated(text: str | None) -> str | None:
    return text


# argparse asks gettext for each of its words: a catalog of the machine could change what
# a command says, and looking for one takes a millisecond of every start.
argparse._ = _untranslated  # type: ignore[attr-defined]


class HelpText(argparse.RawDescriptionHelpFormatter):
    """Help as wide as the terminal, with descriptions and examples as they are written."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_terminal_columns() - 2)


def _terminal_columns() -> int:
    """The same as `shutil.get_terminal_size`: argparse asks at every option, and that module is slow to import."""
    with suppress(KeyError, ValueError):
        if (columns := int(os.environ["COLUMNS"])) > 0:
            return columns
    with suppress(AttributeError, ValueError, OSError):
        if (columns := os.get_terminal_size(sys.__stdout__.fileno()).columns) > 0:  # type: ignore[union-attr]
            return columns
    return 80


class CommandParser(argparse.ArgumentParser):
    """Reads the command line of one command."""

    def refuse_unknown(self, words: Sequence[str]) -> NoReturn:
        """End the command because of words that it does not take, with the option that the first one is near to."""
        # The value of `--option=value` is cut off, since only the name can be
        # misspelled.
        word = words[0].partition("=")[0]
        options = self._option_string_actions
        meant = ""
        if (
            word in options
        ):  # It is before the name of the command, where its options are not read.
            meant = f"; write it after `{self.prog}`"
        elif word.startswith("-") and (near := _nearest(word, options)):
            # Only an option can be a slip of an option: for a plain word the nearest
            # one would be a wild guess.
            meant = f"; did you mean `{near}`?"
        self.error(f"unrecognized arguments: {' '.join(words)}{meant}")

    def error(self, message: str) -> NoReturn:
        """End the command because of its command line; where it needs the name of a command, say who knows them."""
        # argparse words this itself and offers no hook, so its English text is
        # recognized here.
        is_nameless = message.endswith("arguments are required: COMMAND")
        super().error(
            f"{message}; `{self.prog} --help` lists them" if is_nameless else message
        )

    def _check_value(self, action: argparse.Action, value: object) -> None:
        # The library has no public place to say more than "invalid choice".
        if action.choices is None:
            return
        choices = list(action.choices)
        if value in choices:
            return
        # Where one choice is near, the whole list would only hide it.
        near = _nearest(str(value), map(str, choices))
        meant = (
            f"; did you mean `{near}`?"
            if near
            else f" (choose from {', '.join(map(repr, choices))})"
        )
        raise argparse.ArgumentError(action, f"invalid choice: {value!r}{meant}")


def _nearest(word: str, known: Iterable[str]) -> str | None:
    from difflib import get_close_matches  # Slow to import, and rarely needed.

    return next(iter(get_close_matches(word, known, n=1)), None)
