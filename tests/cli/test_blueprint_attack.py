"""Attacks on blueprints through the command line: hostile files, inputs, words and callers."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.cli.blueprint_project import ASK, ORDER, BlueprintProject, blueprint_project
from tests.conftest import Run

CHECK = ("blueprint", "check")
LAMP = ("--input", '{"item": "lamp"}')
SEND = {"id": "send", "capability": "shop.send", "input_mapping": {"id": "lamp-1"}}


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> BlueprintProject:
    made = blueprint_project(tmp_path, monkeypatch)
    assert run("trust-folder").code == 0
    return made


def document(*steps: dict[str, Any], **more: Any) -> str:
    """A blueprint as JSON."""
    metadata = {"id": "shop.x", "version": "1", "description": "D.", **more.pop("metadata", {})}
    return json.dumps({"blueprint_metadata": metadata, "dag": {"steps": list(steps), **more.pop("dag", {})}, **more})


def mapped(expression: str) -> str:
    return document({**SEND, "input_mapping": {"id": "${" + expression + "}"}})


ALIASES = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
HOSTILE = {
    "deep YAML": ("x.yaml", "a: " + "[" * 5000 + "]" * 5000, "nest deeper"),
    "deep JSON": ("x.json", "[" * 100_000 + "]" * 100_000, "nest deeper"),
    "aliases of aliases": ("x.yaml", ALIASES, "aliases expanded"),
    "10 MB": ("x.yaml", "# " + "x" * 10_000_000, "larger than"),
    "a key twice": ("x.yaml", ORDER + "dag: { steps: [] }\n", "Duplicate key"),
    "not a number": ("x.json", document({**SEND, "timeout_seconds": float("nan")}), "is not JSON"),
    "infinity": ("x.yaml", ORDER.replace("${input.item}", "x").replace('"x"', ".inf"), "Number out of range"),
    "a number of 5,000 digits": ("x.json", document(SEND).replace('"lamp-1"', "1" * 5000), "Number out of range"),
    "a step of a prototype": ("x.json", document({**SEND, "id": "__proto__"}), "small letters"),
    "a step with a letter that looks like another": ("x.json", document({**SEND, "id": "s\u0435nd"}), "small letters"),
    "a capability that looks like another": (
        "x.json",
        document({**SEND, "capability": "shop.s\u0435nd"}),
        "did you mean `shop.send`",
    ),
    "an id that looks like a capability's": (
        "x.json",
        document(SEND, metadata={"id": "shop.s\u0435nd"}),
        "1 to 128 letters",
    ),
    "an id that reads backwards": ("x.json", document(SEND, metadata={"id": "shop.\u202ex"}), "1 to 128 letters"),
    "an id that is a capability's": (
        "x.json",
        document(SEND, metadata={"id": "shop.send"}),
        "Another tool has this id",
    ),
    "a call of itself": ("x.json", document({**SEND, "capability": "shop.x"}), "cannot call itself"),
    "words that steer a terminal": ("x.json", document(SEND, metadata={"description": "\x1b]0;x\x07"}), "control char"),
    "half a character": ("x.json", document(SEND).replace('"D."', '"\\ud800"'), "half a surrogate pair"),
    "a deep expression": ("x.json", mapped("(" * 400 + "1" + ")" * 400), "nests deeper"),
    "an expression of signs": ("x.json", mapped("!" * 900 + "true"), "nests deeper"),
    "a long expression": ("x.json", mapped(" ?? ".join(["input.x"] * 500)), "1,000 are allowed"),
    "a schema elsewhere": (
        "x.json",
        document(SEND, dag={"input_schema": {"type": "object", "$ref": "file:///etc/passwd"}}),
        "of one document",
    ),
    "a tag that calls code": ("x.yaml", "!!python/object/apply:os.mkdir [owned]", "is not allowed here"),
}


@pytest.mark.parametrize(("name", "text", "words"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_is_refused_with_a_reason(
    shop: BlueprintProject, run: Run, name: str, text: str, words: str
) -> None:
    (shop.folder / name).write_text(text, encoding="utf-8", errors="surrogatepass")
    ran = run(*CHECK, name)

    assert ran.code == 1
    assert words in ran.stderr
    assert shop.notes == []
    assert not (shop.folder / "owned").exists()


def test_a_link_to_a_blueprint_elsewhere_needs_trust_in_that_folder(
    shop: BlueprintProject, run: Run, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "order.yaml").write_text(ORDER.replace("shop.order", "shop.linked"))
    (shop.folder / "blueprints" / "linked.yaml").symlink_to(elsewhere / "order.yaml")
    ran = run("blueprint", "run", "shop.linked", *LAMP)

    assert (ran.code, shop.notes) == (1, [])
    assert "elsewhere" in ran.stderr
    assert "trust" in ran.stderr


def test_a_folder_of_blueprints_elsewhere_needs_trust_too(shop: BlueprintProject, run: Run, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "order.yaml").write_text(ORDER.replace("shop.order", "shop.far"))
    settings = shop.folder / "agent.toml"
    settings.write_text(settings.read_text().replace('["blueprints"]', '["blueprints", "../elsewhere"]'))
    ran = run("blueprint", "run", "shop.far", *LAMP)

    assert (ran.code, shop.notes) == (1, [])
    assert "elsewhere" in ran.stderr


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can give files away")
def test_a_blueprint_of_another_user_is_refused(shop: BlueprintProject, run: Run) -> None:
    os.chown(shop.folder / "blueprints" / "order.yaml", 65534, -1)
    ran = run("blueprint", "run", "shop.order", *LAMP)

    assert (ran.code, shop.notes) == (1, [])
    assert "belongs to the user" in ran.stderr


def test_without_trust_no_blueprint_runs_and_no_worker_works(shop: BlueprintProject, run: Run) -> None:
    assert run("blueprint", "run", "shop.order", *LAMP, "--detach").code == 0
    assert run("trust-folder", "--remove").code == 0

    assert run("blueprint", "run", "shop.order", *LAMP).code == 1
    assert run("worker", "--until-idle").code == 1
    assert shop.notes == []


HOSTILE_INPUTS = {
    "deep": '{"item": ' + "[" * 5000 + "]" * 5000 + "}",
    "not a number": '{"item": NaN}',
    "a key twice": '{"item": "lamp", "item": "chair"}',
    "half a character": '{"item": "\\ud800"}',
    "5,000 digits": '{"item": ' + "1" * 5000 + "}",
    "of the wrong kind": '{"item": {"__proto__": 1}}',
}


@pytest.mark.parametrize("given", HOSTILE_INPUTS.values(), ids=HOSTILE_INPUTS)
def test_a_hostile_input_starts_nothing(shop: BlueprintProject, run: Run, given: str) -> None:
    ran = run("blueprint", "run", "shop.order", "--input", given)

    assert ran.code in {1, 2}
    assert ran.stderr
    assert run("blueprint", "list").stdout == ""
    assert shop.notes == []


def test_an_input_of_a_megabyte_is_refused_and_not_kept(shop: BlueprintProject, run: Run) -> None:
    (shop.folder / "big.json").write_text(json.dumps({"item": "x" * 1_100_000}))
    ran = run("blueprint", "run", "shop.order", "--input", "@big.json")

    assert (ran.code, shop.notes) == (1, [])
    assert "1,000,000 bytes" in ran.stderr
    assert run("blueprint", "list").stdout == ""


def test_a_hostile_signal_changes_nothing(shop: BlueprintProject, run: Run) -> None:
    run("blueprint", "run", "shop.parcel", "--detach")
    [listed] = json.loads(run("blueprint", "list", "--json").stdout)
    signal = ("blueprint", "signal", listed["id"])
    (shop.folder / "big.json").write_text(json.dumps({"parcel": "x" * 70_000}))

    assert run(*signal, "arrived", "--data", "@big.json").code == 1
    assert run(*signal, "arrived", "--data", '{"parcel": 1}').code == 1
    assert run(*signal, "arrived\x1b[31m", "--data", '{"parcel": "a"}').code == 1
    assert run(*signal, "x" * 100_000).code == 1
    assert run(*signal, "arrived", "--data", "[" * 5000).code == 2
    status = json.loads(run("blueprint", "status", listed["id"], "--json").stdout)
    assert [step["state"] for step in status["steps"]] == ["open"]


# What is shown --------------------------------------------------------------------------------------------------------

ESCAPE = "\x1b]0;owned\x07\x1b[31m\u202e"


def test_nothing_that_a_run_shows_steers_a_terminal(shop: BlueprintProject, run: Run) -> None:
    module = shop.folder / "shop_of_test.py"
    words = json.dumps(f"It is broken {ESCAPE}")
    module.write_text(module.read_text().replace('"It is broken"', words), encoding="utf-8")
    ran = run("blueprint", "run", "shop.order", "--input", json.dumps({"item": f"broken{ESCAPE}"}))
    asked = run("blueprint", "run", "shop.ask", "--input", json.dumps({"item": f"lamp{ESCAPE}"}))
    seen = [ran, asked, run("blueprint", "list"), run("inbox", "list")]
    for row in json.loads(run("blueprint", "list", "--json").stdout):
        for command in ("status", "history"):
            seen += [run("blueprint", command, row["id"]), run("blueprint", command, row["id"], "--json")]

    assert ran.code == 1
    assert "It is broken" in ran.stderr
    for each in seen:
        shown = each.stdout + each.stderr
        assert not {"\x1b", "\x07", "\u202e"} & set(shown), shown


def test_a_drawing_holds_no_markup_of_its_blueprint(shop: BlueprintProject, run: Run) -> None:
    evil = '</text><script>alert(1)</script><image href="x" onerror="y"/>]]>'
    text = document(
        {**SEND, "condition": f"'{evil}' == 'x'"},
        {"id": "ask", "wait": {"kind": "person", "question": evil}},
        {"id": "come", "wait": {"kind": "signal", "signal": evil}},
        metadata={"version": evil, "description": evil},
        hitl_requirements=[{"step": "send", "reason": evil}],
    )
    (shop.folder / "evil.json").write_text(text)
    ran = run("blueprint", "show", "evil.json", "--svg", "evil.svg")

    assert ran.code == 0, ran.stderr
    root = ET.fromstring((shop.folder / "evil.svg").read_text(encoding="utf-8"))  # noqa: S314 - drawn here
    names = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert names <= {"svg", "title", "desc", "style", "rect", "text", "path", "g"}
    attributes = {name for element in root.iter() for name in element.attrib}
    assert not {name for name in attributes if name.startswith("on") or "href" in name}


# Rights ---------------------------------------------------------------------------------------------------------------


def test_what_the_agent_forbids_shuts_blueprints_around_blueprints(shop: BlueprintProject, run: Run) -> None:
    shop.write("two.yaml", document({"id": "one", "capability": "shop.order", "input_mapping": {"item": "lamp"}}))
    agent = "---\nname: clerk\ndescription: Sells\nconstraints: { actions: { forbid: [shop.send] } }\n---\n"
    run("blueprint", "run", "shop.x", "--detach")
    (shop.folder / "agents.md").write_text(agent)

    assert run("blueprint", "run", "shop.x").code == 1
    # A run that began before is not driven past what is forbidden now.
    run("worker", "--until-idle", "--config", "tools.blueprints=[]")
    assert "send lamp-1" not in shop.notes


def test_a_secret_of_an_input_is_in_no_file_and_in_no_output(shop: BlueprintProject, run: Run) -> None:
    module = shop.folder / "shop_of_test.py"
    text = module.read_text().replace(
        '@capability("shop.reserve", ', '@capability("shop.reserve", secret_fields=["item"], '
    )
    module.write_text(text.replace('    note(f"reserve {order.item}")\n', "").replace('f"{order.item}-1"', '"lamp-1"'))
    asked = ASK.replace("Send ${input.item}?", "Send it?").replace(
        "{ type: string }", "{ type: string, writeOnly: true }"
    )
    shop.write("ask.yaml", asked)
    secret = "hunter2-4711"
    ran = run("blueprint", "run", "shop.ask", "--input", json.dumps({"item": secret}))
    seen = [ran, run("audit", "show"), run("blueprint", "list"), run("inbox", "list")]
    for row in json.loads(run("blueprint", "list", "--json").stdout):
        seen += [run("blueprint", command, row["id"], "--json") for command in ("status", "history")]
    files = [path for path in (shop.folder / ".agent").rglob("*") if path.is_file()]

    assert "Send it?" in ran.stderr
    assert not [each.command for each in seen if secret in each.stdout + each.stderr]
    assert files
    assert not [path for path in files if secret.encode() in path.read_bytes()]


# The same bytes everywhere --------------------------------------------------------------------------------------------

MACHINES: list[dict[str, str]] = [
    {"PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8"},
    {"PYTHONHASHSEED": "1", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "TZ": "Pacific/Kiritimati"},
    {"PYTHONHASHSEED": "4294967295", "LANG": "tr_TR.UTF-8", "COLUMNS": "20"},
]
COMMANDS = [
    ("blueprint", "show", "shop.wide", "--svg", "wide.svg"),
    ("blueprint", "show", "shop.wide", "--json"),
    ("tools", "manifest"),
]


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=["drawing", "waves", "manifest"])
def test_a_blueprint_has_the_same_bytes_on_every_machine(
    shop: BlueprintProject, tmp_path: Path, command: tuple[str, ...]
) -> None:
    parallel = {"is_parallel": True}
    steps = [{**SEND, **parallel, "id": f"i{number}_{letter}"} for letter in "zibaI".lower() for number in range(3)]
    by_id = {step["id"]: step for step in steps}
    last = {
        **SEND,
        "id": "last",
        "input_mapping": {"id": "${" + " ?? ".join(f"steps.{name}.id" for name in by_id) + "}"},
    }
    metadata = {"id": "shop.wide", "description": "Größe, İi, 😀", "tags": ["z", "ä", "a"]}
    shop.write("wide.json", document(*by_id.values(), last, metadata=metadata))
    seen = set()
    for variables in MACHINES:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "XDG_CONFIG_HOME") if name in os.environ}
        environment = {**kept, "PYTHONPATH": os.pathsep.join([str(shop.folder), *sys.path]), **variables}
        line = [sys.executable, "-m", "agent_resolver", *command]
        ran = subprocess.run(line, env=environment, capture_output=True, check=False, cwd=shop.folder)
        assert ran.returncode == 0, ran.stderr
        drawing = shop.folder / "wide.svg"
        seen.add((ran.stdout, drawing.read_bytes() if drawing.exists() else b""))

    assert len(seen) == 1
