"""What waits for a person: who sees it, who answers it, and what answers itself."""

import pytest
from msgspec import structs

from agent_resolver.registry import AnswerRefused, Inbox, MemorySecrets, NeedsAction, ToolFailure
from agent_resolver.schema import Caller, FailureCode, PendingAction, Rules, local_caller
from tests.registry.sample import TRACE, FullStore, MemoryTool, raising
from tests.registry.stage import NOW, Stage, answering, code_of, in_memory, run

ADA = local_caller("ada")
GRACE = Caller(id="grace", is_verified=True, roles=frozenset({"approver"}))


def question(stage: Stage, **changes: object) -> PendingAction:
    """Something that waits, put there by hand."""
    asked = PendingAction(id="a1", type="CLARIFICATION", subject="notes", message="Which note?", asked_at=NOW)
    kept = run(stage.pending.ask(structs.replace(asked, trace_id=TRACE, **changes)))
    assert kept is not None
    return kept


# Looking --------------------------------------------------------------------------------------------------------------


def test_what_is_open_is_listed_oldest_first(stage: Stage) -> None:
    for name, second in (("c", 2), ("b", 1), ("a", 2)):
        question(stage, id=name, asked_at=f"2026-03-01T11:00:0{second}.000Z")

    assert [action.id for action in stage.listed()] == ["b", "a", "c"]


def test_what_no_longer_waits_is_listed_on_request_only(stage: Stage) -> None:
    question(stage, id="open")
    question(stage, id="answered")
    question(stage, id="expired", type="APPROVAL", expires_at=NOW)
    stage.answer("answered", "the first", ADA)

    assert [action.id for action in stage.listed()] == ["open"]
    everything = stage.listed(is_everything=True)
    assert {action.id: stage.inbox.state(action) for action in everything} == {
        "answered": "answered",
        "expired": "expired",
        "open": "open",
    }


def test_an_empty_inbox_is_empty(stage: Stage) -> None:
    assert stage.listed() == stage.listed(is_everything=True) == []


def test_looking_changes_and_records_nothing(stage: Stage) -> None:
    asked = question(stage)

    assert stage.show("a1") == asked
    stage.listed()

    assert stage.actions() == [asked]
    assert stage.records() == []


@pytest.mark.parametrize("action_id", ["a2", "", "A1", "a", "a1 ", "'; DROP TABLE pending; --"])
def test_what_does_not_wait_is_unknown(stage: Stage, action_id: str) -> None:
    question(stage)

    with pytest.raises(AnswerRefused) as refused:
        stage.show(action_id)

    assert refused.value.refusal.message == f"Nothing waits under the id {action_id}"
    assert stage.decide(action_id, "approved", GRACE) == "UNKNOWN_ACTION"
    assert stage.answer(action_id, "yes", GRACE) == "UNKNOWN_ACTION"


# Answering ------------------------------------------------------------------------------------------------------------


def test_a_question_is_answered_once_and_recorded_without_the_words(stage: Stage) -> None:
    question(stage)
    stage.clock.forward(3)

    assert stage.answer("a1", "the second, é\n", ADA) == "answered"
    assert stage.answer("a1", "the first", ADA) == "ALREADY_ANSWERED"
    # A refusal would quote the answer to a person whom it does not concern.
    assert stage.answer("a1", "the first", GRACE) == "UNKNOWN_ACTION"

    kept = stage.show("a1")
    assert (kept.answer, kept.answered_by, kept.answered_at) == (
        "the second, é\n",
        "local:ada",
        "2026-03-01T12:03:00.000Z",
    )
    assert stage.records()[:1] == [
        (
            "action.answered",
            {
                "caller": "local:ada",
                "verified": False,
                "trace": TRACE,
                "action": "a1",
                "type": "CLARIFICATION",
                "tool": "notes",
            },
        )
    ]


