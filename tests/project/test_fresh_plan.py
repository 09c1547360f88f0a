"""Plans of one runtime, with a change of a file between them: each goes by the files as they are then."""

import os
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from agent_resolver.core import DifferenceKind, examine
from agent_resolver.runtime import AgentNotFound, InvalidSpec, LockMissing, LockStale
from agent_resolver.schema import OVERLAY_NAME, InvalidOverlay
from tests.project.conftest import BOUND, Open, planned

OVERLAY = "servers: { crm: { data: { residency: [us-only] } } }\n"


@pytest.mark.parametrize(
    ("file", "change", "kind"),
    [
        ("agents/bound.md", ("version: 1.0.0", "version: 1.0.1"), DifferenceKind.AGENT_CHANGED),
        ("agents/bound.md", ("category: mail", "category: post"), DifferenceKind.REQUIREMENT_CHANGED),
        ("mcp.index.json", ("crm.example", "crn.example"), DifferenceKind.ENDPOINT_MOVED),
        ("agents/bound.lock", ('"crm"', '"CRM"'), DifferenceKind.HASH_EDITED),
    ],
)
def test_a_change_between_two_plans_of_one_runtime_is_noticed(
    locked: Path, look: Open, file: str, change: tuple[str, str], kind: DifferenceKind
) -> None:
    """Each edit keeps the size of the file; the second puts its times back as well."""
    snapshot, path = look(), locked / file
    before, times = path.read_text(), path.stat()
    held = planned(snapshot).lock
    for is_disguised in (False, True):
        path.write_text(before.replace(*change, 1))
        if is_disguised:
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

        with pytest.raises(LockStale) as caught:
            planned(snapshot)
        assert kind in {difference.kind for difference in caught.value.details}
        path.write_text(before)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        assert planned(snapshot).lock == held


def test_an_overlay_that_comes_changes_and_goes_between_plans_is_noticed(locked: Path, look: Open) -> None:
    snapshot, path = look(), locked / OVERLAY_NAME
    held = planned(snapshot).lock
    path.write_text(OVERLAY)

    with pytest.raises(LockStale):
        planned(snapshot)
    path.write_text("{")
    with pytest.raises(InvalidOverlay):
        planned(snapshot)
    path.unlink()
    assert planned(snapshot).lock == held


def test_a_lock_that_goes_and_comes_back_between_plans_is_noticed(locked: Path, look: Open) -> None:
    snapshot, path = look(), locked / "agents" / "bound.lock"
    content = path.read_bytes()
    held = planned(snapshot).lock
    path.unlink()

    with pytest.raises(LockMissing):
        planned(snapshot)
    path.write_bytes(content)
    assert planned(snapshot).lock == held


def test_an_agent_file_that_changes_goes_or_is_renamed_between_plans_is_noticed(locked: Path, look: Open) -> None:
    snapshot, path = look(), locked / "agents" / "bound.md"
    first = planned(snapshot)
    path.write_text(f"{BOUND}Be brief.\n")
    second = planned(snapshot)

    assert (first.spec.system_prompt, second.spec.system_prompt) == (
        "You keep contacts.",
        "You keep contacts.\nBe brief.",
    )
    times = path.stat()
    path.write_text(f"{BOUND}Be quick.\n")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert planned(snapshot).spec.system_prompt == "You keep contacts.\nBe quick."
    for broken in ("mane: bound", "name: other", "name: {bou"):
        path.write_text(f"{BOUND}Be quick.\n".replace("name: bound", broken))
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        with pytest.raises((AgentNotFound, InvalidSpec)):
            planned(snapshot)
    path.unlink()
    with pytest.raises(AgentNotFound):
        planned(snapshot)


def test_what_did_not_change_is_verified_once(locked: Path, look: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    verified: list[bytes] = []

    def counted(raw: bytes, *more: Any) -> Any:
        verified.append(raw)
        return examine(raw, *more)

    monkeypatch.setattr("agent_resolver.project.plan.examine", counted)
    snapshot = look()
    plans = [planned(snapshot) for _ in range(3)]

    assert len(verified) == 1
    assert plans[0].lock is plans[2].lock
    assert plans[0].spec is plans[2].spec


def test_the_lock_of_a_plan_has_the_digest_of_its_file(locked: Path, look: Open) -> None:
    held = planned(look()).lock
    content = (locked / "agents" / "bound.lock").read_bytes()

    assert held is not None
    assert held.digest == f"sha256-{sha256(content).hexdigest()}"


def test_an_agent_by_its_address_has_the_lock_of_its_file_as_it_is_now(locked: Path, look: Open) -> None:
    snapshot, path = look(), locked / "agents" / "bound.md"
    assert planned(snapshot, "agent://bound").lock == planned(snapshot).lock
    path.write_text(BOUND.replace("version: 1.0.0", "version: 1.0.1"))

    with pytest.raises(LockStale):
        planned(snapshot, "agent://bound")
