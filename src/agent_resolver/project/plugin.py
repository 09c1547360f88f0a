"""Plugins that installed packages offer, each loaded when an agent names it."""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from agent_resolver.runtime.errors import InvalidPlugin
from agent_resolver.runtime.plugin import Plugin
from agent_resolver.runtime.plugin_contract import check_plugin

PLUGINS: Final = "agent_resolver.plugins"
"""The group of entry points under which packages offer plugins, each by its id."""


class InstalledPlugins(Mapping[str, Plugin]):
    """The plugins of installed packages by id; nothing of a package runs before its plugin is asked for."""

    def __init__(self, before_loading: Callable[[], None] = lambda: None) -> None:
        """The plugins of all installed packages.

        Args:
            before_loading: Called before code of a package runs; raises to stop it.
        """
        self._before_loading = before_loading
        self._loaded: dict[str, Plugin] = {}

    def __getitem__(self, plugin_id: str) -> Plugin:
        """The plugin of that id.

        Raises:
            KeyError: No package offers it.
            InvalidPlugin: A package does, and it cannot be used.
        """
        if plugin_id not in self._loaded:
            # An id that no package offers raises here, before a person is asked for
            # trust.
            offers = self._offers[plugin_id]
            self._before_loading()
            self._loaded[plugin_id] = _load_plugin(plugin_id, offers)
        return self._loaded[plugin_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._offers)

    def __len__(self) -> int:
        return len(self._offers)

    def __contains__(self, plugin_id: object) -> bool:
        return plugin_id in self._offers

    @cached_property
    def _offers(self) -> dict[str, list[EntryPoint]]:
        """The offers of each id, in an order that does not depend on the disk."""
        offers: dict[str, list[EntryPoint]] = {}
        for entry in sorted(
            entry_points(group=PLUGINS),
            key=lambda entry: (entry.name, _package_name(entry), entry.value),
        ):
            offers.setdefault(entry.name, []).append(entry)
        return offers


def _load_plugin(plugin_id: str, offers: list[EntryPoint]) -> Plugin:
    entry, *others = offers
    # If two packages offer one id, neither is loaded: installing one must not replace
    # the other in silence.
    if others:
        packages = " and ".join(map(_package_name, offers))
        raise InvalidPlugin(plugin_id, [f"it is offered by {packages}"])
    try:
        offered = entry.load()
        # An entry point may name a plugin, or a class that makes one without arguments.
        plugin = check_plugin(offered() if isinstance(offered, type) else offered)
    except InvalidPlugin as error:
        raise InvalidPlugin(plugin_id, error.faults) from None
    except (Exception, SystemExit) as error:
        fault = f"`{entry.value}` of {_package_name(entry)} cannot be loaded: {type(error).__name__}: {error}"
        raise InvalidPlugin(plugin_id, [fault]) from error
    if plugin.id != plugin_id:
        raise InvalidPlugin(
            plugin_id,
            [
                f"{_package_name(entry)} offers it by that name, and its id is `{plugin.id}`"
            ],
        )
    return plugin


def _package_name(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else "a package"
