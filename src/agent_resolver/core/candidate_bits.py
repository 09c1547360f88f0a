"""Many candidates against one requirement at once: a set of candidates is a whole number with a bit for each.

The candidates of a category are numbered by preference. Every set here is exact: the scopes are looked up, and the
other facts are judged by the rules themselves. So the lowest bit of those that pass is the choice, and the number of
bits of a set is what a report counts.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from agent_resolver.core.fact_byte import SIGNED, fact_verdicts, verdict_of_agent_file
from agent_resolver.schema.agent_file import Limits, Requirement
from agent_resolver.schema.explanation import RejectionCode


class CandidateBits:
    """The candidates of one category."""

    def __init__(
        self,
        facts: bytes,
        offering: Callable[[str], int],
        unknown: Callable[[], int],
    ) -> None:
        """Candidates with these facts.

        Args:
            facts: The byte of each candidate, by preference.
            offering: Returns the candidates that offer a scope.
            unknown: Returns the candidates whose scopes are not known.
        """
        self.all = (1 << len(facts)) - 1
        """Every candidate."""
        # The last digit of a number is its lowest bit.
        self._facts = facts[::-1]
        self._offering = offering
        self._unknown = unknown
        self._known: dict[bytes, int] = {}

    @property
    def signed(self) -> int:
        """The signed candidates, which come first."""
        return self._with_facts(SIGNED)

    def passing(self, requirement: Requirement, limits: Limits) -> int:
        """The candidates that break no rule."""
        found = self._with_scopes(requirement)
        if not found or verdict_of_agent_file(requirement, limits):
            return 0
        return found & self._with_facts(fact_verdicts(limits).by_code[None])

    def broken(
        self,
        requirement: Requirement,
        limits: Limits,
    ) -> dict[RejectionCode, int]:
        """The candidates that break a rule, by the first that they break."""
        unknown = self._unknown()
        offering = self._with_scopes(requirement)
        # In the order of the rules: each set leaves out those that an earlier rule has
        # rejected.
        found = {
            RejectionCode.SCOPES_UNKNOWN: unknown,
            RejectionCode.MISSING_SCOPE: self.all & ~unknown & ~offering,
        }
        by_agent_file = verdict_of_agent_file(requirement, limits)
        if by_agent_file:
            found[by_agent_file] = offering
        else:
            for code, table in fact_verdicts(limits).by_code.items():
                if code is not None:
                    found[code] = offering & self._with_facts(table)
        return {code: bits for code, bits in found.items() if bits}

    def closest(self, requirement: Requirement, limits: Limits, most: int) -> list[int]:
        """The candidates that break the fewest rules and lack the fewest scopes, the closest first."""
        by_count = fact_verdicts(limits).by_count
        # A rule that the agent file alone decides is broken by every candidate alike.
        constant = 1 if verdict_of_agent_file(requirement, limits) else 0
        lacking = self._lacking(requirement)
        by_rules = {count: self._with_facts(table) for count, table in by_count.items()}
        some = _union(lacking)
        found: list[int] = []
        # Few groups: the rules that may be broken, and whether a scope is lacking.
        for rules in range(max(by_count) + constant + 2):
            # A candidate that lacks a scope breaks one rule more than its facts show.
            complete = by_rules.get(rules - constant, 0)
            partial = by_rules.get(rules - constant - 1, 0)
            for each in _by_count(lacking, complete & ~some | partial & some):
                left = most - len(found)
                found += islice(ordinals(each), left)
                if len(found) == most:
                    return found
        return found

    def _with_scopes(self, requirement: Requirement) -> int:
        found = self.all
        for scope in requirement.permissions:
            found &= self._offering(scope)
            if not found:
                break
        return found

    def _lacking(self, requirement: Requirement) -> list[int]:
        """The number of scopes that each candidate lacks, in binary: a set for each digit, the lowest first."""
        digits: list[int] = []
        # A scope that is asked for twice is lacking once.
        for scope in dict.fromkeys(requirement.permissions):
            carry = self.all & ~self._offering(scope)
            # A ripple-carry adder over whole sets: every candidate that lacks the scope
            # counts up by one.
            for place, digit in enumerate(digits):
                digits[place], carry = digit ^ carry, digit & carry
            if carry:
                digits.append(carry)
        return digits

    def _with_facts(self, table: bytes) -> int:
        """The candidates whose byte the table turns into the digit 1."""
        # A translation reads the byte of every candidate, so each table is applied
        # once.
        if table not in self._known:
            digits = self._facts.translate(table)
            self._known[table] = int(digits or b"0", 2)
        return self._known[table]


def _union(sets: Iterable[int]) -> int:
    found = 0
    for each in sets:
        found |= each
    return found


def _by_count(digits: list[int], among: int) -> Iterator[int]:
    """Candidates in groups that lack equally many scopes, the fewest first."""
    if not among:
        return
    if not digits:
        yield among
        return
    # Without the highest digit a candidate lacks fewer scopes than any with it.
    highest = digits[-1]
    lower = digits[:-1]
    yield from _by_count(lower, among & ~highest)
    yield from _by_count(lower, among & highest)


def ordinals(bits: int) -> Iterator[int]:
    """The numbers of the candidates of a set, in order."""
    if not bits:
        return
    if bits.bit_length() <= 64:  # noqa: PLR2004 - a machine word
        while bits:
            lowest = bits & -bits
            yield lowest.bit_length() - 1
            bits ^= lowest
        return
    # To take single bits off a long number takes as long as it has digits; to search
    # its digits does not.
    lowest = (bits & -bits).bit_length() - 1
    yield lowest
    digits = f"{bits:b}"[::-1]
    place = digits.find("1", lowest + 1)
    while place >= 0:
        yield place
        place = digits.find("1", place + 1)
