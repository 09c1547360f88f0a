"""Recorded histories replay: a change of the order of activities and timers needs another version.

`python -m tests.temporal.record` records those of the present version, in a folder of its own. The folders of older
versions stay for as long as runs of them may be under way.
"""

import asyncio
from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

from agent_resolver.engine.temporal_carrier import workflow_sandbox
from agent_resolver.engine.temporal_codec import SealedCodec, sealed_converter
from agent_resolver.engine.temporal_message import BUILD_ID, WORKFLOW_VERSION
from agent_resolver.engine.temporal_workflow import BlueprintWorkflow
from agent_resolver.storage import AesSeal, SqliteStore
from tests.temporal.places import KEY
from tests.temporal.record import FOLDER, QUEUE, STORIES

HISTORIES = sorted((FOLDER / BUILD_ID).glob("*.json"))


def test_every_story_has_a_history_of_the_present_version() -> None:
    assert WORKFLOW_VERSION in BUILD_ID
    assert [path.stem for path in HISTORIES] == sorted(STORIES)


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
def test_a_recorded_history_replays(path: Path, tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "state.db"), key=KEY)
    converter = sealed_converter(SealedCodec(store, AesSeal(KEY), f"{QUEUE}/"))
    replayer = Replayer(workflows=[BlueprintWorkflow], data_converter=converter, workflow_runner=workflow_sandbox())
    history = WorkflowHistory.from_json(f"{QUEUE}/{path.stem}", path.read_text())

    asyncio.run(replayer.replay_workflow(history))
    store.close()


def test_another_order_does_not_replay(tmp_path: Path) -> None:
    """The check can fail: an activity of another name, at the place of the first call."""
    store = SqliteStore(str(tmp_path / "state.db"), key=KEY)
    converter = sealed_converter(SealedCodec(store, AesSeal(KEY), f"{QUEUE}/"))
    replayer = Replayer(workflows=[BlueprintWorkflow], data_converter=converter, workflow_runner=workflow_sandbox())
    path = HISTORIES[0]
    changed = path.read_text().replace('"name": "call"', '"name": "other"')
    history = WorkflowHistory.from_json(f"{QUEUE}/{path.stem}", changed)

    with pytest.raises(Exception, match=r"(?i)nondeterminis"):
        asyncio.run(replayer.replay_workflow(history))
    store.close()
