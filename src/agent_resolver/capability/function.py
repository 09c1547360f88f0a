"""Typed Python functions as tools."""

import asyncio
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, Generic, ParamSpec, TypeVar

from agent_resolver.capability.declaration import Declaration, descriptor_of, unsafe_declaration
from agent_resolver.capability.errors import UnsafeCapability
from agent_resolver.capability.isolated import Isolated, target_of
from agent_resolver.capability.signature import Signature, signature_of
from agent_resolver.capability.tool_schema import faults_of_example
from agent_resolver.capability.type_adapter import Typed, typed
from agent_resolver.capability.type_library import Undecodable
from agent_resolver.capability.unsafe import Unsafe, UnsafeCode
from agent_resolver.registry.compiled_schema import compile_schema
from agent_resolver.registry.errors import ToolFailure
from agent_resolver.registry.tool import CallContext
from agent_resolver.schema.classification import Classification
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.outcome import FailureCode
from agent_resolver.schema.pending import Priority

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def capability(  # noqa: PLR0913 - each is a word of the declaration
    capability_id: str,
    /,
    *,
    examples: Sequence[Mapping[str, Any]],
    classification: Classification = "INTERNAL",
    scopes: Sequence[str] = (),
    idempotent: bool = False,
    read_only: bool = False,
    secrets: Sequence[str] = (),
    domain: str | None = None,
    subdomain: str = "",
    tags: Sequence[str] = (),
    maintainer: str = "",
    allow_outbound: bool = False,
    cost_factor: float | None = None,
    approval: bool | None = None,
    approver_role: str = "approver",
    priority: Priority = "P4",
    timeout_seconds: float = 60.0,
    rate_limit_per_minute: float | None = None,
    isolated: bool | None = None,
    description: str | None = None,
) -> Callable[[Callable[Parameters, Result]], "Capability[Parameters, Result]"]:
    """Offer a function as a tool: `f(request: T) -> R`, or `f(request: T, context: CallContext) -> R`, async or not.

    Args:
        capability_id: Two or more words with dots between; the first is its domain.
        examples: Whole arguments that a caller could give; at least one.
        classification: How sensitive its data is.
        scopes: What the caller must hold.
        idempotent: Whether doing it twice under one key is doing it once.
        read_only: Whether it changes nothing.
        secrets: The secrets that it is given, by name: `context.secrets["NAME"].reveal()`.
        allow_outbound: Whether it reaches other machines.
        approval: Whether somebody must approve each call; left out, exactly where it is RESTRICTED.
        timeout_seconds: How long a call may take. Nothing stops a function that is not async and not isolated: when
            its time is up, nobody waits for it any longer.
        isolated: Whether each call runs in a process of its own, which is killed when its time is up and sees only
            the secrets declared here; left out, exactly where it is RESTRICTED.
        description: What it does, for people and models; left out, its docstring.

    Raises:
        UnsafeCapability: It cannot be a tool; every reason is told.
    """
    is_restricted = classification == "RESTRICTED"
    declaration = Declaration(
        id=capability_id,
        examples=tuple(examples),
        classification=classification,
        scopes=scopes,
        idempotent=idempotent,
        read_only=read_only,
        secrets=secrets,
        domain=domain,
        subdomain=subdomain,
        tags=tags,
        maintainer=maintainer,
        allow_outbound=allow_outbound,
        cost_factor=cost_factor,
        approval=is_restricted if approval is None else approval,
        approver_role=approver_role,
        priority=priority,
        timeout_seconds=timeout_seconds,
        rate_limit_per_minute=rate_limit_per_minute,
        isolated=is_restricted if isolated is None else isolated,
        description=description,
    )
    return lambda function: Capability(function, declaration)


