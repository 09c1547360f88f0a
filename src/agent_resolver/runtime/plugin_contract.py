"""What a plugin must be like, looked at when it is registered and not when it is needed."""

import inspect
from collections.abc import Iterator
from typing import Final

from agent_resolver.core.count import counted
from agent_resolver.runtime.default_plugin import DEFAULT_PLUGINS
from agent_resolver.runtime.errors import InvalidPlugin
from agent_resolver.runtime.plugin import ConfigSchema, Plugin
from agent_resolver.schema.foreign_error import describe_exception

_TAKES: Final = {
    "register": 1,
    "config_schemas": 0,
    "bind": 1,
    "on_activate": 2,
    "on_deactivate": 1,
}
"""How many arguments each method of a plugin is called with."""
_AT_ONCE: Final = {"register", "config_schemas"}
"""The methods that are called while a plan is made, where nothing is awaited."""


def check_plugin(plugin: object) -> Plugin:
    """The plugin, if it keeps the contract.

    Raises:
        InvalidPlugin: With every reason why it does not.
    """
    try:
        plugin_id = getattr(plugin, "id", None)
        faults = [
            *_id_faults(plugin_id),
            *_method_faults(plugin),
            *_schema_faults(plugin),
        ]
    except (Exception, SystemExit) as error:
        raise InvalidPlugin(
            type(plugin).__name__, [describe_exception(error)]
        ) from error
    if faults or not isinstance(plugin, Plugin):
        raise InvalidPlugin(str(plugin_id or type(plugin).__name__), faults)
    return plugin


def _id_faults(plugin_id: object) -> Iterator[str]:
    if not isinstance(plugin_id, str) or not plugin_id:
        yield "it has no `id`"
    elif not plugin_id.isprintable():
        yield "its `id` holds characters that cannot be printed"
    elif plugin_id in DEFAULT_PLUGINS:
        yield f"`{plugin_id}` is the id of a plugin that the runtime brings"


def _method_faults(plugin: object) -> Iterator[str]:
    # A class has the methods as well, and would fail only when one of them is called.
    if isinstance(plugin, type):
        yield "it is a class, not a plugin made of it"
        return
    for name, takes in _TAKES.items():
        method = getattr(plugin, name, None)
        if method is None:
            if name == "register":
                yield "it has no method `register`"
        elif not callable(method):
            yield f"`{name}` is not a method"
        elif not _takes_arguments(method, takes):
            yield f"`{name}` must take {counted(takes, 'argument')}"
        elif name in _AT_ONCE and inspect.iscoroutinefunction(method):
            yield f"`{name}` must not be asynchronous"


def _takes_arguments(method: object, count: int) -> bool:
    try:
        # Binding tells whether the call would fit, without making it.
        inspect.signature(method).bind(*range(count))  # type: ignore[arg-type]
    except TypeError:
        return False
    except ValueError:
        return True  # Some built-in functions do not tell.
    return True


def _schema_faults(plugin: object) -> Iterator[str]:
    declare = getattr(plugin, "config_schemas", None)
    # Only a method that can be called is: what is wrong with any other is reported with
    # the methods.
    is_asked = (
        callable(declare)
        and not isinstance(plugin, type)
        and _takes_arguments(declare, 0)
    )
    if not is_asked or inspect.iscoroutinefunction(declare):
        return
    declared = declare()  # type: ignore[misc]
    if not isinstance(declared, list | tuple):
        yield "`config_schemas` must return a list"
        return
    for schema in declared:
        if isinstance(schema, ConfigSchema):
            yield from _schema_fault(schema)
        else:
            yield "`config_schemas` must return ConfigSchema values"


def _schema_fault(declared: ConfigSchema) -> Iterator[str]:
    from agent_resolver.registry.compiled_schema import compile_schema

    if not declared.key:
        yield "a schema has no section"
    try:
        compile_schema(declared.schema)
    except (TypeError, ValueError) as error:
        yield f'the schema of section "{declared.key}" is not a schema: {error}'
