"""Reads the standard `OTEL_*` variables.

An empty variable is one that is not set, as OpenTelemetry has it. It also says to go on with a default where a value is
not understood; here that is an error, since whoever set the variable would look for their telemetry in vain.
"""

import re
from collections.abc import Mapping
from typing import Final, Literal
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from agent_resolver.telemetry.attribute import SERVICE, SERVICE_NAME
from agent_resolver.telemetry.errors import InvalidVariable

Exporter = Literal["otlp", "console"]
Environment = Mapping[str, str]

SAMPLERS: Final = (
    "always_on",
    "always_off",
    "traceidratio",
    "parentbased_always_on",
    "parentbased_always_off",
    "parentbased_traceidratio",
)
_DISABLED: Final = "OTEL_SDK_DISABLED"
_OTLP: Final = "OTEL_EXPORTER_OTLP"
_PROTOCOL: Final = "http/protobuf"
_DEFAULT_ENDPOINT: Final = "http://localhost:4318"
_MAX_CHARACTERS: Final = 8_192
_MAX_PAIRS: Final = 128
_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class Signal(Struct, frozen=True, kw_only=True):
    """The collector of the spans, the metrics or the logs; none unless one is named."""

    exporters: tuple[Exporter, ...] = ()
    endpoint: str = ""
    """The whole address that they are sent to."""
    headers: dict[str, str] = {}
    """What is sent with them, secrets among it."""
    variable: str = ""
    """The variable that asks for them."""


class Settings(Struct, frozen=True, kw_only=True):
    """The signals to send, their collectors, the service that they are about, and the share of traces."""

    traces: Signal
    metrics: Signal
    logs: Signal
    resource: dict[str, str]
    """Who sends it."""
    sampler: str
    ratio: float
    """The part of all traces that is kept, where the sampler goes by it."""

    @property
    def variable(self) -> str:
        """A variable that asks for telemetry."""
        return next(
            signal.variable
            for signal in (self.traces, self.metrics, self.logs)
            if signal.exporters
        )


def read_settings(environment: Environment) -> Settings | None:
    """The settings in the variables; None if they ask for nothing.

    Raises:
        InvalidVariable: A variable asks for what there is not.
    """
    # OpenTelemetry takes only `true` for true, in any case of letters.
    if environment.get(_DISABLED, "").strip().lower() == "true":
        return None
    traces, metrics, logs = (
        _read_signal(environment, name) for name in ("TRACES", "METRICS", "LOGS")
    )
    if not (traces.exporters or metrics.exporters or logs.exporters):
        return None
    sampler, ratio = _read_sampling(environment)
    return Settings(
        traces=traces,
        metrics=metrics,
        logs=logs,
        resource=_read_resource(environment),
        sampler=sampler,
        ratio=ratio,
    )


def _read_variable(environment: Environment, variable: str) -> str:
    text = environment.get(variable, "").strip()
    if len(text) > _MAX_CHARACTERS:
        problem = f"has {len(text):,} characters, {_MAX_CHARACTERS:,} are the most"
        raise InvalidVariable(variable, problem, "give a shorter value")
    return text


def _read_for_signal(
    environment: Environment, signal: str, what: str
) -> tuple[str, str]:
    """The variable for a signal, else the one for all signals, with its value; empty if neither is set."""
    # The variable of the signal comes before the one for all signals.
    for variable in (f"{_OTLP}_{signal}_{what}", f"{_OTLP}_{what}"):
        if value := _read_variable(environment, variable):
            return variable, value
    return "", ""


def _read_signal(environment: Environment, name: str) -> Signal:
    exporters, variable = _read_exporters(environment, name)
    # Without a collector, its address, protocol and headers are not read, so faults in
    # them stop nothing.
    if "otlp" not in exporters:
        return Signal(exporters=exporters, variable=variable)
    asking, protocol = _read_for_signal(environment, name, "PROTOCOL")
    if protocol not in {"", _PROTOCOL}:
        raise InvalidVariable(
            asking,
            "asks for a protocol that is not supported",
            f"set it to `{_PROTOCOL}`",
        )
    return Signal(
        exporters=exporters,
        endpoint=_read_endpoint(environment, name),
        headers=_read_headers(environment, name),
        variable=variable,
    )


