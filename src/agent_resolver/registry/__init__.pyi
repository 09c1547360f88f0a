from agent_resolver.registry.call import Call as Call, ledger_key as ledger_key
from agent_resolver.registry.compiled_schema import (
    compile_schema as compile_schema,
    schema_faults as schema_faults,
)
from agent_resolver.registry.content import content_of as content_of
from agent_resolver.registry.errors import (
    AnswerRefused as AnswerRefused,
    NeedsAction as NeedsAction,
    ToolFailure as ToolFailure,
    ToolIdConflict as ToolIdConflict,
    UnusableTool as UnusableTool,
)
from agent_resolver.registry.inbox import MAX_WORDS as MAX_WORDS, Inbox as Inbox
from agent_resolver.registry.ledger import Ledger as Ledger
from agent_resolver.registry.linear_regex import (
    compile_linear_regex as compile_linear_regex,
)
from agent_resolver.registry.manifest import (
    descriptors_of as descriptors_of,
    manifest_of as manifest_of,
)
from agent_resolver.registry.memory import (
    FixedClock as FixedClock,
    MemorySecrets as MemorySecrets,
    OpenSeal as OpenSeal,
)
from agent_resolver.registry.pending_actions import PendingActions as PendingActions
from agent_resolver.registry.pipeline import Pipeline as Pipeline, Ports as Ports
from agent_resolver.registry.port import Seal as Seal, Secrets as Secrets
from agent_resolver.registry.rate_limit import RateLimits as RateLimits
from agent_resolver.registry.registry import (
    RefusedTool as RefusedTool,
    ToolRegistry as ToolRegistry,
)
from agent_resolver.registry.secret import Secret as Secret, redacted as redacted
from agent_resolver.registry.source import Source as Source, owners_of as owners_of
from agent_resolver.registry.tool import (
    CallContext as CallContext,
    HasSourceSecrets as HasSourceSecrets,
    Tool as Tool,
)
from agent_resolver.registry.worker_identity import WorkerIdentity as WorkerIdentity
from agent_resolver.schema.descriptor import (
    Descriptor as Descriptor,
    Labels as Labels,
    Rules as Rules,
)
from agent_resolver.schema.outcome import (
    Done as Done,
    Failed as Failed,
    FailureCode as FailureCode,
    Outcome as Outcome,
    Pending as Pending,
)
