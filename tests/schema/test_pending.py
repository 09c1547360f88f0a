"""What waits for a person, and where it stands."""

import msgspec
import pytest
from msgspec import structs

from agent_resolver.schema import PendingAction, PendingType

ACTION = PendingAction(
    id="sha256-0", type="SECRET", subject="acme@1.0.0", message="Set ACME_TOKEN", asked_at="2026-01-01T00:00:00.000Z"
)
NOW = "2026-01-01T00:10:00.000Z"
LATER = "2026-01-01T00:10:00.001Z"


def test_an_action_is_open_until_it_is_answered() -> None:
    answered = structs.replace(ACTION, answer="done", answered_by="local:ada", answered_at="2026-01-02T00:00:00.000Z")

    assert ACTION.is_open
    assert not answered.is_open


def test_an_empty_answer_is_an_answer() -> None:
    assert not structs.replace(ACTION, answer="").is_open
    assert structs.replace(ACTION, answer="").state(NOW) == "answered"


@pytest.mark.parametrize(
    ("kind", "changes", "state"),
    [
        ("APPROVAL", {}, "open"),
        ("APPROVAL", {"expires_at": LATER}, "open"),
        ("APPROVAL", {"expires_at": NOW}, "expired"),
        ("APPROVAL", {"answer": "approved"}, "approved"),
        ("APPROVAL", {"answer": "approved", "expires_at": LATER}, "approved"),
        # An approval is good until it expires, whenever it was given.
        ("APPROVAL", {"answer": "approved", "expires_at": NOW}, "expired"),
        ("APPROVAL", {"answer": "approved", "used_at": NOW}, "used"),
        ("APPROVAL", {"answer": "approved", "used_at": NOW, "expires_at": NOW}, "used"),
        # No is no for ever.
        ("APPROVAL", {"answer": "rejected"}, "rejected"),
        ("APPROVAL", {"answer": "rejected", "expires_at": NOW}, "rejected"),
        # Only one word approves: another one was not written by the inbox.
        ("APPROVAL", {"answer": "APPROVED"}, "rejected"),
        ("APPROVAL", {"answer": ""}, "rejected"),
        ("CLARIFICATION", {"answer": "rejected"}, "answered"),
        ("CLARIFICATION", {}, "open"),
        ("CLARIFICATION", {"answer": "retry"}, "answered"),
        ("CLARIFICATION", {"answer": "retry", "used_at": NOW}, "used"),
        # Clocks of two machines may differ a little; an approval from years ahead would last for years.
        ("APPROVAL", {"asked_at": "2026-01-01T00:11:00.000Z", "expires_at": "2026-01-01T00:16:00.000Z"}, "open"),
        ("APPROVAL", {"asked_at": "2026-01-01T00:11:00.001Z", "expires_at": "2026-01-01T00:16:00.001Z"}, "expired"),
        ("SECRET", {"answer": "ready"}, "answered"),
        ("OAUTH", {"answer": "ready"}, "answered"),
    ],
)
def test_where_an_action_stands(kind: PendingType, changes: dict[str, str], state: str) -> None:
    assert structs.replace(ACTION, type=kind, **changes).state(NOW) == state


def test_an_action_survives_being_written_and_read() -> None:
    assert msgspec.json.decode(msgspec.json.encode(ACTION), type=PendingAction) == ACTION


def test_an_action_of_no_known_type_is_refused() -> None:
    written = msgspec.json.encode(structs.replace(ACTION, type="HOPE"))

    with pytest.raises(msgspec.ValidationError, match=r"Invalid enum value 'HOPE'"):
        msgspec.json.decode(written, type=PendingAction)
