"""The functions of a project that are tools."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from agent_resolver.project.errors import UnusableModule
from agent_resolver.project.session import Session
from agent_resolver.schema.errors import ResolverError

if TYPE_CHECKING:
    from agent_resolver.capability.function import Capability


def load_capabilities(session: Session) -> list["Capability[..., Any]"]:
    """The capabilities in `[tools] modules` of the settings, in the order of modules and definitions.

    Raises:
        UntrustedFolder: Nobody trusts the project, and its modules are code.
        UnusableModule: A module cannot be imported, or has no capabilities.
        UnsafeCapability: A function in it cannot be a tool.
    """
    names = session.config.tools.modules
    if not names:
        return []
    session.require_trust("its settings load Python modules")
    from agent_resolver.capability.loaded_source import loaded_sources

    loaded_sources.cover(session.root, names)
    if session.root not in sys.path:
        # As with a script, what lies beside the settings can be imported, now and while it runs.
        sys.path.insert(0, session.root)
    found = {id(each): each for name in names for each in _capabilities_in_module(name)}
    return list(found.values())


def _capabilities_in_module(name: str) -> tuple["Capability[..., Any]", ...]:
    from agent_resolver.capability.function import capabilities_of
    from agent_resolver.registry.call import place_of

    try:
        module = import_module(name)
    except ResolverError:
        raise
    except (Exception, SystemExit) as error:
        # A module that is missing has no place in it to name, and what is no Python says its place itself.
        is_missing = isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}.")
        place = "" if is_missing or isinstance(error, SyntaxError) else place_of(error)
        raise UnusableModule(name, f"cannot be imported: {type(error).__name__}: {error}{place}") from error
    found = capabilities_of(module)
    if not found:
        raise UnusableModule(name, "has no capabilities")
    return found
