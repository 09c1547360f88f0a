"""Plugins: what they may register, and what a run is given of it."""

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, Protocol, get_args, runtime_checkable

from msgspec import Struct

from agent_resolver.registry.errors import UnusableTool
from agent_resolver.registry.tool import Tool
from agent_resolver.runtime.errors import EnvBuild
from agent_resolver.runtime.tool_contract import check_tool
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.foreign_error import describe_exception
from agent_resolver.schema.frozen import freeze_fields

Phase = Literal[
    "run_start",
    "step_start",
    "before_inference",
    "after_inference",
    "tool_gate",
    "before_tool_execute",
    "after_tool_execute",
    "step_end",
    "run_end",
]
PHASES: Final[tuple[Phase, ...]] = get_args(Phase)

Handler = Callable[..., Any]
"""A hook, an action handler, an effect handler or a transform: what it is called with is the run's business."""


class ConfigSchema(Struct, frozen=True):
    """What a section of a spec must look like."""

    key: str
    schema: dict[str, Any]

    def __post_init__(self) -> None:
        freeze_fields(self, "schema")


class KeyRegistration(Struct, frozen=True, kw_only=True):
    """A key of a run's state that a plugin keeps."""

    plugin: str
    key: str
    is_profile: bool = False
    """Whether it outlives the run."""


class Tagged(Struct, frozen=True):
    """Something that a plugin registered, and which one did."""

    plugin: str
    handler: Handler


class TaggedTool(Struct, frozen=True, gc=False):
    """A tool that a plugin registered, with its descriptor as it was then."""

    plugin: str
    descriptor: Descriptor
    tool: Tool


@runtime_checkable
class Plugin(Protocol):
    """Adds behaviour to an agent. It may also have `config_schemas`, `bind`, `on_activate` and `on_deactivate`."""

    @property
    def id(self) -> str:
        """What specs call it."""
        ...

    def register(self, registrar: "Registrar") -> None:
        """Declare hooks, handlers, transforms, keys and tools; called anew for every plan."""
        ...


class ExecutionEnv(Struct, frozen=True, kw_only=True):
    """What the plugins of one plan registered; never shared between plans."""

    phase_hooks: Mapping[Phase, tuple[Tagged, ...]]
    scheduled_actions: Mapping[str, Tagged]
    effects: Mapping[str, Tagged]
    request_transforms: tuple[Tagged, ...]
    keys: tuple[KeyRegistration, ...]
    tools: tuple[TaggedTool, ...]
    """In the order of registration; whether two have one id is for the stage to say that sees all tools."""
    plugins: tuple[Plugin, ...]
    plugin_ids: tuple[str, ...]
    """Their ids, in the same order."""


