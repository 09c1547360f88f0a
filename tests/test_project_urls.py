"""The package names the project's URLs where its build is given the address, and only there."""

import os
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
VARIABLE = "AGENT_RESOLVER_PROJECT_URL"
ADDRESS = "https://example.org/agent-resolver"


def build(target: str, into: Path, *, source: Path = ROOT, address: str | None) -> subprocess.CompletedProcess[str]:
    """Build the `target`, a wheel or an sdist, as `make package` does."""
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    if address is not None:
        environment[VARIABLE] = address
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(into)]
    return subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, check=False)


def urls(wheel_folder: Path) -> list[str]:
    """The URLs in the metadata of the wheel in a folder."""
    [wheel] = wheel_folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        [metadata] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return Parser().parsestr(archive.read(metadata).decode()).get_all("Project-URL", [])


@pytest.mark.parametrize("address", [ADDRESS, f"{ADDRESS}/"])
def test_every_url_of_the_wheel_comes_from_the_one_address(address: str, tmp_path: Path) -> None:
    build("wheel", tmp_path, address=address).check_returncode()

    assert urls(tmp_path) == [
        f"Homepage, {ADDRESS}",
        f"Documentation, {ADDRESS}/blob/HEAD/docs/index.md",
        f"Changelog, {ADDRESS}/blob/HEAD/CHANGELOG.md",
        f"Issues, {ADDRESS}/issues",
        f"Security, {ADDRESS}/blob/HEAD/SECURITY.md",
    ]


@pytest.mark.parametrize("address", [None, ""])
def test_a_wheel_built_without_an_address_names_no_url(address: str | None, tmp_path: Path) -> None:
    build("wheel", tmp_path, address=address).check_returncode()

    assert urls(tmp_path) == []


@pytest.mark.slow
def test_a_wheel_built_from_an_sdist_has_the_urls_of_the_sdist(tmp_path: Path) -> None:
    build("sdist", tmp_path, address=ADDRESS).check_returncode()
    [sdist] = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "source", filter="data")
    [source] = (tmp_path / "source").iterdir()

    build("wheel", tmp_path, source=source, address=None).check_returncode()

    assert len(urls(tmp_path)) == 5


@pytest.mark.parametrize(
    "address",
    [
        "http://example.org/agent-resolver",
        "example.org/agent-resolver",
        "https://",
        "https://user:s3cret@example.org/agent-resolver",
        "https://example.org/agent resolver",
        "https://example.org/agent-resolver?token=s3cret",
        "https://example.org/agent-resolver\nProject-URL: Other, https://example.org/other",
    ],
)
def test_an_address_that_is_not_a_plain_https_one_is_refused(address: str, tmp_path: Path) -> None:
    done = build("wheel", tmp_path, address=address)

    assert done.returncode == 1
    assert done.stderr == (
        "AGENT_RESOLVER_PROJECT_URL must be an https address without user, query or spaces,"
        " such as https://example.org/agent-resolver\n"
    )
    assert not list(tmp_path.glob("*.whl"))


def test_the_pages_that_the_urls_name_are_in_the_repository() -> None:
    assert all((ROOT / name).is_file() for name in ("docs/index.md", "CHANGELOG.md", "SECURITY.md"))
