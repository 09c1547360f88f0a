"""`agent export --format cyclonedx|spdx`: bills that the libraries' own validators accept, the same bytes each time."""

import json
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from spdx_tools.spdx.parser.json import json_parser
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

from tests.cli.test_export import AGENT, launched, remote
from tests.conftest import Run

Write = Callable[..., Path]

TWO = AGENT.replace("permissions: [use]", "permissions: [use]\n    - { category: far, permissions: [use] }")


def servers() -> list[dict[str, Any]]:
    launch = {"command": "npx", "args": ["-y", "@acme/mcp@1.2.3"], "env": ["ACME_TOKEN"]}
    far = {**remote(), "id": "far", "categories": ["far"]}
    return [launched(launch=launch), far]


@pytest.fixture
def bom(write: Write) -> Path:
    return write(*servers(), agent=TWO)


def test_a_cyclonedx_bill_follows_its_schema(bom: Path, run: Run) -> None:
    ran = run("export", "--format", "cyclonedx")

    assert ran.code == 0, ran.stderr
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(ran.stdout) is None
    bill = json.loads(ran.stdout)
    assert bill["metadata"]["component"]["name"] == "tester"
    by_name = {component["name"]: component for component in bill["components"]}
    assert by_name["raw"]["purl"] == "pkg:npm/%40acme/mcp@1.2.3"
    assert by_name["far"]["externalReferences"][0]["url"] == "https://mcp.example.com/mcp"
    properties = {(item["name"], item["value"]) for item in by_name["raw"]["properties"]}
    assert {
        ("agent-resolver:scope", "use"),
        ("agent-resolver:residency", "eu-only"),
        ("agent-resolver:max-sensitivity", "confidential"),
        ("agent-resolver:variable", "ACME_TOKEN"),
        ("agent-resolver:tool", '"echo" sha256-' + "0" * 64),
    } <= properties
    [root] = [item for item in bill["dependencies"] if item["ref"] == "agent:tester"]
    assert root["dependsOn"] == ["server:far@1.0.0", "server:raw@1.0.0"]


def test_an_spdx_bill_is_read_and_accepted_by_its_library(bom: Path, run: Run) -> None:
    ran = run("export", "--format", "spdx", "-o", "bom.spdx.json")

    assert ran.code == 0, ran.stderr
    document = json_parser.parse_from_file("bom.spdx.json")
    assert validate_full_spdx_document(document) == []
    assert [package.name for package in document.packages] == ["tester", "far", "raw"]
    assert document.packages[2].external_references[0].locator == "pkg:npm/%40acme/mcp@1.2.3"
    assert "agent-resolver:scope=use" in {note.annotation_comment for note in document.annotations}


@pytest.mark.parametrize("name", ["cyclonedx", "spdx"])
def test_a_bill_has_the_same_bytes_whatever_the_order_of_the_index(bom: Path, run: Run, name: str) -> None:
    first = run("export", "--format", name).stdout
    (bom / "mcp.index.json").write_text(json.dumps(servers()[::-1]))

    assert run("export", "--format", name).stdout == first
    assert "1970-01-01T00:00:00" in first


@pytest.mark.parametrize("name", ["cyclonedx", "spdx"])
def test_the_time_and_the_serial_come_from_outside_and_from_the_lock(
    bom: Path, run: Run, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    before = run("export", "--format", name).stdout
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1735689600")
    dated = run("export", "--format", name).stdout
    assert "2025-01-01T00:00:00" in dated
    assert serial_in(dated) == serial_in(before)

    assert run("resolve").code == 0  # The time is part of the lock.
    assert serial_in(run("export", "--format", name).stdout) != serial_in(before)


def serial_in(text: str) -> str:
    bill = json.load(StringIO(text))
    return str(bill.get("serialNumber") or bill["documentNamespace"])


@pytest.mark.parametrize("name", ["cyclonedx", "spdx"])
def test_without_the_extra_its_name_is_said(bom: Path, run: Run, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for module in [found for found in sys.modules if found.partition(".")[0] in {"cyclonedx", "spdx_tools"}]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.delitem(sys.modules, f"agent_resolver.exchange.{name}_bill", raising=False)
    monkeypatch.setitem(sys.modules, "cyclonedx", None)
    monkeypatch.setitem(sys.modules, "spdx_tools", None)

    ran = run("export", "--format", name)

    assert ran.code == 2
    assert "pip install 'agent-resolver[bom]'" in ran.stderr


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("uvx Mcp_Server==1.0", "pkg:pypi/mcp-server@1.0"),
        (f"docker run -i acme/mcp@sha256:{'0' * 64}", "pkg:oci/mcp@sha256"),
        ("npx -y acme-mcp", "pkg:npm/acme-mcp"),
        ("python server.py", None),
    ],
)
@pytest.mark.parametrize("name", ["cyclonedx", "spdx"])
def test_every_kind_of_package_is_taken_by_the_formats(
    write: Write, run: Run, name: str, line: str, expected: str | None
) -> None:
    command, *arguments = line.split()
    write(launched(launch={"command": command, "args": arguments}), agent=AGENT)

    ran = run("export", "--format", name, "-o", "bom.json")

    assert ran.code == 0, ran.stderr
    text = Path("bom.json").read_text()
    if name == "cyclonedx":
        assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    else:
        assert validate_full_spdx_document(json_parser.parse_from_file("bom.json")) == []
    assert (expected or "server.py") in text
    assert ("pkg:" in text) == (expected is not None)


def test_a_lock_that_does_not_hold_has_no_bill(bom: Path, run: Run) -> None:
    (bom / "agents.md").write_text(AGENT)

    ran = run("export", "--format", "cyclonedx", "-o", "bom.json")

    assert ran.code == 1
    assert not (bom / "bom.json").exists()


@pytest.mark.parametrize("name", ["bom.json", "below/bom.json"])
def test_no_link_leads_a_bill_out_of_the_project(bom: Path, tmp_path: Path, run: Run, name: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    Path("bom.json").symlink_to(outside / "bom.json")
    Path("below").symlink_to(outside)

    refused = run("export", "--format", "cyclonedx", "-o", name)

    assert (refused.code, "a link leads out of the project" in refused.stderr) == (1, True), str(refused)
    assert list(outside.iterdir()) == []
    assert run("export", "--format", "cyclonedx", "-o", str(outside / "bom.json")).code == 0