class Capability(Generic[Parameters, Result]):
    """A function that is a tool, and can still be called as the function that it is."""

    descriptor: Descriptor

    def __init__(self, function: Callable[Parameters, Result], declaration: Declaration) -> None:
        signature, found = signature_of(function)
        description = declaration.description if declaration.description is not None else inspect.getdoc(function) or ""
        found = [*unsafe_declaration(declaration, description), *found]
        target, unsafe = target_of(function) if declaration.isolated else (None, [])
        found += unsafe
        request, result = _types_of(signature, found)
        if request:
            found += _unsafe_examples(declaration.examples, request)
        if found or signature is None or request is None or result is None:
            raise UnsafeCapability(declaration.id, _where(function), found)
        functools.update_wrapper(self, function)
        self.descriptor = descriptor_of(
            declaration, description, request.schema, result.schema, f"module {function.__module__}"
        )
        self._function: Callable[..., Any] = function
        self._takes_context = signature.takes_context
        self._is_async = signature.is_async
        self._decode, self._encode = request.decode, result.encode
        self._run = Isolated(declaration.id, target, declaration.secrets).run if target else self.run_here

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        """Call the function itself: nothing is checked, and nothing is recorded."""
        result: Result = self._function(*args, **kwargs)
        return result

    def __repr__(self) -> str:
        return f"<capability {self.descriptor.id}>"

    async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Any:  # noqa: ANN401 - a JSON value
        """Do it, in a process of its own where it was declared so.

        Raises:
            ToolFailure: It did not work, in a way that is foreseen.
            NeedsAction: It cannot start before a person has done something.
        """
        return await self._run(arguments, context)

    def faults_in(self, arguments: dict[str, Any]) -> tuple[str, ...]:
        """What keeps arguments that follow the schema from being a value of the type, each with its place."""
        return _faults_in(arguments, self._decode)

    async def run_here(self, arguments: dict[str, Any], context: CallContext) -> Any:  # noqa: ANN401 - a JSON value
        """Do it in this process."""
        try:
            request = self._decode(arguments)
        except Undecodable as error:
            message = f"The arguments do not follow the schema of {self.descriptor.id}: {error}"
            remedy = f"see `agent tools show {self.descriptor.id}`"
            raise ToolFailure(FailureCode.INPUT_VALIDATION_FAILED, message, remedy) from None
        given = (request, context) if self._takes_context else (request,)
        if self._is_async:
            result = await self._function(*given)
        else:
            result = await asyncio.to_thread(_called, self._function, given)
        try:
            return self._encode(result)
        except (TypeError, ValueError, RecursionError) as error:
            message = f"{self.descriptor.id} gave `{type(result).__name__}`, which is no JSON ({type(error).__name__})"
            remedy = "it may have done its work all the same: look before you call it again"
            raise ToolFailure(FailureCode.OUTPUT_VALIDATION_FAILED, message, remedy) from None


def capabilities_of(module: ModuleType) -> tuple[Capability[..., Any], ...]:
    """Every capability among the attributes of a module, by id."""
    found = {id(value): value for value in vars(module).values() if isinstance(value, Capability)}
    return tuple(sorted(found.values(), key=lambda each: each.descriptor.id))


def _types_of(signature: Signature | None, found: list[Unsafe]) -> tuple[Typed | None, Typed | None]:
    if signature is None:
        return None, None
    request, unsafe_request = typed(signature.request, "input", (signature.name,))
    result, unsafe_result = typed(signature.result, "output", ("return",))
    found += [*unsafe_request, *unsafe_result]
    return request, result


def _unsafe_examples(examples: Sequence[Any], request: Typed) -> list[Unsafe]:
    shape = compile_schema(request.schema)
    found = []
    for place, example in enumerate(examples):
        faults = faults_of_example(shape, example) or _faults_in(example, request.decode)
        found += [Unsafe(at=("examples", place), code=UnsafeCode.INVALID_EXAMPLE, message=each) for each in faults]
    return found


def _faults_in(arguments: dict[str, Any], decode: Callable[[dict[str, Any]], Any]) -> tuple[str, ...]:
    try:
        decode(arguments)
    except Undecodable as error:
        return error.faults
    except Exception as error:  # noqa: BLE001 - a class may have code of its own
        return (f"(arguments): {type(error).__name__}",)
    return ()


def _where(function: Callable[..., Any]) -> str:
    return f"{getattr(function, '__module__', '?')}:{getattr(function, '__qualname__', type(function).__name__)}"


def _called(function: Callable[..., Any], given: tuple[Any, ...]) -> Any:  # noqa: ANN401 - whatever it returns
    try:
        return function(*given)
    except StopIteration as stop:  # A future cannot carry it: whoever waits would wait for ever.
        raise RuntimeError("it raised StopIteration") from stop
