"""The page of `agent report` in a real Chromium: for every reader, on every screen, with nothing loaded."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.browser import sample

INSPECT = Path(__file__).with_name("inspect.mjs")
BUILD = Path(__file__).parents[2] / "build" / "browser"

PROJECTS: dict[str, tuple[Callable[[Path], Path], int]] = {
    "resolved": (partial(sample.support_desk, failing=False), 0),
    "failing": (partial(sample.support_desk, failing=True), 1),
    "fifty": (sample.fifty, 1),
    "hostile": (sample.hostile, 1),
    "large": (sample.large, 0),
}
PLAIN = {"resolved", "failing", "fifty"}


@pytest.fixture(scope="module", params=PROJECTS)
def inspected(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Any]:
    """The name of a project, and what a browser found in its report."""
    make, code = PROJECTS[request.param]
    project = make(tmp_path_factory.mktemp("projects") / request.param)
    command = [sys.executable, "-m", "agent_resolver", "report"]
    assert subprocess.run(command, cwd=project, check=False, capture_output=True).returncode == code
    shots = os.environ.get("SCREENSHOTS")
    folder = [str(Path(shots, request.param))] if shots else []
    line = ["node", str(INSPECT), str(project / "agents.report.html"), *folder]
    done = subprocess.run(line, cwd=BUILD, check=False, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    return request.param, json.loads(done.stdout)


def test_no_rule_of_accessibility_is_broken(inspected: tuple[str, Any]) -> None:
    _, found = inspected

    assert len(found["views"]) == 4
    assert [view["violations"] for view in found["views"]] == [[], [], [], []]
    assert min(view["rules"] for view in found["views"]) > 20


def test_nothing_is_wider_than_the_screen(inspected: tuple[str, Any]) -> None:
    _, found = inspected

    assert [(view["overflow"], view["wide"]) for view in found["views"]] == [(0, [])] * 4


def test_the_drawing_fits_the_screen_and_can_be_read(inspected: tuple[str, Any]) -> None:
    name, found = inspected

    assert [view["drawings"] for view in found["views"]] == [["narrow"], ["narrow"], ["wide"], ["wide"]]
    assert min(view["smallest"] for view in found["views"]) >= 11.5
    if name in PLAIN:
        assert [view["cut"] for view in found["views"]] == [[]] * 4


def test_nothing_is_loaded_run_or_complained_about(inspected: tuple[str, Any]) -> None:
    _, found = inspected
    visits = [*found["views"], found["asItIs"], found["withoutScripts"], found["onPaper"]]

    assert found["asItIs"]["scripts"] == 0
    assert [(visit["messages"], visit["requests"]) for visit in visits] == [([], [])] * len(visits)


def test_a_screen_reader_finds_landmarks_headings_drawing_and_tables(inspected: tuple[str, Any]) -> None:
    _, found = inspected
    outline = found["asItIs"]["outline"]

    for expected in (
        'link "Skip to the content"',
        "- banner:",
        '- navigation "Contents":',
        "- main:",
        "- contentinfo:",
        '- img "Which server serves which requirement"',
        'region "Which server serves what"',
        "[level=1]",
        "[level=4]",
    ):
        assert expected in outline


def test_everything_works_without_scripts_and_by_keyboard(inspected: tuple[str, Any]) -> None:
    _, found = inspected

    assert {
        key: found["withoutScripts"][key] for key in ("first", "skipped", "before", "after", "followed", "last")
    } == {
        "first": "Skip to the content",
        "skipped": "#main",
        "before": False,
        "after": True,
        "followed": "#requirement-1",
        "last": "#reproduce",
    }


def test_paper_shows_what_a_screen_folds_away(inspected: tuple[str, Any]) -> None:
    _, found = inspected

    assert min(found["onPaper"]["heights"]) > 10
    assert not found["onPaper"]["navigation"]
    assert found["onPaper"]["bytes"] > 10_000
