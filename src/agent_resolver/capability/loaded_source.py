"""The source of a project's modules, as it was loaded.

An approval and a manifest cover code by its digest, so the digest must be of the very bytes that run. Each module of
the project is therefore read once: its bytes are recorded, and Python compiles what was recorded. A `.pyc` file is
never used for it, because it may belong to another source. The process of an isolated call is given the recorded bytes
and reads no module of the project from the disk.

A module is of the project if its file is below the project's root, or if it belongs to the same top-level package as a
module that offers capabilities. Installed packages are not covered, and neither are extension modules.
"""

import ast
import os
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from hashlib import sha256
from importlib.machinery import (
    ModuleSpec,
    PathFinder,
    SourceFileLoader,
    SourcelessFileLoader,
)
from importlib.util import spec_from_file_location
from pkgutil import iter_modules
from types import CodeType, ModuleType
from typing import Any, Final

from msgspec import Struct

from agent_resolver.schema.canonical_digest import digest

MAX_SOURCE_BYTES: Final = 16 * 1024 * 1024
"""The largest source of one module."""
_OURS: Final = "agent_resolver"
_INSTALLED: Final = {"dist-packages", "site-packages"}
"""The folders that Python installs packages in; one may be below the root, in a virtual environment."""
_STANDARD_LIBRARY: Final = tuple(
    os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "platstdlib")
)

_Stamp = tuple[int, int, int, int, int]


class ModuleSource(Struct, frozen=True):
    """The source of one module."""

    name: str
    file: str
    is_package: bool
    content: bytes

    @property
    def path(self) -> str:
        """The file below the folder that the module was found in: the same on every machine."""
        end = "/__init__.py" if self.is_package else ".py"
        return self.name.replace(".", "/") + end


