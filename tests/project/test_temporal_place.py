"""Where the Temporal server of a project is: what the settings say, and what they may not."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_resolver.engine import EngineRefused
from agent_resolver.engine.temporal_place import TemporalPlace
from agent_resolver.project import Session, UntrustedFolder
from agent_resolver.project.engine import temporal_place
from agent_resolver.storage import FileError

CERTIFICATE = b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
Place = Callable[..., TemporalPlace]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """The place that settings and variables give."""
    opened: list[Session] = []
    folder = tmp_path / "shop"
    folder.mkdir()

    def place_now(*lines: str, trusts: bool = True, **environment: str) -> TemporalPlace:
        settings = "\n".join(("[project]", 'name = "Shop of Ada"', "[engine]", 'kind = "temporal"', *lines))
        (folder / "agent.toml").write_text(settings)
        variables = {"XDG_CONFIG_HOME": str(tmp_path / "config"), **environment}
        agent_file, index = str(folder / "agents.md"), str(folder / "mcp.index.json")
        session = Session(agent_file, index, environment=variables, flags=(), trusts=trusts)
        opened.append(session)
        return temporal_place(session)

    yield place_now
    for each in opened:
        each.close()


def test_without_settings_it_is_the_usual_port_of_this_machine_in_the_clear(place: Place) -> None:
    found = place(trusts=False)

    assert (found.address, found.namespace) == ("127.0.0.1:7233", "default")
    assert not found.is_encrypted
    assert not found.is_shared
    assert found.state.endswith(f"@{found.machine}")
    assert found.queue.startswith("agent-shop-of-ada-")


def test_processes_of_a_machine_without_a_network_are_on_one_machine(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python makes up an address for each; these two are ones that it made up."""
    addresses = [0x873C40CD67B3, 0xC73A7810658C]
    monkeypatch.setattr("uuid.getnode", addresses.pop)

    assert place().machine == place().machine


@pytest.mark.parametrize("line", ['address = "far:1"', 'api_key_env = "KEY"', 'ca_file = "ca.pem"'])
def test_a_file_that_no_person_trusts_chooses_no_server(place: Place, line: str) -> None:
    with pytest.raises(UntrustedFolder):
        place(line, trusts=False, KEY="secret")


def test_a_key_encrypts_the_connection(place: Place) -> None:
    found = place('api_key_env = "FAR_KEY"', FAR_KEY="secret")

    assert (found.api_key, found.is_encrypted, found.root_certificate) == ("secret", True, b"")


def test_a_key_that_is_not_set_is_missed(place: Place) -> None:
    with pytest.raises(EngineRefused, match="FAR_KEY"):
        place('api_key_env = "FAR_KEY"')


def test_certificates_are_read_beside_the_settings(place: Place, tmp_path: Path) -> None:
    (tmp_path / "shop" / "ca.pem").write_bytes(CERTIFICATE)
    found = place('ca_file = "ca.pem"')

    assert (found.root_certificate, found.is_encrypted) == (CERTIFICATE, True)


@pytest.mark.parametrize("content", [b"", b"\n", b"-----BEGIN PRIVATE KEY-----\n"])
def test_a_file_without_certificates_leaves_no_connection_in_the_clear(
    place: Place, tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "shop" / "ca.pem").write_bytes(content)

    with pytest.raises(EngineRefused, match=r"ca\.pem") as refused:
        place('ca_file = "ca.pem"')
    assert "PEM" in refused.value.hint


def test_a_file_of_certificates_that_is_not_there_is_missed(place: Place) -> None:
    with pytest.raises(FileError, match=r"ca\.pem"):
        place('ca_file = "ca.pem"')
