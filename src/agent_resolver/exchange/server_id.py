"""Ids for servers whose names cannot be ids."""

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Final
from unicodedata import normalize

_MAX_LENGTH: Final = 80
_REFUSED: Final = re.compile(r"[^A-Za-z0-9._-]+")
_PATH: Final = re.compile(
    r"[/~]|[A-Za-z]:[\\/]|(?:.*[/\\])?\.{1,2}(?:[/\\]|$)|.*\\", re.DOTALL
)


def mapped_id(name: str) -> str:
    """The id for a name: the same for the same name, and the name itself where it can be one.

    The characters of an id are letters and digits of ASCII, dots, dashes and underscores; runs of others become a dash.
    """
    # Decomposed, a letter with an accent is the letter and the accent.
    plain = (
        normalize("NFKD", name).encode("ascii", "ignore").decode()
        if name.isprintable()
        else name
    )
    readable = _REFUSED.sub("-", plain).strip("-._")
    if not readable:
        return f"server-{_digest_of(name)}"
    if len(readable) > _MAX_LENGTH:
        return f"{readable[:_MAX_LENGTH].rstrip('-._')}-{_digest_of(name)}"
    return readable


def is_path(name: str) -> bool:
    """True if a name leads somewhere on a disk: `/etc`, `~x`, `C:/x`, `..`, `a/../b`."""
    return _PATH.match(name) is not None


def assign_ids(names: Iterable[str], known: Mapping[str, str]) -> dict[str, str]:
    """The id of each name, whatever the order of the names.

    Of several names that map to one id, the one that is that id keeps it, and each other gets a suffix.

    Args:
        names: The names of all servers to import.
        known: The ids that servers of the index have already, by name; these stay.
    """
    taken = set(known.values())
    groups: dict[str, list[str]] = {}
    for name in sorted(set(names).difference(known)):
        groups.setdefault(mapped_id(name), []).append(name)
    found: dict[str, str] = {}
    for name in names:
        if name in known:
            found[name] = known[name]
    for wanted, rivals in groups.items():
        is_contested = len(rivals) > 1 or wanted in taken
        for name in rivals:
            needs_suffix = is_contested and (name != wanted or wanted in taken)
            if needs_suffix:
                found[name] = f"{wanted}-{_digest_of(name)}"
            else:
                found[name] = wanted
    return found


def _digest_of(name: str) -> str:
    return sha256(name.encode(errors="surrogatepass")).hexdigest()[:8]
