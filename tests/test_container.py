"""What can be said of the container file without building it."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONTAINERFILE = (ROOT / "Containerfile").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def instructions() -> list[tuple[str, str]]:
    """Each instruction with what it is given, continuation lines joined."""
    lines = [line for line in CONTAINERFILE.splitlines() if line and not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in joined.splitlines())]


def only(instruction: str) -> str:
    (found,) = [rest for word, rest in instructions() if word == instruction]
    return found


def commands() -> list[str]:
    """The commands that are run while the image is built."""
    without_mounts = re.sub(r"--mount=\S+", "", only("RUN"))
    return [command.strip() for command in without_mounts.split("&&")]


def test_the_container_runs_as_a_number_that_is_not_root() -> None:
    user, _, group = only("USER").partition(":")

    assert (int(user) > 0, int(group) > 0) == (True, True)
    assert instructions().index(("USER", only("USER"))) > instructions().index(("RUN", only("RUN")))


def test_the_container_starts_a_command_that_the_package_installs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (command,) = re.findall(r'"([^"]+)"', only("ENTRYPOINT"))

    assert command in project["scripts"]


def test_every_package_of_the_container_comes_from_the_wheelhouse() -> None:
    installs = [command for command in commands() if "pip install" in command]

    assert installs
    assert all("--no-index" in command for command in installs)
    assert not re.search(r"\b(apt|apt-get|apk|curl|wget|git)\b|https?://", CONTAINERFILE)
    assert "ADD" not in [word for word, _ in instructions()]
    assert "--network=none" in MAKEFILE


def test_dependencies_of_the_container_are_pinned_by_hash() -> None:
    (pinned,) = [command for command in commands() if " -r " in command]
    files = re.findall(r"-r /wheels/(\S+)", pinned)

    assert "--require-hashes" in pinned
    assert files == ["base.txt", "tools.txt", "scale.txt"]
    for name in files:
        assert (ROOT / "requirements" / name).is_file()
        assert re.search(rf"cp .*requirements/{re.escape(name)}.* build/container", MAKEFILE)


def test_the_image_keeps_nothing_that_was_only_needed_to_build_it() -> None:
    assert "COPY" not in [word for word, _ in instructions()]
    assert "--mount=type=bind,target=/wheels" in only("RUN")
    assert "--no-cache-dir" in only("RUN")
