"""A plugin is looked at when it is registered, and every fault of it is told."""

from collections.abc import Callable
from typing import Any

import pytest

from agent_resolver.runtime import DEFAULT_PLUGINS, ConfigSchema, InvalidPlugin, Registrar, check_plugin
from tests.runtime.sample import MemoryPlugin


def nothing(*_: Any) -> None:
    """Do nothing."""


async def later(*_: Any) -> None:
    """Do nothing, later."""


class Made:
    """An object with these members."""

    def __init__(self, **members: Any) -> None:
        self.__dict__.update(members)


def made(**members: Any) -> Made:
    return Made(**{"id": "p", "register": nothing, **members})


class Whole:
    """A plugin with everything that one may have."""

    id = "whole"

    def register(self, registrar: Registrar) -> None:
        registrar.key("whole")

    def config_schemas(self) -> tuple[ConfigSchema, ...]:
        return (ConfigSchema("whole", {"type": "object"}),)

    def bind(self, context: object) -> None: ...

    async def on_activate(self, spec: object, state: object) -> None: ...

    async def on_deactivate(self, state: object, *_: object) -> None: ...


@pytest.mark.parametrize("plugin", [Whole(), MemoryPlugin("p"), made(), made(config_schemas=list), made(bind=None)])
def test_what_keeps_the_contract_is_taken(plugin: object) -> None:
    assert check_plugin(plugin) is plugin


def boom(*_: Any) -> Any:
    raise RuntimeError("boom")


@pytest.mark.parametrize(
    ("plugin", "expected"),
    [
        (object(), ["it has no `id`", "it has no method `register`"]),
        (Made(id=""), ["it has no `id`", "it has no method `register`"]),
        (made(id=5), ["it has no `id`"]),
        (made(id="a\nb"), ["its `id` holds characters that cannot be printed"]),
        (Whole, ["it is a class, not a plugin made of it"]),
        (made(register=1), ["`register` is not a method"]),
        (made(register=lambda: None), ["`register` must take 1 argument"]),
        (made(register=later), ["`register` must not be asynchronous"]),
        (
            made(register=lambda: None, config_schemas=lambda _: [], bind=5, on_activate=lambda: None),
            [
                "`register` must take 1 argument",
                "`config_schemas` must take 0 arguments",
                "`bind` is not a method",
                "`on_activate` must take 2 arguments",
            ],
        ),
        (made(config_schemas=later), ["`config_schemas` must not be asynchronous"]),
        (made(config_schemas=dict), ["`config_schemas` must return a list"]),
        (made(config_schemas=lambda: [{"key": "x"}]), ["`config_schemas` must return ConfigSchema values"]),
        (made(config_schemas=lambda: [ConfigSchema("", {})]), ["a schema has no section"]),
        (made(config_schemas=boom), ["RuntimeError: boom"]),
    ],
)
def test_every_fault_of_what_does_not_is_told(plugin: object, expected: list[str]) -> None:
    with pytest.raises(InvalidPlugin) as caught:
        check_plugin(plugin)

    assert list(caught.value.faults) == expected
    assert str(caught.value) == f"plugin '{caught.value.plugin_id}' cannot be used: {'; '.join(expected)}"


@pytest.mark.parametrize("schema", [{"type": "nothing"}, {"$ref": "https://schemas.example/x"}, [], 5])
def test_what_is_no_schema_is_told(schema: Any) -> None:
    with pytest.raises(InvalidPlugin, match='the schema of section "x" is not a schema'):
        check_plugin(made(config_schemas=lambda: [ConfigSchema("x", schema)]))


@pytest.mark.parametrize("plugin_id", sorted(DEFAULT_PLUGINS))
def test_the_ids_of_our_own_plugins_are_taken(plugin_id: str) -> None:
    with pytest.raises(InvalidPlugin, match=f"`{plugin_id}` is the id of a plugin that the runtime brings"):
        check_plugin(made(id=plugin_id))


def test_an_id_that_cannot_be_asked_for_is_told() -> None:
    class Hidden:
        @property
        def id(self) -> str:
            raise SystemExit("never")

        register: Callable[..., None] = nothing

    with pytest.raises(InvalidPlugin) as caught:
        check_plugin(Hidden())

    assert str(caught.value) == "plugin 'Hidden' cannot be used: SystemExit: never"
