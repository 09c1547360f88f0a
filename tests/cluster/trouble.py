"""Trouble for the parts of a cluster: at random, from a seed, one part after the other."""

import random
import time
from collections import Counter
from collections.abc import Sequence

from tests.cluster.part import Part, Program

SHORT_FREEZE_SECONDS = 2.0
LONG_FREEZE_SECONDS = 70.0
"""Longer than a lease lasts: what the part was doing is taken up by another."""
ACTIONS = ("kill", "stop", "freeze", "freeze long")
_PAUSE_SECONDS = (1.0, 4.0)


class Trouble:
    """Kills, freezes and restarts parts until the time is over, and leaves all of them running."""

    def __init__(self, parts: Sequence[Part], seed: int) -> None:
        self._parts = parts
        self._random = random.Random(seed)
        self._frozen: dict[str, tuple[Part, float]] = {}
        """The parts that are frozen, and when each goes on."""
        self.done: Counter[str] = Counter()
        """How often each thing was done to each part."""
        self._turns: list[tuple[Part, str]] = []

    def _next_turn(self) -> tuple[Part, str]:
        """What comes next, in no order; yet every part has its turn before one has its second, with another action."""
        if not self._turns:
            actions = {part.name: self._random.sample(ACTIONS, len(ACTIONS)) for part in self._parts}
            for number in range(len(ACTIONS)):
                parts = self._random.sample(self._parts, len(self._parts))
                self._turns += [(part, actions[part.name][number]) for part in parts]
        return self._turns.pop(0)

    def spared(self) -> set[str]:
        """The parts that nothing was done to."""
        hit = {name.removeprefix(f"{action} ") for name in self.done for action in ACTIONS}
        return {part.name for part in self._parts} - hit

    def make(self, seconds: float) -> None:
        """Make trouble for so many seconds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._thaw_due()
            self._revive()
            part, action = self._next_turn()
            if part.name not in self._frozen:
                self._hit(part, action)
            time.sleep(self._random.uniform(*_PAUSE_SECONDS))
        self.end()

    def _hit(self, part: Part, action: str) -> None:
        self.done[f"{action} {part.name}"] += 1
        if action == "kill":
            part.kill()
            part.start()
        elif action == "stop":
            part.stop()
            part.start()
        else:
            # Everything waits for the state and the engine: these are frozen for a moment only.
            is_worker = part.name.startswith("worker")
            is_long = action == "freeze long" and is_worker
            part.freeze()
            seconds = LONG_FREEZE_SECONDS if is_long else SHORT_FREEZE_SECONDS
            self._frozen[part.name] = (part, time.monotonic() + seconds)

    def _thaw_due(self) -> None:
        for name, (part, due) in list(self._frozen.items()):
            if time.monotonic() >= due:
                part.thaw()
                del self._frozen[name]

    def _revive(self) -> None:
        for part in self._parts:
            if isinstance(part, Program):
                part.revive()

    def end(self) -> None:
        """Let every part run."""
        for part, _ in self._frozen.values():
            part.thaw()
        self._frozen.clear()
        self._revive()
