"""Typed Python functions as tools."""

import asyncio
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, Generic, ParamSpec, TypeVar

from msgspec import structs

from agent_resolver.capability.declaration import (
    Declaration,
    descriptor_of,
    unique_words,
    unsafe_declaration,
)
from agent_resolver.capability.errors import UnsafeCapability
from agent_resolver.capability.given_up import TooManyGivenUp
from agent_resolver.capability.isolated import Isolated, target_of
from agent_resolver.capability.loaded_source import (
    code_digest,
    loaded_sources,
    sources_of,
)
from agent_resolver.capability.naming import domain_of
from agent_resolver.capability.signature import Signature, signature_of
from agent_resolver.capability.tool_schema import faults_of_example
from agent_resolver.capability.type_adapter import Typed, typed
from agent_resolver.capability.type_library import Undecodable
from agent_resolver.capability.unsafe import Unsafe, UnsafeCode
from agent_resolver.capability.worker_loop import worker_loop
from agent_resolver.capability.worker_thread import Pace, worker_threads
from agent_resolver.registry.compiled_schema import compile_schema
from agent_resolver.registry.errors import ToolFailure
from agent_resolver.registry.tool import CallContext, Progress
from agent_resolver.schema.classification import Classification
from agent_resolver.schema.descriptor import Descriptor, Labels, Rules
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
    secret_fields: Sequence[str] = (),
    domain: str | None = None,
    subdomain: str = "",
    tags: Sequence[str] = (),
    maintainer: str = "",
    allow_outbound: bool = False,
    hosts: Sequence[str] = (),
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
        scopes: The scopes that the caller must hold, all of them.
        idempotent: True if two calls under one key have the effect of one.
        read_only: True if it changes nothing.
        secrets: The names of the secrets that it is given: `context.secrets["NAME"].reveal()`.
        secret_fields: The names of fields, of its arguments and results, whose values no approver sees and no trail
            keeps. Fields that the schema marks `writeOnly` are hidden without being named here.
        domain: Its domain, which the id says already; any other is refused.
        subdomain: A finer word than its domain.
        tags: Words to find it by; its domain is always among them.
        maintainer: The person or team that looks after it.
        allow_outbound: True if it reaches other machines; left out, exactly where it declares `hosts`.
        hosts: The names or addresses of the machines that it reaches, without ports; left out, they are not known.
        cost_factor: How expensive a call is, compared with others.
        approval: True if each call must be approved; left out, exactly where it is RESTRICTED.
        approver_role: The role that an approver must have.
        priority: How soon a question for approval expires; P1 is the soonest.
        timeout_seconds: How long a call may take. A function that is not isolated cannot be stopped: when its time is
            up, the call fails, and the function runs on unless it is async and lets itself be cancelled.
        rate_limit_per_minute: How often it may be called in a minute; left out, there is no limit.
        isolated: True if each call runs in a process of its own, which is killed when its time is up and sees only
            the secrets declared here; left out, exactly where it is RESTRICTED.
        description: What it does, for people and models; left out, its docstring.

    Raises:
        UnsafeCapability: It cannot be a tool; the error has every reason.
    """
    is_restricted = classification == "RESTRICTED"
    needs_approval = is_restricted if approval is None else approval
    is_isolated = is_restricted if isolated is None else isolated
    declaration = Declaration(
        id=capability_id,
        domain=domain,
        description=description,
        is_read_only=read_only,
        timeout_seconds=timeout_seconds,
        rate_limit_per_minute=rate_limit_per_minute,
        word_lists={
            "scopes": scopes,
            "tags": tags,
            "secrets": secrets,
            "secret_fields": secret_fields,
            "hosts": hosts,
            "approver_role": [approver_role],
        },
        rules=Rules(
            required_scopes=unique_words(scopes),
            classification=classification,
            needs_approval=needs_approval,
            approver_role=approver_role,
            priority=priority,
            is_idempotent=idempotent,
            secrets=unique_words(secrets),
            secret_fields=unique_words(secret_fields),
            is_isolated=is_isolated,
        ),
        labels=Labels(
            kind="CAPABILITY",
            domain=domain_of(capability_id),
            subdomain=subdomain,
            tags=unique_words((domain_of(capability_id), *tags)),
            maintainer=maintainer,
            allow_outbound=allow_outbound or bool(hosts),
            hosts=unique_words([str(host).lower() for host in hosts]),
            cost_factor=cost_factor,
            examples=tuple(examples),
        ),
    )
    return lambda function: Capability(function, declaration)


class Capability(Generic[Parameters, Result]):
    """A function that is a tool, and can still be called as the function that it is."""

    descriptor: Descriptor
    request_type: Typed
    """The type of its arguments."""

    def __init__(
        self, function: Callable[Parameters, Result], declaration: Declaration
    ) -> None:
        description = _description_of(function, declaration.description)
        signature, unsafe_signature = signature_of(function)
        target, unsafe_target = (
            target_of(function) if declaration.rules.is_isolated else (None, [])
        )
        request, result, unsafe_types = _types_of(
            signature, needs_notes=not declaration.is_plain
        )
        unsafe_examples = (
            _unsafe_examples(declaration.labels.examples, request) if request else []
        )
        found = [
            *unsafe_declaration(declaration, description),
            *unsafe_signature,
            *unsafe_target,
            *unsafe_types,
            *unsafe_examples,
        ]
        if found or signature is None or request is None or result is None:
            raise UnsafeCapability(declaration.id, _qualified_name(function), found)
        functools.update_wrapper(self, function)
        self._sources = sources_of(function)
        self.descriptor = descriptor_of(
            declaration,
            description,
            request.schema,
            result.schema,
            source=f"module {function.__module__}",
            code=code_digest(self._sources) if self._sources else "",
        )
        self.request_type = request
        self._function: Callable[..., Any] = function
        self._takes_context = signature.takes_context
        self._is_async = signature.is_async
        self._pace = Pace()
        self._encode = result.encode
        self._run = self.run_here
        if target is not None:
            self._run = Isolated(
                declaration.id, target, declaration.rules.secrets, self._sources
            ).run

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        """Call the function itself: nothing is checked and nothing is recorded."""
        result: Result = self._function(*args, **kwargs)
        return result

    def __repr__(self) -> str:
        return f"<capability {self.descriptor.id}>"

    async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Any:  # noqa: ANN401 - a JSON value
        """Call the function with JSON arguments, in a process of its own where it was declared so.

        Raises:
            ToolFailure: The call failed in a foreseen way.
            NeedsAction: A person must do something before the call can start.
        """
        return await self._run(arguments, context)

    def changed_file(self) -> str | None:
        """The file of its code that changed on disk since it was loaded; None if none did."""
        return loaded_sources.changed_file(self._sources)

    def faults_in(self, arguments: dict[str, Any]) -> tuple[str, ...]:
        """The reasons why arguments that follow the schema are not a value of the type, each with its place."""
        return _decoding_faults(arguments, self.request_type)

    async def run_here(self, arguments: dict[str, Any], context: CallContext) -> Any:  # noqa: ANN401 - a JSON value
        """Call the function with JSON arguments in another thread of this process."""
        if self._takes_context:
            progress = _report_from_other_thread(
                context.progress, asyncio.get_running_loop()
            )
            context = structs.replace(context, progress=progress)
        given = self._decode(arguments, context)
        try:
            if self._is_async:
                result = await worker_loop.run(self._function, *given)
            else:
                result = await worker_threads.run(self._pace, self._function, *given)
        except TooManyGivenUp as too_many:
            message = f"{self.descriptor.id} is not called: {too_many.count} calls run on although their time is up"
            remedy = (
                "find out which tools end with TIMEOUT, and start the command again"
            )
            raise ToolFailure(FailureCode.SERVER_UNAVAILABLE, message, remedy) from None
        return self._encode_result(result)

    def run_alone(self, arguments: dict[str, Any], context: CallContext) -> Any:  # noqa: ANN401 - a JSON value
        """Call the function with JSON arguments in this thread, which must have no event loop."""
        result = self._function(*self._decode(arguments, context))
        return self._encode_result(asyncio.run(result) if self._is_async else result)

    def _decode(
        self, arguments: dict[str, Any], context: CallContext
    ) -> tuple[Any, ...]:
        """The arguments of the function."""
        try:
            request = self.request_type.decode(arguments)
        except Undecodable as error:
            message = f"The arguments do not follow the schema of {self.descriptor.id}: {error}"
            remedy = f"see `agent tools show {self.descriptor.id}`"
            raise ToolFailure(
                FailureCode.INPUT_VALIDATION_FAILED,
                message,
                remedy,
                details=error.faults,
            ) from None
        return (request, context) if self._takes_context else (request,)

    def _encode_result(self, result: Any) -> Any:  # noqa: ANN401 - any result
        try:
            return self._encode(result)
        except (TypeError, ValueError, RecursionError) as error:
            given = type(result).__name__
            why = type(error).__name__
            message = f"{self.descriptor.id} gave `{given}`, which is not JSON ({why})"
            remedy = (
                "it may have done its work all the same: look before you call it again"
            )
            raise ToolFailure(
                FailureCode.OUTPUT_VALIDATION_FAILED, message, remedy
            ) from None


def capabilities_of(module: ModuleType) -> tuple[Capability[..., Any], ...]:
    """Every capability among the attributes of a module, sorted by id."""
    found = {
        id(value): value
        for value in vars(module).values()
        if isinstance(value, Capability)
    }
    return tuple(sorted(found.values(), key=lambda each: each.descriptor.id))


def _description_of(function: Callable[..., Any], stated: str | None) -> str:
    """The stated description; the docstring of the function where none is stated."""
    if stated is not None:
        return stated
    return inspect.getdoc(function) or ""


def _types_of(
    signature: Signature | None, *, needs_notes: bool
) -> tuple[Typed | None, Typed | None, list[Unsafe]]:
    """The types of the request and the result, and all that is not safe about them."""
    if signature is None:
        return None, None, []
    request, unsafe_request = typed(
        signature.request, "input", (signature.name,), needs_notes=needs_notes
    )
    result, unsafe_result = typed(
        signature.result, "output", ("return",), needs_notes=needs_notes
    )
    return request, result, [*unsafe_request, *unsafe_result]


def _unsafe_examples(examples: Sequence[Any], request: Typed) -> list[Unsafe]:
    schema = compile_schema(request.schema)
    found = []
    for place, example in enumerate(examples):
        faults = faults_of_example(schema, example) or _decoding_faults(
            example, request
        )
        found += [
            Unsafe(
                at=("examples", place), code=UnsafeCode.INVALID_EXAMPLE, message=each
            )
            for each in faults
        ]
    return found


def _decoding_faults(arguments: dict[str, Any], request: Typed) -> tuple[str, ...]:
    try:
        request.decode(arguments)
    except Undecodable as error:
        return error.faults
    except Exception as error:  # noqa: BLE001 - a class may have code of its own
        return (f"(arguments): {type(error).__name__}",)
    return ()


def _qualified_name(function: Callable[..., Any]) -> str:
    # It may be anything that an author put the decorator on, so it need not have the
    # attributes of a function.
    module, name = (
        getattr(function, "__module__", "?"),
        getattr(function, "__qualname__", type(function).__name__),
    )
    return f"{module}:{name}"


def _report_from_other_thread(
    progress: Progress, home: asyncio.AbstractEventLoop
) -> Progress:
    """Reports progress on the loop of the caller, from whichever thread the function runs in."""

    async def report_at_home(
        done: float, total: float | None, message: str | None
    ) -> None:
        await progress(done, total, message)

    async def report(
        done: float, total: float | None = None, message: str | None = None
    ) -> None:
        if not home.is_closed():
            reported = asyncio.run_coroutine_threadsafe(
                report_at_home(done, total, message), home
            )
            await asyncio.wrap_future(reported)

    return report