class Registrar:
    """Takes what one plugin after the other registers."""

    def __init__(self) -> None:
        self._plugin = ""
        self._counts = False
        self._is_open = False
        self._hooks: dict[Phase, list[Tagged]] = {phase: [] for phase in PHASES}
        self._actions: dict[str, Tagged] = {}
        self._effects: dict[str, Tagged] = {}
        self._transforms: list[Tagged] = []
        self._keys: dict[str, KeyRegistration] = {}
        self._tools: list[TaggedTool] = []
        self._plugins: dict[str, Plugin] = {}

    def phase_hook(self, phase: Phase, handler: Handler) -> None:
        """Call `handler` in this phase of every round."""
        tagged = self._tagged("phase hook", phase, handler)
        if phase not in PHASES:
            raise EnvBuild(f"plugin {self._plugin}: there is no phase {phase!r}; there are {', '.join(PHASES)}")
        if self._counts:
            self._hooks[phase].append(tagged)

    def scheduled_action(self, name: str, handler: Handler) -> None:
        """Let `handler` do the actions of this name."""
        self._once(self._actions, name, "action handler")
        self._actions[name] = self._tagged("action handler", name, handler)

    def effect(self, name: str, handler: Handler) -> None:
        """Let `handler` have the effects of this name."""
        self._once(self._effects, name, "effect handler")
        self._effects[name] = self._tagged("effect handler", name, handler)

    def request_transform(self, handler: Handler) -> None:
        """Change what a model is asked, after the transforms that were registered before."""
        tagged = self._tagged("request transform", "", handler)
        if self._counts:
            self._transforms.append(tagged)

    def key(self, name: str, *, is_profile: bool = False) -> None:
        """Keep something in the run's state under this key."""
        self._once(self._keys, name, "state key")
        self._keys[name] = KeyRegistration(plugin=self._plugin, key=name, is_profile=is_profile)

    def tool(self, tool: Tool) -> None:
        """Offer a tool."""
        self._open()
        try:
            offered = check_tool(tool)
        except UnusableTool as error:
            raise EnvBuild(f"plugin {self._plugin}: {error}") from error
        if self._counts:
            self._tools.append(TaggedTool(self._plugin, offered.descriptor, offered.tool))

    def take(self, plugin_id: str, plugin: Plugin, *, counts: bool) -> None:
        """Let a plugin register; of one that is filtered out only what others may rely on counts.

        Args:
            plugin_id: The id that it was asked for by; what the plugin itself says now may be something else.
            plugin: The plugin.
            counts: False for one that is filtered out.
        """
        if plugin_id in self._plugins:
            raise EnvBuild(f"plugin {plugin_id} already installed")
        self._plugins[plugin_id] = plugin
        self._plugin, self._counts, self._is_open = plugin_id, counts, True
        try:
            returned: object = plugin.register(self)  # type: ignore[func-returns-value]
        except EnvBuild:
            raise
        except (Exception, SystemExit) as error:
            raise EnvBuild(f"plugin {plugin_id}: {describe_exception(error)}") from error
        finally:
            self._is_open = False
        if inspect.isawaitable(returned):
            _close_coroutine(returned)
            raise EnvBuild(f"plugin {plugin_id}: `register` must not be asynchronous")

    def env(self) -> ExecutionEnv:
        """All of it."""
        return ExecutionEnv(
            phase_hooks=MappingProxyType({phase: tuple(hooks) for phase, hooks in self._hooks.items() if hooks}),
            scheduled_actions=MappingProxyType(dict(self._actions)),
            effects=MappingProxyType(dict(self._effects)),
            request_transforms=tuple(self._transforms),
            keys=tuple(self._keys.values()),
            tools=tuple(self._tools),
            plugins=tuple(self._plugins.values()),
            plugin_ids=tuple(self._plugins),
        )

    def _open(self) -> None:
        """A plugin that keeps the registrar must not change what a run was given."""
        if not self._is_open:
            raise EnvBuild(f"plugin {self._plugin}: it registers after `register` has returned")

    def _tagged(self, what: str, name: str, handler: Handler) -> Tagged:
        self._open()
        if not callable(handler):
            raise EnvBuild(f"plugin {self._plugin}: {what}{f' {name!r}' if name else ''} cannot be called")
        return Tagged(self._plugin, handler)

    def _once(self, known: Mapping[str, Any], name: object, what: str) -> None:
        self._open()
        if not isinstance(name, str) or not name:
            raise EnvBuild(f"plugin {self._plugin}: {what} {name!r} has no name")
        if name in known:
            raise EnvBuild(
                f"{what} '{name}' of plugin {self._plugin} already registered by plugin {known[name].plugin}"
            )


def schemas_of(plugin_id: str, plugin: Plugin) -> tuple[ConfigSchema, ...]:
    """The sections that a plugin reads.

    Raises:
        EnvBuild: It does not say so in the form that it promised when it was registered.
    """
    try:
        declare = getattr(plugin, "config_schemas", None)
        declared: tuple[object, ...] = tuple(declare()) if declare else ()
    except (Exception, SystemExit) as error:
        raise EnvBuild(f"plugin {plugin_id}: {describe_exception(error)}") from error
    schemas = tuple(each for each in declared if isinstance(each, ConfigSchema) and _is_sound(each.key, each.schema))
    if len(schemas) < len(declared):
        raise EnvBuild(f"plugin {plugin_id}: `config_schemas` must return ConfigSchema values")
    return schemas


def _is_sound(key: object, schema: object) -> bool:
    return isinstance(key, str) and isinstance(schema, dict)


def _close_coroutine(returned: object) -> None:
    """End a coroutine that is not awaited, so that Python does not warn of it."""
    if inspect.iscoroutine(returned):
        returned.close()
