"""The signature of a function: the types that it takes and returns."""

import inspect
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any, Final

from msgspec import Struct

from agent_resolver.capability.unsafe import Unsafe, UnsafeCode
from agent_resolver.registry.tool import CallContext

_SHAPE: Final = "write it as `def f(request: T) -> R`, or `def f(request: T, context: CallContext) -> R`"
_VARIADIC: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_POSITIONAL: Final = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)


class Signature(Struct, frozen=True, kw_only=True):
    """The signature of a function that can be a tool."""

    name: str
    """The name of its first parameter."""
    request: Any
    result: Any
    takes_context: bool
    is_async: bool


def signature_of(function: Callable[..., Any]) -> tuple[Signature | None, list[Unsafe]]:
    """The signature of a function, or the reasons why it cannot be a tool."""
    if not isinstance(function, types.FunctionType):
        return None, [
            Unsafe(
                code=UnsafeCode.BAD_SIGNATURE, message=f"it is no function: {_SHAPE}"
            )
        ]
    parameters = list(inspect.signature(function).parameters.values())
    found = list(_unsafe_parameters(function, parameters))
    if found:
        return None, found
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception as error:  # noqa: BLE001 - an annotation is code, and may raise anything
        message = (
            f"an annotation names nothing that is there ({error}): import it, or "
            "define it at the top of the module"
        )
        return None, [Unsafe(code=UnsafeCode.UNRESOLVED_ANNOTATION, message=message)]
    if len(parameters) > 1 and hints[parameters[1].name] is not CallContext:
        message = f"its second parameter is no `CallContext`: {_SHAPE}"
        return None, [
            Unsafe(
                at=(parameters[1].name,), code=UnsafeCode.BAD_SIGNATURE, message=message
            )
        ]
    signature = Signature(
        name=parameters[0].name,
        request=hints[parameters[0].name],
        result=hints["return"],
        takes_context=len(parameters) > 1,
        is_async=inspect.iscoroutinefunction(function),
    )
    return signature, []


def _unsafe_parameters(
    function: types.FunctionType, parameters: list[inspect.Parameter]
) -> Iterator[Unsafe]:
    for parameter in parameters:
        if parameter.kind in _VARIADIC:
            message = f"what it takes has no names: {_SHAPE}"
            yield Unsafe(
                at=(parameter.name,),
                code=UnsafeCode.VARIADIC_PARAMETERS,
                message=message,
            )
        elif (
            parameter.kind not in _POSITIONAL
            or parameter.default is not parameter.empty
        ):
            message = f"it is for its name only, or has a default: {_SHAPE}"
            yield Unsafe(
                at=(parameter.name,), code=UnsafeCode.BAD_SIGNATURE, message=message
            )
        if parameter.annotation is parameter.empty:
            message = "its type is not said: annotate it"
            yield Unsafe(
                at=(parameter.name,),
                code=UnsafeCode.MISSING_ANNOTATION,
                message=message,
            )
    if "return" not in function.__annotations__:
        yield Unsafe(
            at=("return",),
            code=UnsafeCode.MISSING_ANNOTATION,
            message="its type is not said: annotate it",
        )
    if not 1 <= len(parameters) <= 2:  # noqa: PLR2004
        yield Unsafe(
            code=UnsafeCode.BAD_SIGNATURE,
            message=f"it takes {len(parameters)} parameters: {_SHAPE}",
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        yield Unsafe(
            code=UnsafeCode.BAD_SIGNATURE,
            message=f"it yields many results, and a call has one: {_SHAPE}",
        )