class LoadedSources:
    """The sources of all modules of the project that this process loaded or may load."""

    def __init__(self) -> None:
        self._roots: set[str] = set()
        self._packages: set[str] = set()
        """The top-level packages that are covered wherever they are."""
        self._recorded: dict[str, ModuleSource] = {}
        self._loaded: set[str] = set()
        """The modules that ran. One that is imported again is read again, as by any import."""
        self._stamps: dict[ModuleSource, _Stamp] = {}
        """The state of the file of each source when it was last seen to have that content."""
        self._elsewhere: set[str] = set()
        """Names in import statements that were not modules of the project when the code was recorded."""
        self._is_complete = False
        """True in the process of an isolated call: what is not recorded is refused."""

    # What is covered ------------------------------------------------------------------

    def cover(self, root: str, modules: Iterable[str] = ()) -> None:
        """From now on, load modules below `root`, and in the packages of `modules`, from recorded sources."""
        self._roots.add(os.path.join(root, ""))
        self._packages |= {_package_of(name) for name in modules}
        self._install()

    def restore(
        self,
        sources: Iterable[ModuleSource],
        roots: Iterable[str],
        packages: Iterable[str],
    ) -> None:
        """Load modules from these sources alone, in a process that was given them."""
        self._recorded = {source.name: source for source in sources}
        self._roots = set(roots)
        self._packages = set(packages)
        self._is_complete = True
        self._install()

    @property
    def roots(self) -> tuple[str, ...]:
        """The folders whose modules are covered."""
        return tuple(sorted(self._roots))

    def _install(self) -> None:
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def _covers(self, name: str, file: str, package: str = "") -> bool:
        top = _package_of(name)
        if top == _OURS or (
            file.startswith(_STANDARD_LIBRARY)
            and _INSTALLED.isdisjoint(file.split(os.sep))
        ):
            return False
        if top in self._packages or top == package:
            return True
        return any(
            file.startswith(root)
            and _INSTALLED.isdisjoint(file.removeprefix(root).split(os.sep))
            for root in self._roots
        )

    # Loading --------------------------------------------------------------------------

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Finds a covered module in its recorded source, and leaves every other to the finders behind this one.

        Raises:
            ImportError: It is a module of the project whose source is not known.
        """
        if self._is_complete and name in self._recorded:
            return self._recorded_spec(self._recorded[name])
        file = self._covered_file(name, PathFinder.find_spec(name, path, target))
        if file is None:
            return None
        if self._is_complete or (
            name in self._elsewhere and name not in self._recorded
        ):
            raise ImportError(
                f"`{file}` is not among the code that was loaded", name=name
            )
        if name in self._loaded:
            self._recorded.pop(name, None)
        return self._recorded_spec(self._record(name, file))

    def _covered_file(self, name: str, found: ModuleSpec | None) -> str | None:
        """The source file of a module that Python found, if it is covered; None leaves the module to other finders.

        Raises:
            ImportError: It is covered, and compiled code is all there is of it.
        """
        if (
            found is None
            or found.origin is None
            or not self._covers(name, found.origin)
        ):
            return None
        if isinstance(found.loader, SourcelessFileLoader):
            raise ImportError(f"`{found.origin}` has no source", name=name)  # noqa: TRY004 - as any failed import
        if not isinstance(found.loader, SourceFileLoader):
            return None
        return found.origin

    def _recorded_spec(self, source: ModuleSource) -> ModuleSpec | None:
        folders = [os.path.dirname(source.file)] if source.is_package else None
        loader = _RecordedLoader(source, self._loaded)
        return spec_from_file_location(
            source.name, source.file, loader=loader, submodule_search_locations=folders
        )

    def _record(self, name: str, file: str) -> ModuleSource:
        """The source of a module, read from its file unless it was before."""
        known = self._recorded.get(name)
        if known is not None and known.file == file:
            return known
        content, stamp = _read_source(file)
        stem, _ = os.path.splitext(os.path.basename(file))
        is_package = stem == "__init__"
        source = ModuleSource(name, file, is_package, content)
        self._recorded[name] = source
        self._stamps[source] = stamp
        return source

    # The code of a capability ---------------------------------------------------------

    def code_of(self, module: str, file: str) -> tuple[ModuleSource, ...]:
        """The sources of a module and of all project modules that it imports by a statement, sorted by their path.

        Statements inside functions count too, so that a module that is imported later is recorded now.
        """
        if self._is_complete:
            # In the process of an isolated call, code is known from the process that
            # recorded it.
            return ()
        package = _package_of(module)
        found = {module: self._record(module, file)}
        judged: set[str] = set()
        waiting = [found[module]]
        while waiting:
            source = waiting.pop()
            for name in _expand_stars(_imported_names(source)):
                if name in judged or name in found:
                    continue
                judged.add(name)
                location = _locate(name)
                if location is None or not self._covers(name, location, package):
                    self._elsewhere.add(name)
                    continue
                found[name] = self._record(name, location)
                waiting.append(found[name])
        return tuple(sorted(found.values(), key=lambda source: source.path))

    def changed_file(self, sources: Iterable[ModuleSource]) -> str | None:
        """The path of the first source whose file on disk has other content now; None if all are the same."""
        for source in sources:
            try:
                if _stamp_of(os.stat(source.file)) == self._stamps.get(source):
                    continue
                content, stamp = _read_source(source.file)
            except (OSError, ImportError):
                return source.path
            if content != source.content:
                return source.path
            self._stamps[source] = stamp
        return None


class _RecordedLoader(SourceFileLoader):
    """Loads a module from its recorded source."""

    def __init__(self, source: ModuleSource, loaded: set[str]) -> None:
        super().__init__(source.name, source.file)
        self._content = source.content
        self._loaded = loaded

    def exec_module(self, module: ModuleType) -> None:
        self._loaded.add(self.name)
        super().exec_module(module)

    def get_code(self, fullname: str) -> CodeType | None:  # noqa: ARG002 - it loads one module
        code: CodeType = self.source_to_code(self._content, self.path)
        return code


def code_digest(sources: Iterable[ModuleSource]) -> str:
    """One digest of all sources, the same on every machine."""
    return digest(
        [[source.path, sha256(source.content).hexdigest()] for source in sources]
    )


def _read_source(file: str) -> tuple[bytes, _Stamp]:
    with open(file, "rb") as opened:
        stamp = _stamp_of(os.fstat(opened.fileno()))
        content = opened.read(MAX_SOURCE_BYTES + 1)
    if len(content) > MAX_SOURCE_BYTES:
        raise ImportError(f"`{file}` is larger than {MAX_SOURCE_BYTES:,} bytes")
    return content, stamp


def _stamp_of(status: os.stat_result) -> _Stamp:
    return (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


def _package_of(name: str) -> str:
    return name.partition(".")[0]


def _locate(name: str) -> str | None:
    """The source file of a module, found without importing anything; None if it has none."""
    folders: Sequence[str] | None = None
    spec: ModuleSpec | None = None
    for prefix in _with_parents(name):
        try:
            spec = PathFinder.find_spec(prefix, folders)
        except (ImportError, ValueError):
            return None
        if spec is None:
            return None
        # A plain module has no folders, and nothing below it.
        folders = spec.submodule_search_locations or ()
    is_source = spec is not None and isinstance(spec.loader, SourceFileLoader)
    return spec.origin if spec is not None and is_source else None


def _expand_stars(names: Iterable[str]) -> Iterator[str]:
    """Every name, and for `package.*` all modules of the package: its `__all__` may import any of them."""
    for name in names:
        package, _, last = name.rpartition(".")
        if last != "*":
            yield name
            continue
        file = _locate(package) or ""
        if os.path.basename(file) == "__init__.py":
            yield from (
                f"{package}.{module.name}"
                for module in iter_modules([os.path.dirname(file)])
            )


def _with_parents(name: str) -> Iterator[str]:
    """`a`, `a.b` and `a.b.c` for `a.b.c`: importing a module imports its packages first."""
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        yield ".".join(parts[:end])


@cache
def _imported_names(source: ModuleSource) -> tuple[str, ...]:
    """Every module that a source may import by a statement; some of the names may not be modules."""
    try:
        tree = ast.parse(source.content)
    except (SyntaxError, ValueError, RecursionError):
        # It imports nothing, since it cannot be loaded.
        return tuple(_with_parents(source.name))
    package = source.name if source.is_package else source.name.rpartition(".")[0]
    names = {source.name, *_names_in_imports(tree, package)}
    # A relative import outside of a package names nothing.
    usable = sorted(name for name in names if name and not name.startswith("."))
    return tuple(
        dict.fromkeys(parent for name in usable for parent in _with_parents(name))
    )


def _names_in_imports(tree: ast.Module, package: str) -> Iterator[str]:
    """The names in all import statements of a module, those inside functions included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _base_of(node, package)
            yield base
            # Each name may be a module of the package, or anything else in it.
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _base_of(node: ast.ImportFrom, package: str) -> str:
    """The full name of the module that `from ... import` names."""
    if not node.level:
        return node.module or ""
    folders = package.split(".")
    # One dot is the package itself, and each further dot a package above it.
    above = folders[: len(folders) - node.level + 1]
    if node.module:
        above.append(node.module)
    return ".".join(above)


loaded_sources = LoadedSources()
"""Those of this process."""


def sources_of(function: Callable[..., Any]) -> tuple[ModuleSource, ...]:
    """The code of a function's module, as `LoadedSources.code_of` gives it; empty if it comes from no source file."""
    module = getattr(function, "__module__", None)
    file = getattr(sys.modules.get(module or ""), "__file__", None)
    if (
        not isinstance(module, str)
        or not isinstance(file, str)
        or not file.endswith(".py")
    ):
        return ()
    try:
        return loaded_sources.code_of(module, os.path.abspath(file))
    except (OSError, ImportError):
        return ()
