"""Trouble for the parts of a cluster: at random, from a seed, one part after the other."""

import random
import string
import time
from collections import Counter
from collections.abc import Sequence
from threading import Timer

from tests.cluster.part import Part, Program

SHORT_FREEZE_SECONDS = 2.0
LONG_FREEZE_SECONDS = 70.0
"""Longer than a lease lasts: what the part was doing is taken up by another."""
_LONG = "freeze long"
ACTIONS = ("kill", "stop", "freeze", _LONG)
_PAUSE_SECONDS = (0.5, 3.0)


class Trouble:
    """Kills, freezes and restarts parts until the time is over, and leaves all of them running."""

    def __init__(self, parts: Sequence[Part], seed: int) -> None:
        self._parts = parts
        self._random = random.Random(seed)
        self._frozen: dict[str, tuple[Part, Timer]] = {}
        """The parts that are frozen, and what lets each go on."""
        self._frozen_long: set[str] = set()
        self.done: Counter[str] = Counter()
        """How often each thing was done to each part; a freeze counts once it has lasted as long as it should."""
        self.longest: Counter[str] = Counter()
        """The seconds that each thing took at most."""
        self._turns: list[tuple[Part, str]] = []

    def spared(self) -> set[str]:
        """What was never done to a part, of all that can be."""
        return {f"{action} {part.name}" for part in self._parts for action in _actions_on(part)} - set(self.done)

    def make(self, seconds: float) -> None:
        """Make trouble for so many seconds."""
        end = time.monotonic() + seconds
        try:
            while time.monotonic() < end:
                self._revive()
                self._take_turn()
                time.sleep(self._random.uniform(*_PAUSE_SECONDS))
        finally:
            self._thaw_all()
        self._revive()

    def _take_turn(self) -> None:
        """Do what comes next, of what can be done now."""
        possible = next((turn for turn in self._turns if self._is_possible(*turn)), None)
        if possible is None:
            self._turns += self._cycle()
            possible = next((turn for turn in self._turns if self._is_possible(*turn)), None)
        if possible is not None:
            self._turns.remove(possible)
            self._hit(*possible)

    def _cycle(self) -> list[tuple[Part, str]]:
        """Every action on every part, in no order; yet each part has its turn before one has its next."""
        actions = {part.name: self._shuffled_actions() for part in self._parts}
        turns = []
        for number in range(len(ACTIONS)):
            parts = self._random.sample(self._parts, len(self._parts))
            turns += [(part, actions[part.name][number]) for part in parts]
        return turns

    def _shuffled_actions(self) -> list[str]:
        # A long freeze takes a quarter of all the time, so it must begin early.
        shuffled = self._random.sample(ACTIONS[:-1], len(ACTIONS) - 1)
        shuffled.insert(self._random.randrange(2), _LONG)
        return shuffled

    def _is_possible(self, part: Part, action: str) -> bool:
        if part.name in self._frozen:
            return False
        if action != _LONG or part.is_needed_by_all:
            return True
        # Of each kind one half at least goes on, which takes up what the frozen ones were doing.
        peers = [each for each in self._parts if _kind(each) == _kind(part)]
        away = sum(each.name in self._frozen_long for each in peers)
        return 2 * (away + 1) <= len(peers)

    def _hit(self, part: Part, action: str) -> None:
        begin = time.monotonic()
        if action == "kill":
            part.kill()
            part.start()
        elif action == "stop":
            part.stop()
            part.start()
        else:
            self._freeze(part, is_long=action in _actions_on(part) and action == _LONG)
            return
        name = f"{action} {part.name}"
        self.done[name] += 1
        self.longest[name] = max(self.longest[name], round(time.monotonic() - begin))

    def _freeze(self, part: Part, *, is_long: bool) -> None:
        # By a clock of its own: what is done to others meanwhile may have to wait until this part goes on.
        timer = Timer(LONG_FREEZE_SECONDS if is_long else SHORT_FREEZE_SECONDS, self._thaw, [part])
        self._frozen[part.name] = (part, timer)
        if is_long:
            self._frozen_long.add(part.name)
        part.freeze()
        timer.start()

    def _thaw(self, part: Part) -> None:
        part.thaw()
        is_long = part.name in self._frozen_long
        self.done[f"{_LONG if is_long else 'freeze'} {part.name}"] += 1
        self._frozen_long.discard(part.name)
        del self._frozen[part.name]

    def _thaw_all(self) -> None:
        for part, timer in list(self._frozen.values()):
            timer.cancel()
            part.thaw()
        self._frozen.clear()
        self._frozen_long.clear()

    def _revive(self) -> None:
        for part in self._parts:
            if isinstance(part, Program):
                part.revive()


def _actions_on(part: Part) -> tuple[str, ...]:
    """What can be done to a part. All others wait for the state and the engine: these are frozen for a moment only."""
    return ACTIONS[:-1] if part.is_needed_by_all else ACTIONS


def _kind(part: Part) -> str:
    return part.name.rstrip(string.digits)
