from msgspec import structs

from agent_resolver.telemetry import Ending, ending_of
from tests.telemetry.sample import DONE, FAILED, PENDING


def test_an_outcome_is_told_by_its_state_and_code() -> None:
    assert ending_of(DONE) == Ending("done", "DONE")
    assert ending_of(FAILED) == Ending("failed", "TIMEOUT")
    assert ending_of(PENDING) == Ending("waits", "APPROVAL_REQUIRED")
    assert ending_of(None) == Ending("failed", "_OTHER")


def test_a_code_is_plain_text_and_bounded() -> None:
    assert type(ending_of(FAILED).code) is str
    assert len(ending_of(structs.replace(PENDING, code="C" * 999)).code) == 256
