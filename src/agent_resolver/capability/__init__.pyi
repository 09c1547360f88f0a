from agent_resolver.capability.certificate import (
    Certificate as Certificate,
    Check as Check,
    Finding as Finding,
    certify as certify,
    refused as refused,
)
from agent_resolver.capability.errors import UnsafeCapability as UnsafeCapability
from agent_resolver.capability.field_description import lacking_notes as lacking_notes
from agent_resolver.capability.function import (
    Capability as Capability,
    capabilities_of as capabilities_of,
    capability as capability,
)
from agent_resolver.capability.isolated import (
    Isolated as Isolated,
    prepare_calls as prepare_calls,
    target_of as target_of,
)
from agent_resolver.capability.isolated_message import MAX_LINE as MAX_LINE
from agent_resolver.capability.loaded_source import (
    LoadedSources as LoadedSources,
    ModuleSource as ModuleSource,
    code_digest as code_digest,
)
from agent_resolver.capability.plain_function import (
    FunctionTool as FunctionTool,
    tool_of as tool_of,
)
from agent_resolver.capability.prepared_process import (
    PreparedProcesses as PreparedProcesses,
)
from agent_resolver.capability.tool_schema import (
    DIALECT as DIALECT,
    is_json as is_json,
    meta_fault as meta_fault,
    normalised as normalised,
    unsafe_schema as unsafe_schema,
)
from agent_resolver.capability.type_adapter import Typed as Typed, typed as typed
from agent_resolver.capability.type_library import Undecodable as Undecodable
from agent_resolver.capability.unsafe import UnsafeCode as UnsafeCode
from agent_resolver.capability.worker_thread import Pace as Pace
