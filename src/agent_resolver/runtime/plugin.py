"""Plugins: what they may register, and what a run is given of it."""

import inspect
from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, Protocol, get_args, runtime_checkable

import msgspec
from msgspec import Struct

from agent_resolver.registry.errors import UnusableTool
from agent_resolver.registry.tool import Tool
from agent_resolver.runtime.errors import EnvBuild, ToolIdConflict
from agent_resolver.runtime.hook import Handler, Hook, Phase, Transform
from agent_resolver.runtime.state_key import (
    KEY_SCOPES,
    MERGE_RULES,
    KeyRegistration,
    KeyScope,
    MergeRule,
    fits_rule,
    initial_values,
)
from agent_resolver.runtime.tool_contract import KeptDescriptors, check_tool
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.foreign_error import describe_exception
from agent_resolver.schema.frozen import freeze_fields

PHASES: Final[tuple[Phase, ...]] = get_args(Phase)
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class ConfigSchema(Struct, frozen=True):
    """What a section of a spec must look like."""

    key: str
    schema: dict[str, Any]

    def __post_init__(self) -> None:
        freeze_fields(self, "schema")


class TaggedHook(Struct, frozen=True):
    """A hook, and the plugin that registered it."""

    plugin: str
    call: Hook


class TaggedHandler(Struct, frozen=True):
    """A handler of actions or effects, and the plugin that registered it."""

    plugin: str
    call: Handler


class TaggedTransform(Struct, frozen=True):
    """A transform of requests, and the plugin that registered it."""

    plugin: str
    call: Transform


class TaggedTool(Struct, frozen=True, gc=False):
    """A tool that a plugin registered, with its descriptor as it was then."""

    plugin: str
    descriptor: Descriptor
    tool: Tool


@runtime_checkable
class Plugin(Protocol):
    """Adds behaviour to an agent.

    It may also have these methods, each plain or asynchronous but for the first:

    - `config_schemas()` returns the sections of a spec that it reads.
    - `bind(run)` is given the run's `RunFacts` before anything else happens in a run.
    - `on_activate(spec, state)` starts its part of a run; `state` takes updates of its keys.
    - `on_deactivate(state)` ends its part, also after a failure; plugins end in reverse order.
    """

    @property
    def id(self) -> str:
        """What specs call it."""
        ...

    def register(self, registrar: "Registrar") -> None:
        """Declare hooks, handlers, transforms, keys and tools; called for every plan."""
        ...


class ActivePlugin(Struct, frozen=True):
    """A plugin of a plan, under the id that the spec has for it: what the plugin itself says may change."""

    id: str
    plugin: Plugin


class ExecutionEnv(Struct, frozen=True, kw_only=True, dict=True):
    """All that the plugins of one plan registered; shared between plans only where all are the runtime's own."""

    phase_hooks: Mapping[Phase, tuple[TaggedHook, ...]]
    scheduled_action_handlers: Mapping[str, TaggedHandler]
    effect_handlers: Mapping[str, TaggedHandler]
    request_transforms: tuple[TaggedTransform, ...]
    key_registrations: tuple[KeyRegistration, ...]
    tools: Mapping[str, TaggedTool]
    """By id."""
    plugins: tuple[ActivePlugin, ...]
    """In the order in which they start."""

    @cached_property
    def key_defaults(self) -> Mapping[str, Any]:
        """The values that state keys begin with: made once for all runs that share the env."""
        return initial_values(self.key_registrations)


class SharedParts(Struct, frozen=True, eq=False):
    """Handlers and keys that are the same in every plan: they are made once, and no run holds copies of them."""

    actions: Mapping[str, TaggedHandler]
    keys: tuple[KeyRegistration, ...]