def _read_exporters(
    environment: Environment, name: str
) -> tuple[tuple[Exporter, ...], str]:
    variable = f"OTEL_{name}_EXPORTER"
    text = _read_variable(environment, variable)
    if not text:
        # By default, an address asks for the exporter that needs one.
        asking, endpoint = _read_for_signal(environment, name, "ENDPOINT")
        return (("otlp",) if endpoint else ()), asking
    found: list[Exporter] = []
    for word in (part.strip() for part in text.split(",")):
        # `none` says that nothing is sent, so beside an exporter it is refused like an
        # unknown word.
        if word == "none" and text == "none":
            return (), ""
        if word not in {"otlp", "console"}:
            hint = (
                "set it to `otlp`, `console`, both with a comma between them, or `none`"
            )
            raise InvalidVariable(
                variable, "names an exporter that is not supported", hint
            )
        found.append("otlp" if word == "otlp" else "console")
    return tuple(dict.fromkeys(found)), variable


def _read_endpoint(environment: Environment, name: str) -> str:
    variable, address = _read_for_signal(environment, name, "ENDPOINT")
    if not address:
        variable, address = f"{_OTLP}_ENDPOINT", _DEFAULT_ENDPOINT
    try:
        parts = urlsplit(address)
        # `port` is read from the text only here, and raises for one that is not a
        # number.
        is_address = (
            parts.scheme in {"http", "https"}
            and bool(parts.hostname)
            and parts.port != 0
        )
    except ValueError:
        is_address = False
    if not is_address:
        hint = f"set it to an address such as `{_DEFAULT_ENDPOINT}`"
        raise InvalidVariable(
            variable, "is no address that begins with http:// or https://", hint
        )
    # What is said for one signal is the whole address, what is said for all of them is
    # where theirs begin.
    is_whole = variable != f"{_OTLP}_ENDPOINT"
    return address if is_whole else f"{address.removesuffix('/')}/v1/{name.lower()}"


def _read_headers(environment: Environment, name: str) -> dict[str, str]:
    variable, text = _read_for_signal(environment, name, "HEADERS")
    # The SDK would write a header that it cannot read to its log, with its value.
    pairs = _parse_pairs(
        variable, text, "name=value,name=value, each value percent-encoded"
    )
    # A line break in a value would begin a header of its own.
    if not all(
        _HEADER.fullmatch(key) and value.isascii() and value.isprintable()
        for key, value in pairs.items()
    ):
        raise InvalidVariable(
            variable,
            "holds what cannot be a header",
            "percent-encode its values, in ASCII",
        )
    return {key.lower(): value for key, value in pairs.items()}


def _read_resource(environment: Environment) -> dict[str, str]:
    variable = "OTEL_RESOURCE_ATTRIBUTES"
    named = _parse_pairs(
        variable,
        _read_variable(environment, variable),
        "key=value,key=value, each value percent-encoded",
    )
    service = _read_variable(environment, "OTEL_SERVICE_NAME")
    # `OTEL_SERVICE_NAME` comes before a name among the attributes, as OpenTelemetry
    # says.
    return {
        SERVICE_NAME: SERVICE,
        **named,
        **({SERVICE_NAME: service} if service else {}),
    }


def _parse_pairs(variable: str, text: str, form: str) -> dict[str, str]:
    found = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = item.partition("=")
        if not key.strip() or not equals:
            raise InvalidVariable(variable, "is no list of pairs", f"write {form}")
        # Decoded after the split, so that an encoded comma or equals sign is a part of
        # the value.
        found[unquote(key.strip())] = unquote(value.strip())
    if len(found) > _MAX_PAIRS:
        raise InvalidVariable(
            variable,
            f"has {len(found)} pairs, {_MAX_PAIRS} are the most",
            "leave some out",
        )
    return found


def _read_sampling(environment: Environment) -> tuple[str, float]:
    variable = "OTEL_TRACES_SAMPLER"
    sampler = _read_variable(environment, variable).lower() or "parentbased_always_on"
    if sampler not in SAMPLERS:
        hint = f"set it to one of: {', '.join(SAMPLERS)}"
        raise InvalidVariable(variable, "names a sampler that is not supported", hint)
    if not sampler.endswith("traceidratio"):
        return sampler, 1.0
    variable = "OTEL_TRACES_SAMPLER_ARG"
    text = _read_variable(environment, variable) or "1"
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    # Text that is not a number comes here as -1, and `nan` fails the comparison as
    # well.
    if not 0 <= ratio <= 1:
        raise InvalidVariable(
            variable,
            "is no number from 0 to 1",
            "set it to the part to keep, such as `0.1`",
        )
    return sampler, ratio
