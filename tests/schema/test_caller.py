"""Who asks for something, and what they may do unless somebody says so."""

import msgspec
import pytest
from msgspec import structs

from agent_resolver.schema import Caller, local_caller


def test_of_whom_nothing_is_known_nothing_is_allowed() -> None:
    nobody = Caller(id="somebody")

    assert not nobody.is_verified
    assert nobody.scopes == frozenset()
    assert nobody.roles == frozenset()
    assert nobody.clearance == "PUBLIC"
    assert nobody.expires_at is None


def test_a_local_caller_has_the_rights_of_the_operator_and_no_roles() -> None:
    ada = local_caller("ada")

    assert ada == Caller(id="local:ada", is_verified=False, scopes=None, roles=frozenset(), clearance="RESTRICTED")


def test_a_caller_does_not_change() -> None:
    caller = Caller(id="ada")

    with pytest.raises(AttributeError):
        caller.is_verified = True  # type: ignore[misc]


@pytest.mark.parametrize("scopes", [None, frozenset[str](), frozenset({"read"})])
def test_a_caller_survives_being_written_and_read(scopes: frozenset[str] | None) -> None:
    caller = structs.replace(local_caller("ada"), scopes=scopes, expires_at="2026-01-01T00:00:00.000Z")

    assert msgspec.json.decode(msgspec.json.encode(caller), type=Caller) == caller


def test_a_caller_that_was_kept_before_claims_were_noted_is_still_read() -> None:
    kept = b"""{"id":"ada","is_verified":true,"issuer":"https://one.example.com","scopes":["read"],"roles":[],
        "clearance":"INTERNAL","cost_center":"cc-1","app_id":"","expires_at":null,"via":"","via_issuer":""}"""

    read = msgspec.json.decode(kept, type=Caller)

    assert (read.cost_center, read.division, read.absent_claims) == ("cc-1", "", ())


def test_a_record_names_the_caller_and_whoever_acts_for_them() -> None:
    ada = Caller(id="ada", issuer="https://one.example.com")
    acted_for = structs.replace(ada, via="worker", via_issuer="https://two.example.com")

    assert Caller(id="ada").as_recorded() == {"caller": "ada"}
    assert ada.as_recorded() == {"caller": "ada", "issuer": "https://one.example.com"}
    assert acted_for.as_recorded() == {**ada.as_recorded(), "via": "worker", "viaIssuer": "https://two.example.com"}
