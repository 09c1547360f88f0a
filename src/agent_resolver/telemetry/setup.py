"""Telemetry, where the standard variables ask for it."""

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from agent_resolver.telemetry.errors import TelemetryMissing
from agent_resolver.telemetry.setting import read_settings

if TYPE_CHECKING:
    from agent_resolver.telemetry.call import CallTelemetry


def open_telemetry(
    environment: Mapping[str, str],
    *,
    app_id: str,
    warn: Callable[[str], None] | None = None,
) -> "CallTelemetry | None":
    """Telemetry of calls as the `OTEL_*` variables ask for it; None where they do not.

    OpenTelemetry itself reads what is not decided here, such as time limits, compression, certificates and sizes of
    batches, from the environment of the process.

    Args:
        app_id: What runs the tools, for callers whose token does not name a program.
        warn: Told once, in one sentence, when telemetry does not get to its collector; else standard error is.

    Raises:
        InvalidVariable: A variable asks for what there is not.
        TelemetryMissing: The extra `telemetry` is not installed.
    """
    settings = read_settings(environment)
    if settings is None:
        return None
    # The import is slow, and works only with the extra, so it waits until telemetry is
    # asked for.
    try:
        from agent_resolver.telemetry.provider import provide
    except ModuleNotFoundError as error:
        # Any other module that is missing is a fault in an installation, and must not
        # pass for the missing extra.
        if (error.name or "").partition(".")[0] != "opentelemetry":
            raise
        raise TelemetryMissing(settings.variable) from error
    return provide(settings, app_id, warn or _to_standard_error)


def _to_standard_error(message: str) -> None:
    sys.stderr.write(f"warning: {message}\n")
