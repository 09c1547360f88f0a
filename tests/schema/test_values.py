"""What holds for every value of the room."""

import importlib
import pkgutil

import pytest
from msgspec import Struct

from agent_resolver import schema

MODULES = [
    importlib.import_module(f"{schema.__name__}.{module.name}") for module in pkgutil.iter_modules(schema.__path__)
]
VALUES = sorted(
    {
        value
        for module in MODULES
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Struct) and value.__module__ == module.__name__
    },
    key=lambda value: (value.__module__, value.__name__),
)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: str(value.__name__))
def test_a_public_value_is_frozen(value: type[Struct]) -> None:
    assert value.__struct_config__.frozen or value.__name__.startswith("_")
