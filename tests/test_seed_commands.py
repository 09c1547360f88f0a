"""Every command and filter that the first documentation printed runs on its quick-start project.

Left out are the lines that concern its first implementation (installing with npm, importing its package) and the one
that fetches an index from the network.
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.conftest import PROJECTS

SHIMS = Path(__file__).parent / "shims"

SAMPLES = {
    "agent validate": """\
Validating ./agents.md...
✓ agents.md frontmatter is valid
Validating ./mcp.index.json...
✓ mcp.index.json is valid
Validation complete.
""",
    "agent discover": """\
Available MCP Servers by Category:

  analytics:
    - acme-analytics@2.0.0 [signed]
      Scopes: read:metrics, read:dashboards, write:metrics
      Residency: us-only, eu-only
      Max Sensitivity: confidential

  reporting:
    - acme-reporting@3.0.0 [signed]
      Scopes: read:reports, write:reports
      Residency: us-only
      Max Sensitivity: pii.low
""",
    "agent resolve --explain": """\
Resolving agent 'my-analytics-agent@1.0.0'...
  Requirements: 2 MCP category/categories
  Available servers: 2

✓ Wrote ./agents.lock
✓ Wrote ./agents.resolution.json

Resolution Summary:
  analytics: acme-analytics@2.0.0
    Scopes: read:dashboards, read:metrics
  reporting: acme-reporting@3.0.0
    Scopes: read:reports, write:reports

✓ Resolution complete
""",
}

RECIPES = [
    "agent --version && agent -V && agent --help && agent -h && agent resolve --help",
    "agent validate -a ./config/agents.md -i ./config/servers.json",
    "agent discover -i ./production-servers.json",
    "agent resolve --explain -o ./lockfiles/agents.lock --explain-output ./audit/resolution.json",
    "agent resolve -e",
    "cp agents.lock agents.lock.backup; agent resolve; diff agents.lock agents.lock.backup",
    "agent resolve -o lock1.json\nagent resolve -o lock2.json\ndiff lock1.json lock2.json",
    "agent resolve -i servers-dev.json -o agents.lock",
    "agent resolve -i servers-staging.json -o agents.lock",
    "agent resolve -i servers-prod.json -o agents.lock",
    "cp agents.lock agents.lock.old; agent resolve --explain; diff agents.lock.old agents.lock",
    "git init -q .; git add agents.lock; agent resolve --explain; git add agents.resolution.json",
    "agent validate && agent resolve",
    """
cp agents.lock agents.lock.old; cp agents.lock agents.lock.new
jq 'del(.resolvedAt)' agents.lock.old > old.json
jq 'del(.resolvedAt)' agents.lock.new > new.json
diff old.json new.json
""",
]

FILTERS = {
    ".requirements[].constraintsApplied": {"residency": "us-only", "sensitivity": "internal", "requireSigned": None},
    ".requirements[].selected": {
        "serverId": "acme-analytics",
        "version": "2.0.0",
        "endpoint": "https://mcp.acme.com/analytics",
        "scopes": ["read:dashboards", "read:metrics"],
        "selectionReason": "Only matching candidate",
    },
    ".requirements[].selected.selectionReason": "Only matching candidate",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The quick-start project with a lock, and its files also under the other names that the recipes use."""
    shutil.copytree(PROJECTS / "quick-start", tmp_path, dirs_exist_ok=True)
    (tmp_path / "config").mkdir()
    shutil.copy(tmp_path / "agents.md", tmp_path / "config")
    for name in ("production-servers", "servers-dev", "servers-staging", "servers-prod", "config/servers"):
        shutil.copy(tmp_path / "mcp.index.json", tmp_path / f"{name}.json")
    shell(tmp_path, "agent resolve")
    return tmp_path


def shell(folder: Path, script: str, code: int = 0) -> str:
    """What a script prints in `folder`, where `agent` and `jq` are found."""
    places = [sysconfig.get_path("scripts"), str(Path(sys.executable).parent), str(SHIMS), os.environ["PATH"]]
    done = subprocess.run(
        ["bash", "-euc", script],
        cwd=folder,
        env={**os.environ, "PATH": os.pathsep.join(places)},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done.stdout


@pytest.mark.parametrize("command", SAMPLES)
def test_the_quick_start_prints_what_it_says(tmp_path: Path, command: str) -> None:
    shutil.copytree(PROJECTS / "quick-start", tmp_path, dirs_exist_ok=True)

    printed = iter(shell(tmp_path, command).splitlines())

    # Each line of the sample, in its order; the command may print more, such as a total.
    assert all(line in printed for line in SAMPLES[command].splitlines() if line)


@pytest.mark.parametrize("script", RECIPES)
def test_a_recipe_runs(folder: Path, script: str) -> None:
    shell(folder, script)


@pytest.mark.parametrize("program", FILTERS)
def test_a_filter_finds_its_facts(folder: Path, program: str) -> None:
    printed = shell(folder, f"agent resolve --explain > /dev/null\ncat agents.resolution.json | jq '{program}'")

    assert json.JSONDecoder().raw_decode(printed)[0] == FILTERS[program]


def test_a_failed_resolution_can_be_asked_for_what_is_missing(folder: Path) -> None:
    agents = (folder / "agents.md").read_text()
    (folder / "agents.md").write_text(agents.replace("us-only", "eu-only"))
    shell(folder, "agent resolve --explain", code=1)

    printed = shell(folder, "cat agents.resolution.json | jq '.requirements[] | select(.selected == null)'")

    assert json.loads(printed)["category"] == "reporting"


def test_missing_scopes_can_be_asked_for(folder: Path) -> None:
    agents = (folder / "agents.md").read_text()
    (folder / "agents.md").write_text(agents.replace("write:reports", "delete:reports"))
    shell(folder, "agent resolve --explain", code=1)
    program = '.requirements[].rejected[] | select(.reason.code == "MISSING_SCOPE")'

    printed = shell(folder, f"cat agents.resolution.json | jq '{program}'")

    assert json.loads(printed)["reason"]["message"] == "Server missing required scopes: delete:reports"


def test_an_empty_list_of_permissions_is_refused_in_the_words_of_the_first_version(folder: Path) -> None:
    agents = (folder / "agents.md").read_text()
    (folder / "agents.md").write_text(agents.replace("\n        - read:metrics\n        - read:dashboards", " []"))

    printed = shell(folder, "agent validate 2>&1", code=1)

    assert "✗ agents.md validation failed:" in printed
    assert "  - requires.mcp.0.permissions: Array must contain at least 1 element(s) (agents.md:7:7)\n" in printed


def test_a_hash_can_be_checked_by_hand(folder: Path) -> None:
    script = """
id="acme-analytics"
version="2.0.0"
endpoint="https://mcp.acme.com/analytics"
scopes="read:dashboards,read:metrics"
echo -n "${id}@${version}|${endpoint}|${scopes}" | sha256sum
"""
    lock = json.loads((folder / "agents.lock").read_bytes())

    assert shell(folder, script).split()[0] == lock["servers"][0]["hash"]
