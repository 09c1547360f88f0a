"""What each room offers to the outside: the one list is its `__init__.pyi`."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "agent_resolver"
LISTS = sorted(PACKAGE.glob("*/__init__.pyi"))


def listed(file: Path) -> list[str]:
    imports = [node for node in ast.parse(file.read_text("utf-8")).body if isinstance(node, ast.ImportFrom)]
    return [alias.name for node in imports for alias in node.names]


@pytest.mark.parametrize("file", LISTS, ids=lambda file: str(file.parent.name))
def test_a_room_offers_every_name_of_its_list(file: Path) -> None:
    room = import_module(f"agent_resolver.{file.parent.name}")

    assert [name for name in listed(file) if not hasattr(room, name)] == []


@pytest.mark.parametrize("file", LISTS, ids=lambda file: str(file.parent.name))
def test_no_offered_name_is_that_of_a_module(file: Path) -> None:
    """Python binds an imported module to its package, so it would hide a function of the same name."""
    modules = {path.stem for path in file.parent.glob("*.py")} | {path.name for path in file.parent.iterdir()}

    assert modules & set(listed(file)) == set()


@pytest.mark.parametrize("room", sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py")))
def test_no_two_classes_of_a_room_have_one_name(room: str) -> None:
    trees = [ast.parse(file.read_text("utf-8")) for file in (PACKAGE / room).rglob("*.py")]
    names = [node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)]

    assert sorted({name for name in names if names.count(name) > 1}) == []


def test_a_name_that_is_not_offered_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'no_such_name'"):
        import_module("agent_resolver.core").no_such_name  # noqa: B018 - asking is the point
