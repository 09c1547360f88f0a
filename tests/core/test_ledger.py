"""Whether a call may start, from every way in which the ledger may know it."""

from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec import structs

from agent_resolver.core import judge_start
from agent_resolver.schema import Begun, LedgerEntry, PendingAction, Start

AT = "2026-01-01T00:00:00.000Z"
START = Start(
    key="k",
    tool="a.b",
    arguments="sha256-1",
    is_idempotent=False,
    caller="local:ada",
    trace_id="0" * 32,
    at=AT,
    record=None,
)
KEPT = LedgerEntry(
    key="k",
    tool="a.b",
    arguments="sha256-1",
    is_idempotent=False,
    state="started",
    caller="local:ada",
    trace_id="0" * 32,
    owner="p",
    started_at=AT,
)
ASKED = PendingAction(id="a1", type="APPROVAL", subject="a.b", message="May it?", asked_at=AT)
APPROVED = structs.replace(ASKED, answer="approved")
USED = structs.replace(APPROVED, used_at=AT)


def judged(
    kept: LedgerEntry | None, answer: PendingAction | None = None, *, is_interrupted: bool = False, **change: Any
) -> str:
    uses = answer.id if answer else change.pop("uses", None)
    start = structs.replace(START, uses=uses, **change)
    begun = judge_start(kept, start, answer, is_interrupted=is_interrupted)
    assert (begun.sealed is None) or begun.state in {"done", "failed"}
    return begun.state


def known(**change: Any) -> LedgerEntry:
    return structs.replace(KEPT, **change)


def test_a_call_that_the_ledger_does_not_know_starts() -> None:
    assert judge_start(None, START, None, is_interrupted=False) == Begun("started")


def test_a_call_starts_with_an_answer_that_was_given_and_not_used() -> None:
    assert judged(None, APPROVED) == "started"
    assert [judged(None, ASKED), judged(None, USED), judged(None, uses="absent")] == ["refused"] * 3


@pytest.mark.parametrize("is_new_attempt", [True, False])
@pytest.mark.parametrize("state", ["started", "done", "failed", "unknown"])
@pytest.mark.parametrize("change", [{"tool": "a.c"}, {"arguments": "sha256-2"}])
def test_a_key_is_for_one_call(state: Any, change: dict[str, Any], is_new_attempt: bool) -> None:  # noqa: FBT001
    entry = known(state=state, is_idempotent=True)

    told = judged(entry, is_interrupted=True, is_idempotent=True, is_new_attempt=is_new_attempt, **change)

    assert told == "reused"


@pytest.mark.parametrize("is_new_attempt", [True, False])
@pytest.mark.parametrize("state", ["done", "failed"])
def test_a_call_that_ended_is_not_done_again(state: Any, is_new_attempt: bool) -> None:  # noqa: FBT001
    kept = known(state=state, result=b"sealed")
    start = structs.replace(START, is_idempotent=True, is_new_attempt=is_new_attempt)

    assert judge_start(kept, start, None, is_interrupted=False) == Begun(state, b"sealed")


def test_a_call_that_runs_is_not_started_again() -> None:
    entry = known(is_idempotent=True)

    assert judged(entry, is_idempotent=True) == judged(entry, is_new_attempt=True) == "running"


@pytest.mark.parametrize(
    ("kept", "is_interrupted"), [(KEPT, True), (known(state="unknown"), False), (known(state="unknown"), True)]
)
def test_a_call_that_was_interrupted_goes_on_only_if_it_is_safe_or_a_person_says_so(
    kept: LedgerEntry,
    is_interrupted: bool,  # noqa: FBT001
) -> None:
    safe = structs.replace(kept, is_idempotent=True)

    assert judged(kept, is_interrupted=is_interrupted) == "unknown"
    assert judged(kept, is_interrupted=is_interrupted, is_idempotent=True) == "unknown"
    assert judged(safe, is_interrupted=is_interrupted) == "unknown"
    assert judged(safe, is_interrupted=is_interrupted, is_idempotent=True) == "started"
    assert judged(kept, is_interrupted=is_interrupted, is_new_attempt=True) == "started"


@pytest.mark.parametrize("answer", [ASKED, APPROVED, USED])
def test_a_call_that_goes_on_does_so_under_the_answer_that_it_used(answer: PendingAction) -> None:
    assert judged(known(is_idempotent=True), answer, is_interrupted=True, is_idempotent=True) == "started"


@pytest.mark.parametrize(("answer", "told"), [(ASKED, "refused"), (APPROVED, "started"), (USED, "refused")])
def test_a_new_attempt_needs_an_answer_of_its_own(answer: PendingAction, told: str) -> None:
    assert judged(known(state="unknown"), answer, is_new_attempt=True) == told


KEPTS = st.none() | st.builds(
    known,
    tool=st.sampled_from(["a.b", "a.c"]),
    state=st.sampled_from(["started", "done", "failed", "unknown"]),
    is_idempotent=st.booleans(),
)


@given(KEPTS, st.sampled_from([None, ASKED, APPROVED, USED]), st.booleans(), st.booleans(), st.booleans())
def test_a_possible_effect_is_repeated_only_if_idempotent_or_decided(
    kept: LedgerEntry | None,
    answer: PendingAction | None,
    is_interrupted: bool,  # noqa: FBT001
    is_idempotent: bool,  # noqa: FBT001
    is_new_attempt: bool,  # noqa: FBT001
) -> None:
    told = judged(
        kept, answer, is_interrupted=is_interrupted, is_idempotent=is_idempotent, is_new_attempt=is_new_attempt
    )

    if kept is not None and told == "started":
        assert kept.state == "unknown" or (kept.state == "started" and is_interrupted)
        assert is_new_attempt or (is_idempotent and kept.is_idempotent)
    if kept is None or is_new_attempt:
        assert told != "started" or answer in {None, APPROVED}
