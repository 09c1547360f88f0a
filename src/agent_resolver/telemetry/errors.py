"""The errors of telemetry before it begins; later, none of its errors ends a call.

ResolverError
└── TelemetryError
    ├── InvalidVariable     an `OTEL_*` variable asks for what there is not
    └── TelemetryMissing    what sends telemetry is not installed
"""

from agent_resolver.schema.errors import ResolverError


class TelemetryError(ResolverError):
    """Telemetry was asked for, and there can be none."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class InvalidVariable(TelemetryError):
    """An `OTEL_*` variable asks for what there is not; its value may be a secret and is never told."""

    def __init__(self, variable: str, problem: str, hint: str) -> None:
        super().__init__(f"`{variable}` {problem}", hint)
        self.variable = variable


class TelemetryMissing(TelemetryError):
    """The packages that send telemetry are not installed."""

    def __init__(self, variable: str) -> None:
        super().__init__(
            f"`{variable}` asks for telemetry, which is not installed",
            "pip install 'agent-resolver[telemetry]', or set `OTEL_SDK_DISABLED=true`",
        )
        self.variable = variable
