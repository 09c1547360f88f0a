"""Folders of agent files, the same bytes every time: a workspace with requirements, and a catalog without.

Words of descriptions come from 3,000 made-up words, the n-th of them n times rarer than the first, as in real texts.
"""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.generate import CATEGORIES, SEED, Dice, scopes_of, servers, write_index

_SYLLABLES: Final = ("ba", "ce", "di", "fo", "gu", "ka", "le", "mi", "no", "pu", "ra", "se", "ti", "vo", "zu")
_BODY: Final = "You do one thing well, say what you did and why, and stop when you are in doubt.\n"
WORDS: Final = tuple(a + b + c for a in _SYLLABLES for b in _SYLLABLES for c in _SYLLABLES)[:3000]
MODELS: Final = ("haiku", "sonnet", "opus")


def workspace(folder: Path, *, agents: int, servers_count: int) -> Path:
    """A folder with an index and `agents/*.md`, five requirements each, all of which resolve."""
    mark = folder / f".made-{agents}x{servers_count}"
    if mark.exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "agents").mkdir(parents=True)
    dice = Dice(SEED)
    grants = sorted(write_index(folder / "mcp.index.json", servers(dice, servers_count)).items())
    for number in range(agents):
        needs = "".join(
            f"    - category: {category}\n      permissions: {json.dumps(scopes[:2])}\n"
            for category, scopes in dice.some(grants, 5)
        )
        head = f"---\nname: agent-{number:04d}\nversion: 1.0.0\ndescription: {text(dice, 12)}\nrequires:\n  mcp:\n"
        limits = "constraints:\n  data:\n    sensitivity: internal\n    residency: us-only\n"
        (folder / "agents" / f"agent-{number:04d}.md").write_text(f"{head}{needs}{limits}---\n\n{_BODY * 10}")
    mark.touch()
    return folder


def agents_for(folder: Path, *, agents: int) -> Path:
    """A folder with `agents/*.md` for the largest index: five requirements each, of scopes that its categories have."""
    mark = folder / f".made-{agents}"
    if mark.exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "agents").mkdir(parents=True)
    dice = Dice(SEED)
    for number in range(agents):
        chosen = dice.some(CATEGORIES, 5)
        needs = "".join(
            f"    - category: {category}\n      permissions: {json.dumps(dice.some(scopes_of(category), 2))}\n"
            for category in chosen
        )
        head = f"---\nname: agent-{number:04d}\nversion: 1.0.0\ndescription: {text(dice, 12)}\nrequires:\n  mcp:\n"
        (folder / "agents" / f"agent-{number:04d}.md").write_text(f"{head}{needs}---\n\n{_BODY * 10}")
    mark.touch()
    return folder


def catalog(folder: Path, *, agents: int) -> Path:
    """A folder of agent files for the catalog, a hundred a folder, about 4 kB each."""
    mark = folder / f".made-{agents}"
    if mark.exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    dice = Dice(SEED)
    for number in range(agents):
        place = folder / f"team-{number // 100:03d}"
        place.mkdir(parents=True, exist_ok=True)
        capabilities = json.dumps([word(dice) for _ in range(3)])
        head = f"---\nname: agent-{number:05d}\ndescription: {text(dice, 25)}\nmodel: {dice.one(MODELS)}\n"
        content = f"{head}capabilities: {capabilities}\n---\n\n# Agent {number}\n\n{_BODY * 45}"
        (place / f"agent-{number:05d}.md").write_text(content)
    mark.touch()
    return folder


def talkative_catalog(folder: Path, *, agents: int) -> Path:
    """A folder of short agent files, about 1 kB each without their descriptions, which have 2 kB of conversations."""
    folder.mkdir(parents=True, exist_ok=True)
    dice = Dice(SEED)
    for number in range(agents):
        talk = " ".join(f'user: "{text(dice, 12)}" assistant: "{text(dice, 12)}"' for _ in range(10))
        head = f"---\nname: agent-{number:05d}\ndescription: {json.dumps(f'{text(dice, 12)}. {talk}')}\n"
        (folder / f"agent-{number:05d}.md").write_text(f"{head}---\n\n{_BODY * 12}")
    return folder


def queries(count: int) -> Sequence[str]:
    """What somebody might look for: one to four words, drawn as descriptions are; one in ten is a name."""
    dice = Dice(SEED + 1)
    return [f"agent-{dice.below(10_000):05d}" if dice.chance(0.1) else text(dice, dice.few(1, 4)) for _ in range(count)]


def word(dice: Dice) -> str:
    """One of the words, the n-th n times rarer than the first."""
    return WORDS[int(len(WORDS) ** dice.share()) - 1]


def text(dice: Dice, count: int) -> str:
    """Words with spaces between them."""
    return " ".join(word(dice) for _ in range(count))
