from agent_resolver.telemetry.call import (
    CallTelemetry as CallTelemetry,
    Signals as Signals,
)
from agent_resolver.telemetry.current_span import (
    current_traceparent as current_traceparent,
)
from agent_resolver.telemetry.ending import (
    Ending as Ending,
    ReasoningEnd as ReasoningEnd,
    ending_of as ending_of,
)
from agent_resolver.telemetry.errors import (
    InvalidVariable as InvalidVariable,
    TelemetryError as TelemetryError,
    TelemetryMissing as TelemetryMissing,
)
from agent_resolver.telemetry.log import (
    Entry as Entry,
    JsonLines as JsonLines,
    OtlpLog as OtlpLog,
)
from agent_resolver.telemetry.metric import (
    MOST_WAITING as MOST_WAITING,
    CallMetrics as CallMetrics,
    Kind as Kind,
)
from agent_resolver.telemetry.provider import Loss as Loss, hush_sdk as hush_sdk
from agent_resolver.telemetry.sampler import sampler_of as sampler_of
from agent_resolver.telemetry.setting import (
    SAMPLERS as SAMPLERS,
    Settings as Settings,
    read_settings as read_settings,
)
from agent_resolver.telemetry.setup import open_telemetry as open_telemetry
from agent_resolver.telemetry.shutdown import Closing as Closing, close_all as close_all
from agent_resolver.telemetry.trace_context import (
    Parent as Parent,
    format_parent as format_parent,
    parse_parent as parse_parent,
    parse_state as parse_state,
    parse_trace_id as parse_trace_id,
)