def test_each_kind_takes_its_own_kind_of_answer(stage: Stage) -> None:
    for kind in ("APPROVAL", "CLARIFICATION", "OAUTH", "SECRET"):
        question(stage, id=kind, type=kind)

    assert {kind: stage.answer(kind, "yes", ADA) for kind in ("APPROVAL", "OAUTH", "SECRET")} == {
        "APPROVAL": "NOT_A_QUESTION",
        "OAUTH": "ANSWERED_BY_READINESS",
        "SECRET": "ANSWERED_BY_READINESS",
    }
    for verdict in ("approved", "rejected"):
        assert {kind: stage.decide(kind, verdict, GRACE) for kind in ("CLARIFICATION", "OAUTH", "SECRET")} == {
            "CLARIFICATION": "NOT_AN_APPROVAL",
            "OAUTH": "ANSWERED_BY_READINESS",
            "SECRET": "ANSWERED_BY_READINESS",
        }
    assert all(action.is_open for action in stage.actions())
    assert stage.kinds() == ["action.refused"] * 9


def test_who_was_refused_and_why_is_recorded(stage: Stage) -> None:
    question(
        stage, type="APPROVAL", classification="RESTRICTED", role="approver", requester="grace", arguments="sha256-0"
    )

    for by in (GRACE, structs.replace(GRACE, id="eve", roles=frozenset()), ADA):
        stage.decide("a1", "approved", by)
    stage.answer("a1", "yes", GRACE)

    about = {"trace": TRACE, "action": "a1", "type": "APPROVAL", "tool": "notes", "arguments": "sha256-0"}
    assert stage.records() == [
        ("action.refused", {"caller": "grace", "verified": True, **about, "code": "OWN_CALL"}),
        ("action.refused", {"caller": "eve", "verified": True, **about, "code": "MISSING_ROLE"}),
        ("action.refused", {"caller": "local:ada", "verified": False, **about, "code": "UNVERIFIED_APPROVER"}),
        ("action.refused", {"caller": "grace", "verified": True, **about, "code": "NOT_A_QUESTION"}),
    ]


def test_an_answer_to_nothing_is_refused_without_a_record(stage: Stage) -> None:
    assert stage.decide("absent", "approved", GRACE) == stage.answer("absent", "yes", ADA) == "UNKNOWN_ACTION"
    assert stage.records() == []


def test_a_refusal_that_cannot_be_recorded_is_not_told() -> None:
    store = FullStore(is_full=False)
    stage = in_memory(store=store)
    question(stage, type="APPROVAL")
    store.is_full = True

    with pytest.raises(OSError, match="No space left"):
        run(stage.inbox.answer("a1", "yes", answering(ADA)))


def test_an_inbox_records_what_it_refuses_also_where_calls_are_not_recorded() -> None:
    stage = in_memory(store=None)
    stage.add(MemoryTool("notes.read"))
    question(stage, type="APPROVAL")

    assert code_of(stage.call("notes.read", ADA)) == "DONE"
    with pytest.raises(AnswerRefused):
        run(stage.inbox.answer("a1", "yes", answering(ADA)))
    assert stage.kinds() == ["action.refused"]


@pytest.mark.parametrize(
    ("caller", "expected"),
    [
        (ADA, "UNAUTHORIZED"),
        (Caller(id="anonymous"), "UNAUTHORIZED"),
        (structs.replace(GRACE, expires_at=NOW), "UNAUTHORIZED"),
        (structs.replace(GRACE, expires_at="2026-03-01T12:00:00.001Z"), "answered"),
        (GRACE, "answered"),
    ],
)
def test_where_there_is_an_issuer_it_must_vouch_for_whoever_answers(caller: Caller, expected: str) -> None:
    stage = in_memory(only_verified=True)
    question(stage, role="approver")
    question(stage, id="a2", type="APPROVAL", role="approver")

    assert stage.answer("a1", "yes", caller) == expected
    assert stage.decide("a2", "approved", caller) == expected.replace("answered", "approved")
    # Whoever may not answer does not learn what there is to answer either.
    assert stage.answer("absent", "yes", caller) == expected.replace("answered", "UNKNOWN_ACTION")
    is_refused = expected == "UNAUTHORIZED"
    assert [(body["action"], body.get("code")) for _, body in stage.records()] == [
        ("a1", expected if is_refused else None),
        ("a2", expected if is_refused else None),
    ]


