"""The evidence of a task as a file: read whole or refused, and the same bytes for the same evidence."""

from typing import Any

import msgspec
import pytest

from agent_resolver.schema.errors import InvalidEvidence
from agent_resolver.schema.evidence import TaskEvidence, evidence_digest, evidence_json, parse_evidence
from agent_resolver.schema.limit import MAX_EVIDENCE_BYTES

DIGEST = f"sha256-{'0' * 64}"
EVIDENCE = msgspec.convert(
    {
        "product": {"version": "0.1.0", "python": "3.11.7", "rules": DIGEST},
        "task": {
            "task_id": "t1",
            "trace_id": "1" * 32,
            "stage": "builder",
            "status": "waiting",
            "environment": "dev",
            "initiator_id": "local:ada",
            "intent": "Öffne\n1.0",
            "kind": None,
            "code": "",
            "reason": "",
            "cycles": 0,
            "tokens": 0,
            "artifacts": {"p": {"type": "BLUEPRINT", "content": DIGEST, "status": "DRAFT", "summary": ""}},
            "pending_actions": [],
            "reasoning_history": [],
            "run": None,
            "result": None,
            "output": None,
            "started_at": "",
            "changed_at": "",
        },
        "request": DIGEST,
        "context": {"app_id": "a", "environment": "dev", "initiator": {"id": "ada"}, "classification": "INTERNAL"},
        "certified": [],
        "references": {"arguments": DIGEST},
        "contents": {DIGEST: {"b": [1, 1.0, -0.5, 1e300], "a": "\u2028 ü", "c": None}},
        "actions": [{"id": "q", "type": "CLARIFICATION", "subject": "s", "message": "m", "askedAt": ""}],
        "records": [{"position": 1, "run": "t1", "sequence": 1, "at": "", "kind": "k", "body": {}, "previous": ""}],
        "trail": {"count": 0, "root": "", "is_keyed": False},
    },
    TaskEvidence,
)
RAW = evidence_json(EVIDENCE)


def test_a_file_is_read_back_as_the_same_evidence() -> None:
    again = parse_evidence(RAW)

    assert again == EVIDENCE
    assert evidence_json(again) == RAW
    assert evidence_digest(again) == evidence_digest(EVIDENCE)


def changed(**more: Any) -> bytes:
    return msgspec.json.encode({**msgspec.to_builtins(EVIDENCE), **more})


REFUSED = {
    "nothing": b"",
    "no JSON": b"hello",
    "no object": b"[]",
    "a null": b"null",
    "another object": b"{}",
    "a truncated file": RAW[: len(RAW) // 2],
    "a file with more after it": RAW + b"{}",
    "bytes that are not UTF-8": RAW.replace(b"local:ada", b"local:\xff"),
    "a key twice": RAW.replace(b'"version": "1"', b'"version": "1",\n  "version": "1"'),
    "a key twice in a content": RAW.replace(b'"c": null', b'"c": null,\n      "c": 1'),
    "a key that is not known": changed(more=1),
    "a key that is not known in a record": RAW.replace(b'"kind": "k"', b'"kind": "k", "approved_by": "ben"'),
    "a key that is not known in an artifact": RAW.replace(b'"status": "DRAFT"', b'"status": "DRAFT", "by": "ben"'),
    "a key that is left out": RAW.replace(b'"is_verified": false,', b""),
    "another version": changed(version="2"),
    "a seal that is no seal": changed(seal="zz"),
    "a digest with a line end": changed(request=f"{DIGEST}\n"),
    "values that nest too deeply": RAW.replace(b'"c": null', b'"c": ' + b"[" * 90_000 + b"]" * 90_000),
    "a file that is too large": b" " * (MAX_EVIDENCE_BYTES + 1),
    "a number that is none": changed(request=DIGEST).replace(b'"cycles":0', b'"cycles":NaN'),
    "half a surrogate pair": RAW.replace(b"local:ada", b"\\ud800"),
}


@pytest.mark.parametrize("raw", REFUSED.values(), ids=REFUSED.keys())
def test_what_is_not_evidence_is_refused_with_a_reason(raw: bytes) -> None:
    with pytest.raises(InvalidEvidence) as refusal:
        parse_evidence(raw)

    assert refusal.value.issues[0].message
