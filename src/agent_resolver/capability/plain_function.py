"""Plain typed functions as tools: what their signatures and docstrings say, and the strictest rules for the rest."""

import inspect
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from agent_resolver.capability.declaration import Declaration
from agent_resolver.capability.errors import UnsafeCapability
from agent_resolver.capability.function import Capability
from agent_resolver.capability.type_adapter import typed
from agent_resolver.capability.unsafe import Unsafe, UnsafeCode
from agent_resolver.registry.tool import CallContext
from agent_resolver.schema.descriptor import Labels, Rules

_BY_NAME: Final = (
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.KEYWORD_ONLY,
)
_RULES: Final = Rules(classification="CONFIDENTIAL")
"""The most that needs neither an approval nor a process of its own, because the author said nothing about the data."""
_LABELS: Final = Labels(kind="CAPABILITY", allow_outbound=True)
"""Nothing promises that it stays on the machine."""


def tool_of(function: Callable[..., Any], tool_id: str = "") -> "FunctionTool":
    """A plain typed function as a tool.

    Its parameters are the arguments, its docstring says what it does, and a result that is not an object is given as
    `{"result": …}`. A parameter of type `CallContext` is given the context of the call, and is not an argument.

    What `@capability` would declare is not said, so the tool counts as one that changes something, reaches other
    machines, may not be tried again, gets no secrets, and has CONFIDENTIAL data: its caller needs that clearance.

    Args:
        function: The function or method; async or not.
        tool_id: The id of the tool; left out, the name of the function.

    Raises:
        UnsafeCapability: It cannot be a tool; the error has every reason.
    """
    name = getattr(function, "__name__", type(function).__name__)
    declaration = Declaration(
        id=tool_id or name,
        domain=None,
        description=None,
        is_plain=True,
        is_read_only=False,
        timeout_seconds=60.0,
        rate_limit_per_minute=None,
        word_lists={},
        rules=_RULES,
        labels=_LABELS,
    )
    found = list(_unsafe_function(function))
    if found:
        module = getattr(function, "__module__", "?")
        qualified = getattr(function, "__qualname__", name)
        raise UnsafeCapability(declaration.id, f"{module}:{qualified}", found)
    return FunctionTool(function, declaration)


class FunctionTool(Capability[..., Any]):
    """A plain function that is a tool, and can still be called as the function that it is."""

    def __init__(self, function: Callable[..., Any], declaration: Declaration) -> None:
        super().__init__(_with_one_request(function), declaration)
        self._plain = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the function
        """Call the function itself: nothing is checked and nothing is recorded."""
        return self._plain(*args, **kwargs)


def _unsafe_function(function: Callable[..., Any]) -> Iterator[Unsafe]:
    if not isinstance(function, types.FunctionType | types.MethodType):
        yield Unsafe(
            code=UnsafeCode.BAD_SIGNATURE,
            message="it is not a function: write one with typed parameters",
        )
        return
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        yield Unsafe(
            code=UnsafeCode.BAD_SIGNATURE,
            message="it yields many results, and a call has one",
        )
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind not in _BY_NAME:
            message = (
                "it is not given by its name: write each parameter as `name: type`"
            )
            yield Unsafe(
                at=(name,), code=UnsafeCode.VARIADIC_PARAMETERS, message=message
            )
        if parameter.annotation is parameter.empty:
            message = "its type is not said: annotate it"
            yield Unsafe(
                at=(name,), code=UnsafeCode.MISSING_ANNOTATION, message=message
            )
    if "return" not in function.__annotations__:
        yield Unsafe(
            at=("return",),
            code=UnsafeCode.MISSING_ANNOTATION,
            message="its type is not said: annotate it",
        )
        return
    yield from _unsafe_annotations(function)


def _unsafe_annotations(function: Callable[..., Any]) -> Iterator[Unsafe]:
    try:
        _request_type(function)
    except Exception as error:  # noqa: BLE001 - an annotation is code, and may raise anything
        message = f"its parameters cannot be arguments ({error}): import their types at the top of the module"
        yield Unsafe(code=UnsafeCode.UNRESOLVED_ANNOTATION, message=message)


def _with_one_request(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as a capability is written: with one request, a context, and an object as its result."""
    request_type, context_name = _request_type(function)
    names = request_type.__struct_fields__
    result_type, is_wrapped = _result_type(
        typing.get_type_hints(function, include_extras=True)["return"]
    )

    def arguments_of(request: Any, context: CallContext) -> dict[str, Any]:  # noqa: ANN401 - of the type made above
        given = {name: getattr(request, name) for name in names}
        return {**given, context_name: context} if context_name else given

    def give(result: Any) -> Any:  # noqa: ANN401 - as the function
        return result_type(result=result) if is_wrapped else result

    async def call_async(request: Any, context: CallContext) -> Any:  # noqa: ANN401 - as the function
        return give(await function(**arguments_of(request, context)))

    def call(request: Any, context: CallContext) -> Any:  # noqa: ANN401 - as the function
        return give(function(**arguments_of(request, context)))

    adapter = call_async if inspect.iscoroutinefunction(function) else call
    adapter.__annotations__ = {
        "request": request_type,
        "context": CallContext,
        "return": result_type,
    }
    # `functools.wraps` would keep the annotations too, which have just been replaced.
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(adapter, name, getattr(function, name))
    return adapter


def _request_type(function: Callable[..., Any]) -> tuple[type[msgspec.Struct], str]:
    """The parameters as the fields of one type, and the name of the parameter that is given the context."""
    hints = typing.get_type_hints(function, include_extras=True)
    fields: list[Any] = []
    context_name = ""
    for name, parameter in inspect.signature(function).parameters.items():
        if hints[name] is CallContext:
            context_name = name
        elif parameter.default is parameter.empty:
            fields.append((name, hints[name]))
        else:
            fields.append((name, hints[name], parameter.default))
    made = msgspec.defstruct(
        "Arguments",
        fields,
        kw_only=True,
        frozen=True,
        forbid_unknown_fields=True,
        module=function.__module__,
    )
    return made, context_name


def _result_type(annotation: Any) -> tuple[Any, bool]:  # noqa: ANN401 - a type
    """The type of the result, and whether it had to be put into an object."""
    _, found = typed(annotation, "output", ("return",), needs_notes=False)
    # A type with another fault is left as it is: the check of every capability reports it.
    if [each.code for each in found] != [UnsafeCode.NOT_AN_OBJECT]:
        return annotation, False
    return msgspec.defstruct(
        "Result", [("result", annotation)], kw_only=True, frozen=True
    ), True
