"""Candidates as bits give the answers that a list of servers gives."""

from hypothesis import given, strategies as st

from agent_resolver import Server
from agent_resolver.core import CHECKS, limits_of, preference
from agent_resolver.core.candidate_bits import CandidateBits, ordinals
from agent_resolver.core.fact_byte import fact_byte
from agent_resolver.core.server import ListedOffering, in_order
from agent_resolver.schema import Limits, RejectionCode, Requirement, Residency
from tests.core.strategies import LAW, Case, cases

FACTS_IN_A_BYTE = {"residency", "maxSensitivity", "signed", "status"}


def bits_of(servers: list[Server]) -> CandidateBits:
    def those(is_wanted: list[bool]) -> int:
        return sum(1 << place for place, each in enumerate(is_wanted) if each)

    return CandidateBits(
        bytes(map(fact_byte, servers)),
        lambda scope: those([scope in (server.scopes or ()) for server in servers]),
        lambda: those([server.scopes is None for server in servers]),
    )


def test_every_fact_that_a_rule_looks_at_is_in_the_tables() -> None:
    """A new rule about another fact has to be added to the byte, and the format of the file raised."""
    looked_at = {check.fact.name for check in CHECKS if check.fact}

    assert looked_at == FACTS_IN_A_BYTE | {"categories", "scopes"}


@LAW
@given(case=cases)
def test_bits_pass_reject_and_rank_as_the_rules_do(case: Case) -> None:
    limits = limits_of(case.agent)
    for requirement in case.agent.requires.mcp:
        offering = [server for server in case.servers if requirement.category in server.categories]
        preferred = sorted(offering, key=preference)
        bits, listed = bits_of(preferred), ListedOffering(in_order(offering))

        passing = [preferred[place] for place in ordinals(bits.passing(requirement, limits))]
        broken = {code: found.bit_count() for code, found in bits.broken(requirement, limits).items()}
        closest = [preferred[place] for place in bits.closest(requirement, limits, 3)]

        assert passing == [*listed.passing(requirement, limits)]
        assert broken == {each.code: each.total for each in listed.rejected(requirement, limits, 1)}
        assert closest == listed.closest(requirement, limits, 3)


def test_what_the_agent_file_forbids_rejects_every_candidate_that_offers_it() -> None:
    requirement = Requirement(category="notes", permissions=("notes:delete",))
    limits = Limits(forbid=("notes:*",))
    bits = bits_of([Server("a", "1", "", ("notes",), ("notes:delete",)), Server("b", "1", "", ("notes",), ("other",))])

    assert bits.passing(requirement, limits) == 0
    assert bits.broken(requirement, limits) == {
        RejectionCode.FORBIDDEN_ACTION: 0b01,
        RejectionCode.MISSING_SCOPE: 0b10,
    }


def test_the_closest_break_the_fewest_rules_and_lack_the_fewest_scopes() -> None:
    here: tuple[Residency, ...] = ("eu-only",)
    elsewhere: tuple[Residency, ...] = ("us-only",)
    servers = [
        Server("lacks-two", "1", "", ("notes",), ("read",), here),
        Server("lacks-one", "1", "", ("notes",), ("read", "write"), here),
        Server("lacks-three", "1", "", ("notes",), (), here),
        Server("lives-elsewhere", "1", "", ("notes",), ("read", "share", "write"), elsewhere),
        Server("lacks-one-and-lives-elsewhere", "1", "", ("notes",), ("read", "share"), elsewhere),
    ]
    requirement = Requirement(category="notes", permissions=("read", "share", "write"))
    limits = Limits(residency="eu-only")
    bits, listed = bits_of(servers), ListedOffering(servers)

    closest = bits.closest(requirement, limits, 5)

    assert closest == [3, 1, 0, 2, 4]
    assert bits.closest(requirement, limits, 2) == [3, 1]
    assert [servers[place] for place in closest] == listed.closest(requirement, limits, 5)
    assert {code: found.bit_count() for code, found in bits.broken(requirement, limits).items()} == {
        RejectionCode.MISSING_SCOPE: 4,
        RejectionCode.RESIDENCY_MISMATCH: 1,
    }


def test_the_first_that_breaks_no_rule_passes() -> None:
    servers = [
        Server("elsewhere", "1", "", ("notes",), ("read",), ("us-only",)),
        Server("here", "1", "", ("notes",), ("read",), ("eu-only",)),
        Server("anywhere", "1", "", ("notes",), ("read",), ("any",)),
        Server("unable", "1", "", ("notes",), (), ("eu-only",)),
        Server("elsewhere", "2", "", ("notes",), ("read",), ("us-only",)),
    ]
    requirement = Requirement(category="notes", permissions=("read",))
    limits = Limits(residency="eu-only")
    bits, listed = bits_of(servers), ListedOffering(servers)

    assert [*ordinals(bits.passing(requirement, limits))] == [1, 2]
    assert {each.code: each.total for each in listed.rejected(requirement, limits, 1)} == {
        RejectionCode.RESIDENCY_MISMATCH: 2,
        RejectionCode.MISSING_SCOPE: 1,
    }
    assert bits.closest(Requirement(category="notes", permissions=()), limits, 9) == [1, 2, 3, 0, 4]


def test_a_scope_that_no_candidate_offers_passes_none() -> None:
    bits = bits_of([Server("a", "1", "", ("notes",), ("read",))])

    assert bits.passing(Requirement(category="notes", permissions=("write", "read")), Limits()) == 0
    assert [*ordinals(0)] == []


def test_ordinals_of_more_than_a_machine_word_are_found() -> None:
    assert [*ordinals(1 << 3 | 1 << 100 | 1 << 200)] == [3, 100, 200]


@given(places=st.sets(st.integers(0, 300)))
def test_ordinals_are_the_places_of_the_bits(places: set[int]) -> None:
    assert [*ordinals(sum(1 << place for place in places))] == sorted(places)


def test_signed_candidates_are_told_apart() -> None:
    signed = Server("a", "1", "", (), (), signed=True)
    unsigned = Server("b", "1", "", (), (), signed=None)

    assert bits_of([signed, unsigned]).signed == 0b01