class Registrar:
    """Takes what one plugin after the other registers."""

    def __init__(self, known: KeptDescriptors | None = None) -> None:
        """Begin with nothing.

        Args:
            known: The descriptors of tools that were registered for earlier plans.
        """
        self._known = KeptDescriptors() if known is None else known
        self._plugin = ""
        self._counts = False
        self._is_open = False
        self._hooks: dict[Phase, list[TaggedHook]] = {phase: [] for phase in PHASES}
        self._actions: dict[str, TaggedHandler] = {}
        self._effects: dict[str, TaggedHandler] = {}
        self._transforms: list[TaggedTransform] = []
        self._keys: dict[str, KeyRegistration] = {}
        self._tools: dict[str, TaggedTool] = {}
        self._clashes: dict[str, str] = {}
        """The first plugin that offers a tool whose id another plugin has, by that id."""
        self._plugins: dict[str, Plugin] = {}
        self._shared = SharedParts({}, ())

    def share(self, parts: SharedParts) -> None:
        """Take handlers of actions and state keys as they are."""
        # Every name is checked before anything is taken, so that a clash leaves no half
        # of the parts behind.
        for name in parts.actions:
            self._once(self._actions, name, "action handler")
        for key in parts.keys:
            self._once(self._keys, key.key, "state key")
        self._actions.update(parts.actions)
        self._keys.update({key.key: key for key in parts.keys})
        self._shared = parts

    def phase_hook(self, phase: Phase, hook: Hook) -> None:
        """Call `hook` in this phase of every round, with the context of the phase."""
        self._require_callable("phase hook", phase, hook)
        if phase not in PHASES:
            raise EnvBuild(
                f"plugin {self._plugin}: there is no phase {phase!r}; there are {', '.join(PHASES)}"
            )
        # A hook of a plugin that is filtered out is checked like any other, and then
        # left out.
        if self._counts:
            self._hooks[phase].append(TaggedHook(self._plugin, hook))

    def scheduled_action(self, name: str, handler: Handler) -> None:
        """Let `handler` carry out the actions of this name; it is given the context and the payload."""
        self._once(self._actions, name, "action handler")
        self._require_callable("action handler", name, handler)
        self._actions[name] = TaggedHandler(self._plugin, handler)

    def effect(self, name: str, handler: Handler) -> None:
        """Let `handler` carry out the effects of this name; it is given the context and the payload."""
        self._once(self._effects, name, "effect handler")
        self._require_callable("effect handler", name, handler)
        self._effects[name] = TaggedHandler(self._plugin, handler)

    def request_transform(self, transform: Transform) -> None:
        """Change what a model is asked, after the transforms that were registered before."""
        self._require_callable("request transform", "", transform)
        if self._counts:
            self._transforms.append(TaggedTransform(self._plugin, transform))

    def key(
        self,
        name: str,
        *,
        merge: MergeRule = "exclusive",
        scope: KeyScope = "run",
        default: Any = None,  # noqa: ANN401 - a JSON value
    ) -> None:
        """Keep something in the run's state under this key.

        Args:
            name: The key, which no other plugin may have.
            merge: What becomes of an update.
            scope: How long the value lives.
            default: The value before the first update: a JSON value.
        """
        self._once(self._keys, name, "state key")
        if merge not in MERGE_RULES or scope not in KEY_SCOPES:
            problem = f"merge must be one of {', '.join(MERGE_RULES)}, and scope one of {', '.join(KEY_SCOPES)}"
            raise EnvBuild(f"plugin {self._plugin}: state key {name!r}: {problem}")
        checked = _frozen_default(self._plugin, name, default)
        if not fits_rule(merge, checked):
            raise EnvBuild(
                f"plugin {self._plugin}: the default of state key {name!r} does not fit its rule `{merge}`"
            )
        self._keys[name] = KeyRegistration(
            plugin=self._plugin, key=name, merge=merge, scope=scope, default=checked
        )

    def tool(self, tool: Tool) -> None:
        """Offer a tool."""
        self._open()
        try:
            offered = check_tool(tool, known=self._known)
        except UnusableTool as error:
            raise EnvBuild(f"plugin {self._plugin}: {error}") from error
        if not self._counts:
            return
        tagged = TaggedTool(self._plugin, offered.descriptor, offered.tool)
        # Clashes are kept until all plugins have registered: which one is reported must
        # not depend on their order.
        if self._tools.setdefault(offered.descriptor.id, tagged) is not tagged:
            self._clashes.setdefault(offered.descriptor.id, self._plugin)

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
        self._plugin = plugin_id
        self._counts = counts
        self._is_open = True
        try:
            returned: object = plugin.register(self)  # type: ignore[func-returns-value]
        except EnvBuild:
            # Its message names the plugin already.
            raise
        except (Exception, SystemExit) as error:
            raise EnvBuild(
                f"plugin {plugin_id}: {describe_exception(error)}"
            ) from error
        finally:
            self._is_open = False
        # An asynchronous `register` has done nothing yet, and would be dropped without
        # a word.
        if inspect.isawaitable(returned):
            _close_coroutine(returned)
            raise EnvBuild(f"plugin {plugin_id}: `register` must not be asynchronous")

    def env(self) -> ExecutionEnv:
        """All of it.

        Raises:
            ToolIdConflict: Two plugins offer a tool of one id, or one offers it twice; with the smallest such id.
        """
        if self._clashes:
            tool_id = min(self._clashes)
            first, second = (
                f"plugin {self._tools[tool_id].plugin}",
                f"plugin {self._clashes[tool_id]}",
            )
            raise ToolIdConflict(
                tool_id,
                first,
                second,
                f"rename one of them: {first} has it, and {second} has it",
            )
        # Most plans add nothing to what all share, and thousands of runs may wait at
        # once.
        shared = self._shared
        actions = (
            shared.actions
            if len(self._actions) == len(shared.actions)
            else self._actions
        )
        keys = (
            shared.keys
            if len(self._keys) == len(shared.keys)
            else tuple(self._keys.values())
        )
        effects = MappingProxyType(self._effects) if self._effects else _NOTHING
        tools = MappingProxyType(self._tools) if self._tools else _NOTHING
        return ExecutionEnv(
            phase_hooks=MappingProxyType(
                {phase: tuple(hooks) for phase, hooks in self._hooks.items() if hooks}
            ),
            scheduled_action_handlers=MappingProxyType(actions),
            effect_handlers=effects,
            request_transforms=tuple(self._transforms),
            key_registrations=keys,
            tools=tools,
            plugins=tuple(
                ActivePlugin(plugin_id, plugin)
                for plugin_id, plugin in self._plugins.items()
            ),
        )

    def _open(self) -> None:
        """A plugin that keeps the registrar must not change what a run was given."""
        if not self._is_open:
            raise EnvBuild(
                f"plugin {self._plugin}: it registers after `register` has returned"
            )

    def _require_callable(self, what: str, name: str, handler: object) -> None:
        self._open()
        if not callable(handler):
            shown = f" {name!r}" if name else ""
            raise EnvBuild(f"plugin {self._plugin}: {what}{shown} cannot be called")

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
    # The plugin was checked when it was registered, and may return something else now.
    schemas = tuple(
        each
        for each in declared
        if isinstance(each, ConfigSchema) and _is_sound(each.key, each.schema)
    )
    if len(schemas) < len(declared):
        raise EnvBuild(
            f"plugin {plugin_id}: `config_schemas` must return ConfigSchema values"
        )
    return schemas


def _frozen_default(plugin_id: str, key: str, default: Any) -> Any:  # noqa: ANN401 - a JSON value
    """A copy of the default, so that no run can change it for the next.

    Raises:
        EnvBuild: It is not a JSON value.
    """
    try:
        return msgspec.json.decode(msgspec.json.encode(default))
    except (TypeError, ValueError, RecursionError) as error:
        raise EnvBuild(
            f"plugin {plugin_id}: the default of state key {key!r} is not a JSON value"
        ) from error


def _is_sound(key: object, schema: object) -> bool:
    return isinstance(key, str) and isinstance(schema, dict)


def _close_coroutine(returned: object) -> None:
    """End a coroutine that is not awaited, so that Python does not warn of it."""
    if inspect.iscoroutine(returned):
        returned.close()
