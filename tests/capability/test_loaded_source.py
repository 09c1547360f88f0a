"""The sources of a project: which modules are covered, what their digest depends on, and what is refused."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_resolver.capability import LoadedSources, ModuleSource, code_digest, loaded_source


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoadedSources]:
    """Sources of their own, which leave Python's import as it was."""
    found = LoadedSources()
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    before = set(sys.modules)
    yield found
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def write(project: Path, path: str, content: str = "") -> str:
    file = project / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    importlib.invalidate_caches()
    return str(file)


def paths(found: tuple[ModuleSource, ...]) -> list[str]:
    return [source.path for source in found]


def test_a_star_covers_all_modules_of_its_package(project: Path, sources: LoadedSources) -> None:
    """Those that the package names in `__all__` are imported, and any expression can make that list."""
    file = write(project, "start.py", "from pack import *\nfrom plain import *")
    write(project, "pack/__init__.py", "__all__ = ['in' + 'ner']")
    write(project, "pack/inner.py", "import further")
    write(project, "pack/nested/__init__.py")
    write(project, "pack/nested/unused.py")
    write(project, "plain.py")
    write(project, "further.py")
    sources.cover(str(project))

    assert paths(sources.code_of("start", file)) == [
        "further.py",
        "pack/__init__.py",
        "pack/inner.py",
        "pack/nested/__init__.py",
        "plain.py",
        "start.py",
    ]


def test_every_way_to_import_by_a_statement_is_followed(project: Path, sources: LoadedSources) -> None:
    imports = """
import plain
import pack.inner
from pack import sibling, something
from . import nothing
import json, msgspec

def later():
    from deep.below import value
    from pack.relative import other

if False:
    import never
"""
    file = write(project, "start.py", imports)
    for name in ("plain", "never", "unused", "pack/inner", "pack/sibling", "pack/unused", "deep/__init__"):
        write(project, f"{name}.py")
    write(project, "pack/__init__.py", "something = 1")
    write(project, "deep/below.py", "import start")
    write(project, "pack/relative.py", "from . import cousin\nfrom .far import *\nfrom .. import beyond")
    write(project, "pack/cousin.py", "import a syntax error")
    write(project, "pack/far/__init__.py")
    sources.cover(str(project))

    assert paths(sources.code_of("start", file)) == [
        "deep/__init__.py",
        "deep/below.py",
        "never.py",
        "pack/__init__.py",
        "pack/cousin.py",
        "pack/far/__init__.py",
        "pack/inner.py",
        "pack/relative.py",
        "pack/sibling.py",
        "plain.py",
        "start.py",
    ]


def test_a_module_in_a_folder_without_init_is_followed(project: Path, sources: LoadedSources) -> None:
    file = write(project, "start.py", "import space.inner")
    write(project, "space/inner.py")
    sources.cover(str(project))

    assert paths(sources.code_of("start", file)) == ["space/inner.py", "start.py"]


def test_installed_packages_are_not_of_the_project(
    project: Path, sources: LoadedSources, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = project / ".venv" / "lib" / "site-packages"
    write(installed, "installed_by_test/__init__.py")
    write(installed, "named_by_test/__init__.py", "from named_by_test import inner")
    write(installed, "named_by_test/inner.py")
    monkeypatch.syspath_prepend(str(installed))
    file = write(project, "start.py", "import installed_by_test, named_by_test, agent_resolver, json")
    sources.cover(str(project))
    without = paths(sources.code_of("start", file))
    sources.cover(str(project), ["named_by_test.inner"])

    assert without == ["start.py"]
    assert paths(sources.code_of("start", file)) == [
        "named_by_test/__init__.py",
        "named_by_test/inner.py",
        "start.py",
    ]


def test_outside_of_a_project_a_package_is_covered_as_a_whole(project: Path, sources: LoadedSources) -> None:
    file = write(project, "own_package/start.py", "from own_package import helper\nimport neighbour_of_package")
    write(project, "own_package/__init__.py")
    write(project, "own_package/helper.py")
    write(project, "neighbour_of_package.py")

    assert paths(sources.code_of("own_package.start", file)) == [
        "own_package/__init__.py",
        "own_package/helper.py",
        "own_package/start.py",
    ]


def test_the_digest_depends_on_names_and_contents_and_not_on_the_place(tmp_path: Path) -> None:
    first = ModuleSource("a", "/one/a.py", False, b"1")  # noqa: FBT003
    digests = {
        code_digest([first]),
        code_digest([ModuleSource("a", "/two/a.py", False, b"1")]),  # noqa: FBT003
        code_digest([ModuleSource("b", "/one/a.py", False, b"1")]),  # noqa: FBT003
        code_digest([ModuleSource("a", "/one/a.py", False, b"2")]),  # noqa: FBT003
        code_digest([ModuleSource("a", "/one/a/__init__.py", True, b"1")]),  # noqa: FBT003
    }

    assert len(digests) == 4


def test_what_runs_is_what_was_recorded(project: Path, sources: LoadedSources) -> None:
    file = write(project, "recorded_start.py", "import recorded_helper")
    helper = write(project, "recorded_helper.py", "VALUE = 1")
    sources.cover(str(project))
    found = sources.code_of("recorded_start", file)
    Path(helper).write_text("VALUE = 2")
    module = importlib.import_module("recorded_helper")

    assert module.VALUE == 1
    assert sources.changed_file(found) == "recorded_helper.py"


def test_a_module_that_is_imported_again_is_read_again(project: Path, sources: LoadedSources) -> None:
    write(project, "imported_again.py", "VALUE = 1")
    sources.cover(str(project))
    first = importlib.import_module("imported_again").VALUE
    del sys.modules["imported_again"]
    write(project, "imported_again.py", "VALUE = 22")

    assert (first, importlib.import_module("imported_again").VALUE) == (1, 22)


def test_restored_sources_need_no_file(project: Path, sources: LoadedSources) -> None:
    content = b"from restored_package import inner\nVALUE = inner.VALUE"
    given = [
        ModuleSource("restored_package", str(project / "restored_package/__init__.py"), True, b""),  # noqa: FBT003
        ModuleSource("restored_package.inner", str(project / "restored_package/inner.py"), False, b"VALUE = 3"),  # noqa: FBT003
        ModuleSource("restored", str(project / "restored.py"), False, content),  # noqa: FBT003
    ]
    sources.restore(given, [f"{project}/"], ["restored"])

    assert importlib.import_module("restored").VALUE == 3


def test_restored_sources_refuse_every_other_module_of_the_project(project: Path, sources: LoadedSources) -> None:
    write(project, "not_among_them.py")
    sources.restore([], [f"{project}/"], [])

    with pytest.raises(ImportError, match=r"not_among_them\.py` is not among the code that was loaded"):
        importlib.import_module("not_among_them")


def test_a_source_has_a_bound(project: Path, sources: LoadedSources, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loaded_source, "MAX_SOURCE_BYTES", 10)
    write(project, "larger_than_ten_bytes.py", "VALUE = 11111")
    sources.cover(str(project))

    with pytest.raises(ImportError, match="is larger than 10 bytes"):
        importlib.import_module("larger_than_ten_bytes")
