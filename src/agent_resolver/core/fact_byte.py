"""The facts that rules look at, category and scopes apart, in one byte: so many servers are judged at once.

Rules tell few servers apart. A byte is judged once by the rules themselves, with a server that has the facts that it
stands for and nothing else, so that there is no second form of any rule.
"""

from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import product
from typing import Final

from msgspec import Struct

from agent_resolver.core.rule import OTHER_CHECKS, Check
from agent_resolver.schema.agent_file import Limits, Requirement
from agent_resolver.schema.explanation import RejectionCode
from agent_resolver.schema.index import Server
from agent_resolver.schema.vocabulary import (
    SENSITIVITY_RANK,
    Residency,
    Sensitivity,
    Status,
)

_ANY: Final[tuple[Residency, ...]] = ("any",)
_RESIDENCIES: Final[tuple[tuple[Residency, ...] | None, ...]] = (
    None,
    (),
    ("us-only",),
    ("eu-only",),
    ("us-only", "eu-only"),
    _ANY,
)
"""Every case that rules tell apart: a server that says `any` passes whatever else it says."""
_SENSITIVITIES: Final[tuple[Sensitivity | None, ...]] = (None, *SENSITIVITY_RANK)
_STATUSES: Final[tuple[Status, ...]] = ("active", "deleted")
_CASES: Final = tuple(product(_RESIDENCIES, _SENSITIVITIES, (True, False), _STATUSES))
_BYTES: Final = {case: byte for byte, case in enumerate(_CASES)}
_REGIONS: Final = {
    residency: frozenset(residency)
    for residency in _RESIDENCIES
    if residency is not None
}
_DIGITS: Final = b"01"
_NOTHING: Final = Requirement(category="", permissions=())


class FactVerdicts(Struct, frozen=True):
    """The verdicts of the rules, as tables that turn each byte into the digit 1 where it is meant, else into 0."""

    by_code: dict[RejectionCode | None, bytes]
    """By the first rule that is broken; None where none is."""
    by_count: dict[int, bytes]
    """By the number of rules that are broken, in order."""


def fact_byte(server: Server) -> int:
    """The byte that stands for the facts of a server."""
    return _byte_of(
        (server.residency, server.max_sensitivity, server.signed, server.status)
    )


@lru_cache(4096)
def _byte_of(
    facts: tuple[tuple[Residency, ...] | None, Sensitivity | None, bool | None, Status],
) -> int:
    residency, sensitivity, signed, status = facts
    # The rules tell no other status apart.
    kind: Status = "deleted" if status == "deleted" else "active"
    return _BYTES[_residency_case(residency), sensitivity, bool(signed), kind]


def _residency_case(
    residency: tuple[Residency, ...] | None,
) -> tuple[Residency, ...] | None:
    if residency is None:
        return None
    if "any" in residency:
        return _ANY
    return next(
        case for case, regions in _REGIONS.items() if regions == frozenset(residency)
    )


@cache
def fact_verdicts(limits: Limits) -> FactVerdicts:
    """The verdicts of the rules that look at facts, for each byte."""
    broken = _broken_by_case(limits)
    codes = [next(iter(found), None) for found in broken]
    counts = [len(found) for found in broken]
    return FactVerdicts(
        by_code={
            code: _table(each is code for each in codes)
            for code in dict.fromkeys((None, *codes))
        },
        by_count={
            count: _table(each == count for each in counts)
            for count in sorted(set(counts))
        },
    )


def _broken_by_case(limits: Limits) -> list[list[RejectionCode]]:
    """The rules that each case of facts breaks, in the order of the rules."""
    # These rules look at limits and facts alone, so an empty requirement stands for
    # every one.
    judges = [
        judge
        for check in OTHER_CHECKS
        if check.fact and (judge := check.prepare(_NOTHING, limits))
    ]
    found: list[list[RejectionCode]] = []
    for sample in map(_sample_of, _CASES):
        reasons = [judge(sample) for judge in judges]
        found.append([reason.code for reason in reasons if reason])
    return found


def _table(is_meant: Iterable[bool]) -> bytes:
    """The table that turns the bytes that are meant into the digit 1, and all others into 0."""
    # `bytes.translate` takes a table of 256; a byte that stands for no case becomes 0.
    return bytes(_DIGITS[each] for each in is_meant).ljust(256, _DIGITS[:1])


def verdict_of_agent_file(
    requirement: Requirement,
    limits: Limits,
) -> RejectionCode | None:
    """The rule that every server breaks, since the agent file alone decides; None if there is none."""
    for check in _AGENT_FILE_CHECKS:
        judge = check.prepare(requirement, limits)
        # Such a rule looks at no server, so any sample will do.
        reason = judge(_sample_of(_CASES[0])) if judge else None
        if reason:
            return reason.code
    return None


def _sample_of(
    case: tuple[tuple[Residency, ...] | None, Sensitivity | None, bool, Status],
) -> Server:
    residency, sensitivity, signed, status = case
    return Server("", "", "", (), (), residency, sensitivity, signed, status=status)


SIGNED: Final = _table(case[2] for case in _CASES)
"""The table that turns the bytes of signed servers, which are preferred, into the digit 1."""
_AGENT_FILE_CHECKS: Final[tuple[Check, ...]] = tuple(
    check for check in OTHER_CHECKS if check.fact is None
)
