"""`agent eval run`: scores, gates, baselines and pages, and the files that it refuses."""

import json
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from agent_resolver.cli.app import build_parser
from agent_resolver.cli.eval.run import run_with
from agent_resolver.project.evaluation import OFFLINE, NamedPlanner
from agent_resolver.reasoner import OfflinePlanner
from agent_resolver.schema.planning import Classified, PlanQuestion, PlanRequest
from tests.cli.test_report import Page
from tests.conftest import Ran, Run

EXAMPLE = Path(__file__).parents[2] / "examples" / "evals"
HOSTILE = '<script>alert("x")</script> & <b>'
OPEN = {
    "id": "open",
    "request": "Open a ticket titled 'VPN'",
    "sort": "single",
    "expect": {
        "kind": "BLUEPRINT",
        "tools": ["tickets.create"],
        "steps": [{"tool": "tickets.create", "from_request": {"title": "VPN"}}],
    },
}
CLOSE = {
    "id": "close",
    "request": "Close ticket 7",
    "sort": "single",
    "unseen": True,
    "expect": {"kind": "BLUEPRINT", "tools": ["tickets.close"]},
}
WRONG = {**CLOSE, "id": "wrong", "request": "Paint the fence"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with the tools of the example and a small set, which is the current folder."""
    project = tmp_path / "project"
    project.mkdir()
    for name in ("agent.toml", "tools.manifest.json"):
        shutil.copy(EXAMPLE / name, project / name)
    monkeypatch.chdir(project)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    write_set(OPEN, CLOSE)
    return project


def write_set(*cases: dict[str, Any], path: str = "requests.yaml", **more: Any) -> None:
    """Write a set; JSON is YAML too."""
    document = {"version": "1", "tools": "tools.manifest.json", "cases": cases, **more}
    Path(path).write_text(json.dumps({key: value for key, value in document.items() if value is not None}))


def document(ran: Ran) -> Any:
    assert ran.stderr == ""
    return json.loads(ran.stdout)


def test_scores_are_printed_in_total_and_by_sort(folder: Path, run: Run) -> None:
    ran = run("eval", "run")

    assert (ran.code, ran.stderr) == (0, "")
    assert ran.stdout.splitlines() == [
        "2 requests over 2 tools, planned by offline",
        "          routing             plan",
        "  all     1.000  2 of 2       1.000  2 of 2",
        "  unseen  1.000  1 of 1       1.000  1 of 1",
        "  single  1.000  2 of 2       1.000  2 of 2",
        "✓ offline: both scores reach the gate of 0.8",
    ]
    assert sorted(path.name for path in folder.iterdir()) == ["agent.toml", "requests.yaml", "tools.manifest.json"]


def test_a_score_below_the_gate_exits_1_and_names_the_request(folder: Path, run: Run) -> None:
    write_set(OPEN, WRONG)

    ran = run("eval", "run")

    assert ran.code == 1
    assert "  ✗ wrong: Paint the fence" in ran.stdout.splitlines()
    assert ran.stderr.splitlines() == [
        "✗ offline: routing has 0.500, below the gate of 0.8",
        "✗ offline: plan has 0.500, below the gate of 0.8",
    ]
    assert run("eval", "run", "--gate", "0.5").code == 0


@pytest.mark.parametrize("gate", ["1.1", "-0.1", "nan", "high"])
def test_a_gate_that_is_no_score_is_refused(folder: Path, run: Run, gate: str) -> None:
    assert run("eval", "run", f"--gate={gate}").code == 2


def test_json_has_the_reports_and_is_the_same_each_time(folder: Path, run: Run) -> None:
    first, second = run("eval", "run", "--json"), run("eval", "run", "--json")

    found = document(first)
    assert first.stdout == second.stdout
    assert (found["success"], found["gate"], found["differences"]) == (True, 0.8, [])
    assert found["reports"][0]["routing"] == {"right": 2, "of": 2, "score": 1.0}


def test_a_set_may_be_named_and_be_json(folder: Path, run: Run) -> None:
    write_set(CLOSE, path="other.json")

    assert document(run("eval", "run", "other.json", "--json"))["reports"][0]["cases"][0]["id"] == "close"


def test_without_a_set_the_command_says_how_to_name_one(folder: Path, run: Run) -> None:
    Path("agent.toml").write_text("")

    ran = run("eval", "run")

    assert (ran.code, ran.stderr.splitlines()) == (
        2,
        [
            "error: There is no eval set here",
            "hint: name a file, or set `evals` in `[reasoner]` of agent.toml",
        ],
    )


# Baselines ------------------------------------------------------------------------------------------------------------


def worsened(path: str) -> None:
    """Turn a kept report into one of a planner that did better on one request and worse on another."""
    report = json.loads(Path(path).read_text())
    for case, verdict in zip(report["cases"], (False, True), strict=True):
        case["routing"], case["plan"] = verdict, verdict
        case["answer"]["tools"] = [] if not verdict else case["answer"]["tools"]
    Path(path).write_text(json.dumps(report))


def test_the_same_answers_as_in_the_baseline_pass(folder: Path, run: Run) -> None:
    assert run("eval", "run", "--save", "kept/baseline.json").code == 0

    ran = run("eval", "run", "--baseline", "kept/baseline.json", "--save", "kept/baseline.json")

    assert ran.code == 0
    assert "  Every request has the same answer" in ran.stdout.splitlines()


def test_a_request_that_got_worse_fails_by_name_though_the_gate_is_reached(folder: Path, run: Run) -> None:
    write_set(OPEN, WRONG)
    run("eval", "run", "--save", "baseline.json", "--gate", "0")
    worsened("baseline.json")

    ran = run("eval", "run", "--baseline", "baseline.json", "--gate", "0.5")

    assert ran.code == 1
    assert ran.stderr.splitlines() == ["✗ 1 request got worse: wrong"]
    changes = [line for line in ran.stdout.splitlines() if line.startswith(("  ✗ worse", "  ✓ better"))]
    assert changes == ["  ✗ worse: wrong: Paint the fence", "  ✓ better: open: Open a ticket titled 'VPN'"]
    found = json.loads(run("eval", "run", "--baseline", "baseline.json", "--gate", "0.5", "--json").stdout)
    assert [change["kind"] for change in found["differences"][0]["changes"]] == ["worse", "better"]
    assert not found["success"]


def test_a_baseline_of_another_set_is_refused(folder: Path, run: Run) -> None:
    run("eval", "run", "--save", "baseline.json")
    write_set({**OPEN, "id": "other"})

    ran = run("eval", "run", "--baseline", "baseline.json")

    assert ran.code == 1
    assert ran.stderr.splitlines()[0] == ("error: `baseline.json` is the report of another set: no request is in both")


def test_new_edited_and_removed_requests_are_no_regression(folder: Path, run: Run) -> None:
    run("eval", "run", "--save", "baseline.json")
    write_set({**OPEN, "request": "Open a ticket titled 'VPN' please"}, {**CLOSE, "id": "again"})

    ran = run("eval", "run", "--baseline", "baseline.json")

    assert ran.code == 0
    kinds = [line.split(":")[0].split()[-1] for line in ran.stdout.splitlines() if line.startswith("  ·")]
    assert kinds == ["edited", "added", "removed"]


def test_other_tools_than_those_of_the_baseline_are_said(folder: Path, run: Run) -> None:
    run("eval", "run", "--save", "baseline.json")
    report = json.loads(Path("baseline.json").read_text())
    Path("baseline.json").write_text(json.dumps({**report, "tools": "sha256-other"}))

    ran = run("eval", "run", "--baseline", "baseline.json")

    assert ran.stderr.startswith("warning: the tools are others than before")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"version": "1"}', b"\xff\xfe"])
def test_a_baseline_that_is_damaged_is_refused(folder: Path, run: Run, content: bytes) -> None:
    Path("baseline.json").write_bytes(content)

    ran = run("eval", "run", "--baseline", "baseline.json")

    assert ran.code == 1
    assert ran.stderr.startswith("✗ baseline.json validation failed:")
    assert run("eval", "run", "--baseline", "missing.json").code == 2


def test_markup_in_a_baseline_is_shown_as_text(folder: Path, run: Run) -> None:
    run("eval", "run", "--save", "baseline.json")
    report = json.loads(Path("baseline.json").read_text())
    removed = {**report["cases"][0], "id": HOSTILE, "request": HOSTILE, "wrong": [f"`{HOSTILE}`"]}
    changed = {**report, "planner": HOSTILE, "cases": [*report["cases"], removed]}
    Path("baseline.json").write_text(json.dumps(changed))

    ran = run("eval", "run", "--baseline", "baseline.json", "--report", "page.html")

    page = Page(Path("page.html").read_text(encoding="utf-8"))
    assert ran.code == 0
    assert {tag for tag, _ in page.elements} & {"script", "b"} == set()
    assert f"From the baseline of {HOSTILE} to offline" in page.said()


@pytest.mark.parametrize("option", ["--save", "--report"])
def test_a_file_of_another_program_is_not_overwritten(folder: Path, run: Run, option: str) -> None:
    before = Path("requests.yaml").read_bytes()

    ran = run("eval", "run", option, "requests.yaml")

    assert (ran.code, Path("requests.yaml").read_bytes()) == (1, before)
    assert run("eval", "run", option, ".").code in {1, 2}
    assert run("eval", "run", option, "-").code == 2


# The page -------------------------------------------------------------------------------------------------------------


def test_the_page_shows_scores_and_answers_and_can_be_written_again(folder: Path, run: Run) -> None:
    run("eval", "run", "--save", "baseline.json")
    write_set(OPEN, {**CLOSE, "expect": {"kind": "BLUEPRINT", "tools": ["mail.send"]}})

    ran = run("eval", "run", "--report", "page.html", "--baseline", "baseline.json")
    first = Path("page.html").read_bytes()
    run("eval", "run", "--report", "page.html", "--baseline", "baseline.json")

    said = Page(first.decode()).said()
    assert ran.code == 1
    assert Path("page.html").read_bytes() == first
    assert "A score is below the gate of 0.8" in said
    assert "0.500 (1 of 2)" in said
    assert "expected mail.send, and it takes tickets.close" in said
    assert "edited" in said


def test_markup_in_a_request_or_an_answer_is_shown_as_text(folder: Path, run: Run) -> None:
    write_set({**OPEN, "request": f"Open a ticket titled '{HOSTILE}'"}, {**CLOSE, "request": HOSTILE + "\u202e"})

    run("eval", "run", "--report", "page.html", "--gate", "0")

    page = Page(Path("page.html").read_text(encoding="utf-8"))
    assert {tag for tag, _ in page.elements} & {"script", "b", "img", "iframe", "link"} == set()
    assert HOSTILE in page.said()
    assert "\u202e" not in page.words
    assert not [value for name in ("src", "href") for value in page.values(name) if not value.startswith("#")]
    policy = next(value for value in page.values("content") if value.startswith("default-src"))
    assert policy.startswith("default-src 'none'; style-src 'sha256-")


# Sets that are refused ------------------------------------------------------------------------------------------------


def test_every_fault_of_a_set_is_named_with_its_place(folder: Path, run: Run) -> None:
    write_set(OPEN, {**OPEN, "expect": {"kind": "BLUEPRINT"}}, {**CLOSE, "id": HOSTILE})

    ran = run("eval", "run")

    assert ran.code == 1
    assert ran.stderr.splitlines()[0] == "✗ requests.yaml validation failed:"
    assert "cases.2.id: Must be 1 to 80 small letters" in ran.stderr


def test_an_expected_tool_that_is_not_there_is_named(folder: Path, run: Run) -> None:
    write_set({**OPEN, "expect": {"kind": "BLUEPRINT", "tools": ["tickets.creates"]}})

    ran = run("eval", "run", "--json")

    assert ran.code == 1
    (issue,) = json.loads(ran.stdout)["error"]["files"][0]["issues"]
    assert (issue["code"], issue["hint"]) == ("unknown-capability", "did you mean `tickets.create`?")


def test_ten_thousand_cases_are_refused_at_once(folder: Path, run: Run) -> None:
    for path in ("many.yaml", "many.json"):
        write_set(*({**CLOSE, "id": f"c{number}"} for number in range(10_000)), path=path)

    as_yaml, as_json = run("eval", "run", "many.yaml"), run("eval", "run", "many.json")

    assert (as_yaml.code, as_json.code) == (1, 1)
    assert "More than 50000 values" in as_yaml.stderr
    assert "hint: make two sets of it" in as_yaml.stderr
    assert "cases: Array must contain at most 1000 element(s)" in as_json.stderr


def test_a_huge_request_is_refused(folder: Path, run: Run) -> None:
    write_set({**OPEN, "request": "close " * 1_000})

    ran = run("eval", "run")

    assert ran.code == 1
    assert "cases.0.request: Longer than the limit of 4,000 characters" in ran.stderr


def test_a_truncated_set_is_refused(folder: Path, run: Run) -> None:
    whole = Path("requests.yaml").read_bytes()
    Path("requests.yaml").write_bytes(whole[: len(whole) // 2])

    assert run("eval", "run").code == 1


@pytest.mark.parametrize("named", ["../tools.manifest.json", "/etc/hostname", "link.json"])
def test_tools_outside_of_the_folder_of_the_set_are_not_read(folder: Path, run: Run, named: str) -> None:
    shutil.copy("tools.manifest.json", "../tools.manifest.json")
    Path("link.json").symlink_to("../tools.manifest.json")
    write_set(OPEN, tools=named)

    ran = run("eval", "run")

    assert ran.code == 1
    assert f"names `{named}` as its tools, which is outside of its folder" in ran.stderr


@pytest.mark.parametrize("named", ["../requests.yaml", "link.yaml"])
def test_a_set_of_the_settings_is_in_the_project(folder: Path, run: Run, named: str) -> None:
    shutil.copy("requests.yaml", "../requests.yaml")
    Path("link.yaml").symlink_to("../requests.yaml")

    ran = run("eval", "run", "--config", f"reasoner.evals={named}")

    assert ran.code == 1
    assert f"error: `[reasoner] evals` names `{named}`, which is outside of the project" in ran.stderr


def test_a_set_behind_a_link_is_read_and_a_loop_is_not(folder: Path, run: Run) -> None:
    Path("link.yaml").symlink_to("requests.yaml")
    Path("loop.yaml").symlink_to("loop.yaml")

    assert run("eval", "run", "link.yaml").code == 0
    assert run("eval", "run", "loop.yaml").code == 2
    assert run("eval", "run", "missing.yaml").code == 2


@pytest.mark.parametrize("option", ["--save", "--report"])
def test_no_link_of_a_project_leads_a_report_out_of_it(folder: Path, run: Run, option: str) -> None:
    Path("linked.out").symlink_to("../outside.out")

    ran = run("eval", "run", "requests.yaml", option, "linked.out")

    assert (ran.code, ran.stdout) == (1, "")
    assert "linked.out" in ran.stderr
    assert not Path("../outside.out").exists()


def test_a_report_behind_a_link_leaves_the_link(folder: Path, run: Run) -> None:
    Path("kept.json").symlink_to("target.json")

    assert run("eval", "run", "--save", "kept.json").code == 0
    assert Path("kept.json").is_symlink()
    assert Path("target.json").stat().st_size > 0


# The tools of the project ---------------------------------------------------------------------------------------------


def test_without_a_manifest_the_tools_of_the_trusted_project_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    project = tmp_path / "helpdesk"
    shutil.copytree(EXAMPLE.parent / "helpdesk", project, ignore=shutil.ignore_patterns(".agent", "__pycache__"))
    monkeypatch.chdir(project)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.syspath_prepend(str(project))
    page = {"id": "page", "request": "Page team 'network'", "sort": "single"}
    expect = {"kind": "BLUEPRINT", "tools": ["pager.page"]}
    write_set({**page, "expect": expect}, tools=None)

    refused = run("eval", "run", "requests.yaml")
    ran = run("eval", "run", "requests.yaml", "--trust")
    narrowed = run("eval", "run", "requests.yaml", "--trust", "--config", 'reasoner.tools=["tickets.*"]')

    assert (refused.code, "not trusted" in refused.stderr) == (1, True)
    assert ran.code == 0
    assert (narrowed.code, "There is no tool `pager.page`" in narrowed.stderr) == (1, True)


# Several planners -----------------------------------------------------------------------------------------------------


class Asking(OfflinePlanner):
    """Asks for every request in other words."""

    async def classify(self, request: PlanRequest) -> Classified:  # noqa: ARG002 - the port has it
        return Classified(questions=(PlanQuestion(key="request", text="What?"),), tokens=3)


def test_two_planners_are_compared_as_a_difference_of_scores(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asking = NamedPlanner("<asking>", lambda: nullcontext(Asking()))
    options = build_parser(["eval"]).parse_args(["eval", "run", "--report", "page.html", "--gate", "0"])

    code = run_with(options, lambda _: (OFFLINE, asking))

    printed = capsys.readouterr().out.splitlines()
    assert code == 0
    assert "2 requests over 2 tools, planned by <asking>, 6 tokens" in printed
    assert printed[printed.index("offline → <asking>") :][:3] == [
        "offline → <asking>",
        "  routing  1.000 → 0.000 (-1.000)",
        "  plan     1.000 → 0.000 (-1.000)",
    ]
    assert "From offline to <asking>" in Page(Path("page.html").read_text(encoding="utf-8")).said()
