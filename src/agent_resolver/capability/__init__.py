"""Functions of the project become tools."""

import sys
from types import ModuleType
from typing import Any

from agent_resolver._export import lazy_exports

__getattr__ = lazy_exports(__name__)


class _CallableRoom(ModuleType):
    """The room, which can be called as its decorator.

    `from agent_resolver import capability` gives the decorator to type checkers. Python binds every room that was
    imported to the package, so the same line gives this room to a program.
    """

    def __call__(self, *arguments: Any, **settings: Any) -> Any:  # noqa: ANN401 - as the decorator
        from agent_resolver.capability.function import capability

        return capability(*arguments, **settings)


sys.modules[__name__].__class__ = _CallableRoom