def test_a_token_that_expired_is_none_where_there_is_no_issuer_either() -> None:
    stage = in_memory()
    question(stage)

    assert stage.answer("a1", "yes", structs.replace(GRACE, expires_at=NOW)) == "UNAUTHORIZED"


# What answers itself --------------------------------------------------------------------------------------------------


def test_a_wait_for_a_secret_is_settled_when_it_is_there_and_recorded_once(stage: Stage) -> None:
    stage.add(MemoryTool("notes.read", rules=Rules(secrets=("KEY",))))
    waiting = stage.call("notes.read", ADA)
    assert code_of(waiting) == "SECRET_REQUIRED"
    (action,) = stage.listed()
    assert (action.type, action.needs, action.message) == (
        "SECRET",
        "KEY",
        "notes.read needs the secret KEY: put KEY into memory",
    )
    recorded = len(stage.records())

    stage.secrets.values["KEY"] = "there"
    stage.clock.forward(2)

    assert stage.listed() == []
    assert stage.listed() == []
    settled = stage.show(action.id)
    assert (settled.answer, settled.answered_by, settled.answered_at) == ("ready", "ready", "2026-03-01T12:02:00.000Z")
    assert stage.inbox.state(settled) == "answered"
    assert stage.records(recorded) == [
        ("action.settled", {"trace": TRACE, "action": action.id, "type": "SECRET", "tool": "notes.read"})
    ]
    assert code_of(stage.call("notes.read", ADA)) == "DONE"


def test_showing_it_settles_it_too_and_answering_it_then_is_too_late(stage: Stage) -> None:
    question(stage, type="SECRET", needs="KEY")
    stage.secrets.values["KEY"] = "there"

    assert stage.answer("a1", "there", ADA) == "ALREADY_ANSWERED"
    assert stage.show("a1").answer == "ready"
    assert stage.kinds() == ["action.settled", "action.refused"]


def test_signing_in_is_settled_in_the_same_way(stage: Stage) -> None:
    needed = NeedsAction("OAUTH", "acme", "Sign in to acme", needs="ACME_TOKEN")
    stage.add(MemoryTool("acme.read", raising(needed)))
    assert code_of(stage.call("acme.read", ADA)) == "OAUTH_REQUIRED"

    stage.secrets.values["ACME_TOKEN"] = "there"

    assert stage.listed() == []
    assert stage.kinds()[-1] == "action.settled"


def test_a_secret_that_goes_away_again_is_asked_for_anew(stage: Stage) -> None:
    stage.add(MemoryTool("notes.read", rules=Rules(secrets=("KEY",))))
    stage.call("notes.read", ADA)
    stage.secrets.values["KEY"] = "there"
    stage.listed()
    del stage.secrets.values["KEY"]

    assert code_of(stage.call("notes.read", ADA)) == "SECRET_REQUIRED"
    assert len(stage.listed()) == 1
    assert len(stage.listed(is_everything=True)) == 2


class LockedSecrets(MemorySecrets):
    """A place that cannot be asked."""

    async def get(self, name: str) -> str | None:
        raise ToolFailure(FailureCode.NOT_CONFIGURED, f"The secret {name} cannot be read: it is locked", "unlock it")


def test_a_place_that_cannot_be_asked_settles_nothing_and_hides_nothing(stage: Stage) -> None:
    asked = question(stage, type="SECRET", needs="KEY")
    inbox = Inbox(stage.store, LockedSecrets(), stage.clock)

    assert run(inbox.list(answering(ADA))) == [asked]
    assert stage.records() == []
