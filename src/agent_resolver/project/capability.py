"""The functions of a project that are tools."""

import os
import sys
from collections.abc import Iterator
from importlib import import_module
from pkgutil import get_importer
from typing import TYPE_CHECKING, Any

from agent_resolver.project.errors import UnusableModule
from agent_resolver.project.session import Session
from agent_resolver.schema.errors import ResolverError

if TYPE_CHECKING:
    from agent_resolver.capability.function import Capability


def load_capabilities(session: Session) -> list["Capability[..., Any]"]:
    """The capabilities in `[tools] modules` of the settings, in the order of modules and definitions.

    Raises:
        UntrustedFolder: No person trusts the project, and its modules are code.
        ForeignFile: A module belongs to another user.
        UnusableModule: A module cannot be imported, or has no capabilities.
        UnsafeCapability: A function in it cannot be a tool.
    """
    names = session.config.tools.modules
    if not names:
        return []
    modules = [path for name in names for path in _files_of_module(name, session.root)]
    session.require_trust("its settings load Python modules", modules=modules)
    from agent_resolver.capability.loaded_source import loaded_sources

    loaded_sources.cover(session.root, names)
    if session.root not in sys.path:
        # As with a script, what lies beside the settings can be imported, now and while
        # it runs.
        sys.path.insert(0, session.root)
    # A module may import a capability of another one: each is a tool once.
    found = {id(each): each for name in names for each in _capabilities_in_module(name)}
    return list(found.values())


def _files_of_module(name: str, root: str) -> Iterator[str]:
    """The files below `root` that run when a module is imported; found without running any of them.

    Those are the packages around it, the module, and the compiled form of each. A module that is not below `root`
    belongs to Python or to an installed package.
    """
    places = [root]
    for part in name.split("."):
        finders = filter(None, map(get_importer, places))
        for found in filter(None, (finder.find_spec(part) for finder in finders)):
            # A package without `__init__.py` runs nothing itself.
            yield from filter(None, (found.origin, found.cached))
        folders = (os.path.join(place, part) for place in places)
        places = [folder for folder in folders if os.path.isdir(folder)]


def _capabilities_in_module(name: str) -> tuple["Capability[..., Any]", ...]:
    from agent_resolver.capability.function import capabilities_of
    from agent_resolver.registry.call import place_of

    try:
        module = import_module(name)
    except ResolverError:
        raise
    # A module that calls `sys.exit` must not end the command that loads it.
    except (Exception, SystemExit) as error:
        # A module that is missing has no place in it to name, and what is no Python
        # says its place itself.
        is_missing = isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(
            f"{error.name}."
        )
        place = "" if is_missing or isinstance(error, SyntaxError) else place_of(error)
        raise UnusableModule(
            name, f"cannot be imported: {type(error).__name__}: {error}{place}"
        ) from error
    found = capabilities_of(module)
    if not found:
        raise UnusableModule(
            name, "has no capabilities", "mark a function in it with `@capability`"
        )
    return found
