"""Lets a room offer names of its modules without importing the modules before a name is used."""

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any


def lazy_exports(package: str) -> Callable[[str], Any]:
    """A module-level `__getattr__` (PEP 562) for the room `package`.

    The one list of what a room offers is its `__init__.pyi`, which type checkers read as it is. A name is looked up
    there when it is first used, and kept as an attribute of the package.
    """
    modules: dict[str, str] = {}

    def get_exported(name: str) -> Any:  # noqa: ANN401 - whatever the module has under that name
        # Python asks for `__path__` and the like of every package; none of them is in
        # the list.
        if not modules and not name.startswith("__"):
            modules.update(_read_list(package))
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(_import_needing_extra(modules[name]), name)
        # Python binds an imported room to the package: `agent_resolver.capability`
        # stays the room, which can be called.
        return vars(import_module(package)).setdefault(name, value)

    return get_exported


def _import_needing_extra(module: str) -> ModuleType:
    """Import a module.

    Raises:
        MissingExtra: It needs a package that is not installed and that an extra brings.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError:
        from agent_resolver._extra import needing_extra

        extras = {
            "server": "serve",
            "runtime.provider": "models",
            "reasoner": "reasoner",
            "storage.postgres": "postgres",
        }
        rooms = (
            room for room in extras if module.startswith(f"agent_resolver.{room}.")
        )
        with needing_extra(extras.get(next(rooms, ""), "tools")):
            raise


def _read_list(package: str) -> dict[str, str]:
    """Maps each name in the `__init__.pyi` of a room to its module.

    Each line is read on its own: `from MODULE import` names the module of the lines up to the next one, and every
    exported name is written `Name as Name`, which type checkers ask for. Python's own parser would take more memory
    than the rooms that a small program uses.
    """
    import re

    modules: dict[str, str] = {}
    module = ""
    # Not with `pathlib`, which takes milliseconds to import.
    with open(  # noqa: PTH123
        f"{import_module(package).__path__[0]}/__init__.pyi", encoding="utf-8"
    ) as listed:
        for line in listed:
            if line.startswith("from "):
                module = line.split()[1]
            modules.update(dict.fromkeys(re.findall(r"\b(\w+) as \1\b", line), module))
    return modules
