"""`agent blueprint check` and `show`: every fault with its place, and a drawing."""

import json
from pathlib import Path

import pytest

from tests.cli.blueprint_project import ASK, ORDER, BlueprintProject, blueprint_project
from tests.conftest import Run

CHECK = ("blueprint", "check", "--trust")
SHOW = ("blueprint", "show", "--trust")
GROUP = """\
blueprint_metadata: { id: shop.group, version: 1.0.0, description: 'Look <twice> & "send"' }
dag:
  steps:
    - { id: left, is_parallel: true, capability: shop.send, input_mapping: { id: lamp-1 } }
    - { id: right, is_parallel: true, capability: shop.send, input_mapping: { id: "${steps.left.id}" } }
    - { id: other, is_parallel: true, capability: shop.send, input_mapping: { id: lamp-2 } }
    - { id: later, wait: { kind: time, seconds: 5 } }
hitl_requirements: [{ step: other, reason: It is far }]
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BlueprintProject:
    return blueprint_project(tmp_path, monkeypatch)


def test_blueprints_of_the_settings_are_checked_in_the_order_of_names(shop: BlueprintProject, run: Run) -> None:
    ran = run(*CHECK)

    assert shop.notes == []
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.stdout.splitlines() == [
        "✓ blueprints/ask.yaml: shop.ask 1.0.0, 3 steps",
        "✓ blueprints/order.yaml: shop.order 1.0.0, 2 steps",
        "✓ blueprints/parcel.yaml: shop.parcel 1.0.0, 1 step",
    ]


def test_every_fault_has_its_file_line_and_column(shop: BlueprintProject, run: Run) -> None:
    shop.write("order.yaml", ORDER.replace("shop.send", "shop.sent").replace("${input.item}", "${input.itme}"))
    ran, as_json = run(*CHECK, "shop.order"), run(*CHECK, "blueprints/order.yaml", "--json")

    assert (ran.code, ran.stdout) == (1, "")
    assert "(blueprints/order.yaml:10:7)" in ran.stderr
    assert "No tool has the id 'shop.sent'" in ran.stderr
    assert "did you mean `shop.send`?" in ran.stderr
    [document] = json.loads(as_json.stdout)["blueprints"]
    places = {(issue["path"], issue["line"]) for issue in document["issues"] if issue["severity"] == "error"}
    assert ("dag.steps.1.capability", 10) in places
    assert any(line == 7 for _, line in places)


def test_every_blueprint_of_a_folder_is_checked(shop: BlueprintProject, run: Run) -> None:
    (shop.folder / "more").mkdir()
    (shop.folder / "more" / "group.yaml").write_text(GROUP.replace("${steps.left.id}", "lamp-3"))
    (shop.folder / "more" / "wrong.yaml").write_text("blueprint_metadata: 1\n")
    (shop.folder / "empty").mkdir()
    ran, with_slash, empty = run(*CHECK, "more"), run(*CHECK, "blueprints/"), run(*CHECK, "empty")

    assert (ran.code, ran.stdout) == (1, "✓ more/group.yaml: shop.group 1.0.0, 4 steps\n")
    assert "(more/wrong.yaml:1:1)" in ran.stderr
    assert (with_slash.code, len(with_slash.stdout.splitlines())) == (0, 3)
    assert (empty.code, empty.stdout) == (1, "")
    assert "`empty` has no blueprints" in empty.stderr


def test_a_file_is_checked_that_the_settings_do_not_name(shop: BlueprintProject, run: Run) -> None:
    other = shop.folder / "other.json"
    document = {"blueprint_metadata": {"id": "shop.two", "version": "1", "description": "Two orders."}}
    steps = [{"id": "one", "capability": "shop.order", "input_mapping": {"item": "lamp"}}]
    other.write_text(json.dumps({**document, "dag": {"steps": steps}}))
    ran = run(*CHECK, "other.json")

    assert (ran.code, ran.stdout) == (0, "✓ other.json: shop.two 1, 1 step\n")


def test_blueprints_that_call_each_other_are_refused_with_the_circle(shop: BlueprintProject, run: Run) -> None:
    shop.write("order.yaml", ORDER.replace("shop.send", "shop.ask"))
    shop.write("ask.yaml", ASK.replace("shop.send", "shop.order"))
    ran = run(*CHECK)

    assert ran.code == 1
    assert "Blueprints call each other in a circle" in ran.stderr
    assert ran.stderr.count("shop.ask") >= 2


def test_two_blueprints_of_one_id_are_refused(shop: BlueprintProject, run: Run) -> None:
    shop.write("order-2.yaml", ORDER)
    ran = run(*CHECK)

    assert ran.code == 1
    assert "Another tool has this id" in ran.stderr


def test_a_warning_fails_only_where_it_is_asked_to(shop: BlueprintProject, run: Run) -> None:
    back = 'capability: shop.reserve, input_mapping: { item: "${result.id}" }'
    shop.write("order.yaml", ORDER.replace('capability: shop.release, input_mapping: { id: "${result.id}" }', back))
    quiet, strict = run(*CHECK, "shop.order"), run(*CHECK, "shop.order", "--strict")

    assert "warning:" in quiet.stderr
    assert (quiet.code, strict.code) == (0, 1)


@pytest.mark.parametrize("name", ["shop.ordr", "blueprints/nothing.yaml"])
def test_a_name_that_leads_nowhere_is_reported(shop: BlueprintProject, run: Run, name: str) -> None:
    ran = run(*CHECK, name)

    assert shop.notes == []
    assert ran.code == (2 if name.endswith("yaml") else 1)
    assert name in ran.stderr
    assert "hint:" in ran.stderr


def test_a_name_may_be_that_of_a_file_that_could_not_be_read(shop: BlueprintProject, run: Run) -> None:
    shop.write("order.yaml", ORDER.replace("- id: send", "- id: SEND"))
    ran = run("blueprint", "show", "acme.order", "--trust")

    assert ran.code == 1
    assert "`agent blueprint check` shows the faults of blueprints/order.yaml" in ran.stderr


def test_a_folder_without_blueprints_says_so(shop: BlueprintProject, run: Run) -> None:
    (shop.folder / "empty").mkdir()
    ran = run(*CHECK, "--config", "tools.blueprints=['empty']")

    assert ran.code == 1
    assert "`empty` has no blueprints" in ran.stderr


def test_nothing_is_loaded_from_a_folder_that_no_person_trusts(shop: BlueprintProject, run: Run) -> None:
    for command in (("tools", "list"), ("tools", "manifest"), ("blueprint", "run", "shop.order")):
        ran = run(*command)
        assert ran.code == 1
        assert "is not trusted" in ran.stderr
    assert shop.notes == []


def test_a_drawing_shows_what_may_run_at_the_same_time(shop: BlueprintProject, run: Run) -> None:
    shop.write("group.yaml", GROUP)
    ran = run(*SHOW, "shop.group", "--svg", "out/group.svg")

    assert ran.code == 0
    assert ran.stdout.partition("\n\n")[0].splitlines() == [
        "shop.group 1.0.0",
        "▼ input",
        "│",
        "├─┬─ left   shop.send",
        "│ └─ other  shop.send",
        "│           needs approval: It is far",
        "│",
        "├─── right  shop.send",
        "│",
        "├─── later  waits 5 s",
        "│",
        "▼ output",
    ]
    picture = (shop.folder / "out" / "group.svg").read_text(encoding="utf-8")
    assert picture.startswith("<svg ")
    assert picture.count("<rect") >= 4


def test_text_of_a_blueprint_cannot_become_markup_of_the_drawing(shop: BlueprintProject, run: Run) -> None:
    evil = GROUP.replace("It is far", "'</title><script>alert(1)</script>'")
    shop.write("group.yaml", evil)
    ran = run(*SHOW, "shop.group", "--svg", "group.svg")

    content = (shop.folder / "group.svg").read_text(encoding="utf-8")
    assert ran.code == 0
    assert "<script>" not in content
    assert "&lt;script&gt;" in content


def test_show_is_also_for_programs(shop: BlueprintProject, run: Run) -> None:
    document = json.loads(run(*SHOW, "shop.ask", "--json").stdout)

    assert shop.notes == []
    assert document["waves"] == [["reserve"], ["agree"], ["send"]]
    assert document["requiredScopes"] == ["shop:write"]
    assert [(step["id"], step["isWait"]) for step in document["steps"]] == [
        ("reserve", False),
        ("agree", True),
        ("send", False),
    ]


def test_a_blueprint_is_in_the_manifest_and_a_change_of_it_is_drift(shop: BlueprintProject, run: Run) -> None:
    manifest = ("tools", "manifest", "--trust")
    assert run(*manifest, "--out", "tools.manifest.json").code == 0
    listed = json.loads((shop.folder / "tools.manifest.json").read_text(encoding="utf-8"))["tools"]
    kinds = {tool["id"]: tool["type"] for tool in listed}
    shop.write("order.yaml", ORDER.replace('"${steps.send.id}"', '"${steps.reserve.id}"'))
    ran = run(*manifest, "--check")

    assert (kinds["shop.order"], kinds["shop.send"]) == ("BLUEPRINT", "CAPABILITY")
    assert ran.code == 1
    assert "shop.order" in ran.stdout


def test_a_blueprint_has_the_scopes_and_the_classification_of_its_steps(shop: BlueprintProject, run: Run) -> None:
    shop.write("order.yaml", ORDER.replace("shop.send", "shop.wipe"))
    tools = {tool["id"]: tool for tool in json.loads(run("tools", "manifest", "--trust").stdout)["tools"]}

    assert tools["shop.order"]["data_classification"] == "RESTRICTED"
    assert tools["shop.order"]["needsApproval"] is True
    assert tools["shop.order"]["requiredScopes"] == ["shop:write"]
