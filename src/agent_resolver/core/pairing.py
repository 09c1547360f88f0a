"""Members of two lists that belong together."""

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

_Left = TypeVar("_Left")
_Right = TypeVar("_Right")


def pair_by_likeness(
    left: Iterable[_Left],
    right: Iterable[_Right],
    likeness_of_left: Callable[[_Left], Hashable],
    likeness_of_right: Callable[[_Right], Hashable],
) -> tuple[list[tuple[_Left, _Right | None]], list[_Right]]:
    """Each of `left` with the first of `right` that is like it and not yet taken, or None; then the rest of `right`."""
    others = [*right]
    # The places of equal members wait in queues, so that each is taken once, and in its
    # order.
    places: dict[Hashable, deque[int]] = {}
    for place, other in enumerate(others):
        places.setdefault(likeness_of_right(other), deque()).append(place)
    pairs: list[tuple[_Left, _Right | None]] = []
    taken: set[int] = set()
    for one in left:
        like = places.get(likeness_of_left(one))
        if like:
            place = like.popleft()
            taken.add(place)
            pairs.append((one, others[place]))
        else:
            pairs.append((one, None))
    rest = [other for place, other in enumerate(others) if place not in taken]
    return pairs, rest
