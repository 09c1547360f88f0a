"""What can be said of the deployment files of `examples/cluster` without a container engine or a cluster."""

import re
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

from agent_resolver.cli.app import build_parser
from agent_resolver.server.supervisor import END_SECONDS

CLUSTER = Path(__file__).parents[1] / "examples" / "cluster"
KUBERNETES = sorted((CLUSTER / "kubernetes").glob("*.yaml"))
COMPOSE: Any = yaml.safe_load((CLUSTER / "compose.yaml").read_text(encoding="utf-8"))
_OLDEST, _NEWEST = "1.29", "1.35"


def objects(kind: str = "") -> list[Any]:
    """The objects of all files, or those of one kind."""
    texts = [path.read_text(encoding="utf-8") for path in KUBERNETES]
    found = [each for text in texts for each in yaml.safe_load_all(text)]
    return [each for each in found if kind in {"", each["kind"]}]


def containers() -> list[Any]:
    return [each["spec"]["template"]["spec"]["containers"][0] for each in objects("Deployment")]


@pytest.mark.parametrize("version", [_OLDEST, _NEWEST])
def test_every_object_follows_the_schema_of_kubernetes(version: str) -> None:
    assert objects()
    for each in objects():
        kubernetes_validate.validate(each, version, strict=True)


def test_every_container_has_probes_at_a_port_that_it_opens() -> None:
    for container in containers():
        [port] = container["ports"]
        for name in ("livenessProbe", "readinessProbe", "startupProbe"):
            assert container[name]["httpGet"]["port"] == port["name"]
            assert container[name]["httpGet"]["path"] in {"/healthz", "/readyz"}
        assert f"0.0.0.0:{port['containerPort']}" in container["args"]


def test_a_server_answers_until_no_proxy_sends_it_anything_and_then_has_time_to_finish() -> None:
    """A pod that ends is still sent new connections for a while."""
    [deployment] = [each for each in objects("Deployment") if each["metadata"]["name"] == "agent-serve"]
    spec = deployment["spec"]["template"]["spec"]
    pause, seconds = spec["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]

    assert pause == "sleep"
    assert spec["terminationGracePeriodSeconds"] >= int(seconds) + END_SECONDS


def test_no_container_runs_as_root_or_writes_to_its_image() -> None:
    for deployment in objects("Deployment"):
        assert deployment["spec"]["template"]["spec"]["securityContext"]["runAsNonRoot"] is True
    for container in containers():
        security = container["securityContext"]
        assert (security["readOnlyRootFilesystem"], security["allowPrivilegeEscalation"]) == (True, False)
        assert security["capabilities"]["drop"] == ["ALL"]


def test_secrets_come_from_a_secret_and_are_not_written_down() -> None:
    for container in containers():
        assert all(set(each) == {"name", "valueFrom"} for each in container["env"])
    assert not re.search(r"password: [^$\s]|_KEY: [^$\s]", (CLUSTER / "compose.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "command",
    [*(each["args"] for each in containers()), *(COMPOSE["services"][name]["command"] for name in ("worker", "serve"))],
    ids=lambda command: command[0],
)
def test_every_command_is_one_that_the_program_takes(command: list[str]) -> None:
    _, unknown = build_parser().parse_known_args(command)

    assert unknown == []
