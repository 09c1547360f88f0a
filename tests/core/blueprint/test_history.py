"""Recorded histories: runs that began with an older program make the same moves with this one."""

from pathlib import Path

import pytest
from msgspec import structs

from agent_resolver.core import (
    INTERPRETER_VERSION,
    Ended,
    History,
    HistoryDifference,
    RecordedWave,
    decode_history,
    encode_history,
    replay_history,
)
from tests.core.blueprint.recording import CASES, FOLDER, Case, digests_of, history_of

FILES = sorted(FOLDER.glob("*/*.json"))
VERSIONS = sorted(folder.name for folder in FOLDER.iterdir() if folder.is_dir())


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_a_recorded_history_replays_as_it_was(file: Path) -> None:
    assert replay_history(decode_history(file.read_bytes())) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_recorded_histories_are_never_changed(version: str) -> None:
    listed = (FOLDER / f"{version}.sha256").read_text(encoding="ascii")

    assert digests_of(FOLDER / version) == listed


def test_the_present_version_has_a_history_of_every_kind() -> None:
    names = [file.stem for file in FILES if file.parent.name == INTERPRETER_VERSION]

    assert sorted(names) == sorted(CASES)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_history_comes_back_from_its_file(case: Case) -> None:
    history = history_of(case)

    assert decode_history(encode_history(history)) == history


# Differences ----------------------------------------------------------------------------------------------------------

SEQUENCE = history_of(CASES["sequence"])
GROUP = history_of(CASES["group"])


def with_wave(history: History, number: int, wave: RecordedWave) -> History:
    waves = list(history.waves)
    waves[number] = wave
    return structs.replace(history, waves=tuple(waves))


def test_another_order_of_calls_is_found() -> None:
    wave = GROUP.waves[1]
    changed = with_wave(GROUP, 1, structs.replace(wave, wave=wave.wave[::-1]))

    assert replay_history(changed) == HistoryDifference(wave=2, recorded="c10, b1, a1", replayed="a1, b1, c10")


def test_another_order_of_waves_is_found() -> None:
    first, second, *rest = SEQUENCE.waves
    changed = structs.replace(SEQUENCE, waves=(second, first, *rest))

    assert replay_history(changed) == HistoryDifference(wave=1, recorded="charge", replayed="reserve")


def test_steps_in_another_order_are_found() -> None:
    dag = SEQUENCE.blueprint.dag
    flow = structs.replace(SEQUENCE.blueprint, dag=structs.replace(dag, steps=dag.steps[::-1]))

    found = replay_history(structs.replace(SEQUENCE, blueprint=flow))

    assert str(found) == "wave 1: recorded was reserve, the replay has archive"


def test_other_arguments_are_found() -> None:
    changed = with_wave(SEQUENCE, 0, structs.replace(SEQUENCE.waves[0], arguments={"reserve": {"order": 8}}))

    assert replay_history(changed) == HistoryDifference(
        wave=1, recorded='reserve with {"order":8}', replayed='reserve with {"order":7}'
    )


def test_a_run_that_ends_otherwise_is_found() -> None:
    changed = structs.replace(SEQUENCE, ended=Ended(status="cancelled"))

    found = replay_history(changed)

    assert found is not None
    assert found.wave == 4
    assert found.recorded.startswith('the end {"code":"","compensated":[]')


def test_a_run_that_ends_earlier_or_later_is_found() -> None:
    shorter = structs.replace(SEQUENCE, waves=SEQUENCE.waves[:-1])
    longer = structs.replace(SEQUENCE, waves=(*SEQUENCE.waves, RecordedWave(wave=("more",))))

    assert [found.wave for found in (replay_history(shorter), replay_history(longer)) if found] == [3, 4]


def test_a_history_of_another_interpreter_is_not_replayed() -> None:
    changed = structs.replace(SEQUENCE, interpreter="0")

    assert str(replay_history(changed)) == "wave 1: recorded was interpreter 0, the replay has interpreter 1"


@pytest.mark.parametrize("waves", range(4))
def test_a_run_under_way_replays_as_far_as_it_is(waves: int) -> None:
    assert replay_history(structs.replace(SEQUENCE, waves=SEQUENCE.waves[:waves], ended=None)) is None
