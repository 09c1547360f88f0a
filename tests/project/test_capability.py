"""The modules of a project that have capabilities: loaded when somebody trusts them, and refused in words."""

import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from agent_resolver.capability import UnsafeCapability
from agent_resolver.project import Session, UntrustedFolder, UnusableModule, load_capabilities

_numbers = count()

CAPABILITY = """
from typing import Annotated

from msgspec import Meta, Struct

from agent_resolver.capability import capability


class Words(Struct, frozen=True, kw_only=True):
    text: Annotated[str, Meta(description="Some words.", examples=["hello"])]


@capability("words.say", examples=[{"text": "hello"}])
def say(request: Words) -> Words:
    \"\"\"Say it again.\"\"\"
    return request
"""


@pytest.fixture
def name(tmp_path: Path) -> Iterator[str]:
    """A name that no module has had; what is found by it is forgotten again."""
    before = list(sys.path)
    name = f"made_up_{next(_numbers)}"
    yield name
    sys.path[:] = before
    for module in [each for each in sys.modules if each.startswith(name)]:
        del sys.modules[module]


def project(folder: Path, *modules: str, trusts: bool = True) -> Session:
    listed = ", ".join(f'"{module}"' for module in modules)
    (folder / "agent.toml").write_text(f"[tools]\nmodules = [{listed}]\n")
    environment = {"XDG_CONFIG_HOME": str(folder / "config")}
    return Session(str(folder / "agents.md"), "mcp.index.json", environment=environment, trusts=trusts)


def refusal(folder: Path, *modules: str) -> str:
    with pytest.raises(UnusableModule) as caught:
        load_capabilities(project(folder, *modules))
    assert caught.value.hint == "see `[tools] modules` in agent.toml"
    return str(caught.value)


def test_a_project_without_modules_has_no_capabilities_and_needs_no_trust(tmp_path: Path) -> None:
    assert load_capabilities(project(tmp_path, trusts=False)) == []


def test_nothing_is_imported_before_somebody_trusts_the_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.py").write_text("raise SystemExit('it ran')\n")

    with pytest.raises(UntrustedFolder, match="its settings load Python modules"):
        load_capabilities(project(tmp_path, name, trusts=False))
    assert name not in sys.modules


def test_capabilities_are_found_and_one_that_two_modules_have_is_found_once(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.py").write_text(CAPABILITY)
    (tmp_path / f"{name}_again.py").write_text(f"from {name} import say\n")

    found = load_capabilities(project(tmp_path, name, f"{name}_again"))

    assert [each.descriptor.id for each in found] == ["words.say"]


def test_a_module_that_is_missing_is_named_without_a_place_in_the_machinery(tmp_path: Path, name: str) -> None:
    assert refusal(tmp_path, name) == (
        f"The module `{name}` cannot be imported: ModuleNotFoundError: No module named '{name}'"
    )


def test_a_module_that_fails_says_at_which_line(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.py").write_text("\nimport made_up_and_not_there\n")

    assert refusal(tmp_path, name) == (
        f"The module `{name}` cannot be imported: ModuleNotFoundError: No module named 'made_up_and_not_there'"
        f" at {name}.py:2 in <module>"
    )


@pytest.mark.parametrize("content", ["raise SystemExit('enough')", "1 / 0"])
def test_whatever_a_module_raises_is_a_refusal(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / f"{name}.py").write_text(content)

    assert refusal(tmp_path, name).endswith(f" at {name}.py:1 in <module>")


def test_what_is_no_python_says_where_by_itself(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.py").write_text("\ndef say(:\n")

    assert refusal(tmp_path, name) == (
        f"The module `{name}` cannot be imported: SyntaxError: invalid syntax ({name}.py, line 2)"
    )


def test_a_module_without_capabilities_may_be_the_wrong_one(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.py").touch()

    with pytest.raises(UnusableModule, match="has no capabilities") as caught:
        load_capabilities(project(tmp_path, name))

    assert caught.value.hint == "mark a function in it with `@capability`"


def test_an_unsafe_capability_is_told_as_such(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.py").write_text(CAPABILITY.replace("words.say", "words"))

    with pytest.raises(UnsafeCapability) as caught:
        load_capabilities(project(tmp_path, name))
    assert caught.value.details
