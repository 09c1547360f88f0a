"""Reads a command line, and names what was probably meant by a word that it does not know."""

import argparse
from collections.abc import Iterable, Sequence
from typing import NoReturn


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
