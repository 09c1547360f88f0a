"""Every name that spans, metrics and logs use, in the one place to change them.

The `gen_ai.*` names are not settled yet: see OpenTelemetry's conventions for generative AI.
"""

from typing import Final

SERVICE: Final = "agent-resolver"
"""What `service.name` is unless `OTEL_SERVICE_NAME` or `OTEL_RESOURCE_ATTRIBUTES` says otherwise."""
SCOPE: Final = "agent_resolver"
"""Who measures, in the words of OpenTelemetry: the instrumentation scope."""

# Resource

SERVICE_NAME: Final = "service.name"

# Attributes

APP_ID: Final = "golden.app_id"
COMPONENT_TYPE: Final = "golden.component_type"
CLASSIFICATION: Final = "golden.data_classification"
COST_CENTER: Final = "golden.cost_center"
INITIATOR_ID: Final = "golden.initiator_id"
VIA_ID: Final = "golden.via_id"
"""The worker that acts for the initiator, where one does."""
IS_COMPENSATION: Final = "golden.is_compensation"
OUTCOME: Final = "golden.outcome"
"""`DONE`, or the code of what happened instead."""
STAGE: Final = "golden.stage"
"""The stage of a task, such as `context_bind`."""
CALL_TRACE_ID: Final = "golden.trace_id"
"""The trace id that the call's outcome and audit records have, where its span had to go to its parent's trace."""

OPERATION: Final = "gen_ai.operation.name"
AGENT_NAME: Final = "gen_ai.agent.name"
WORKFLOW_NAME: Final = "gen_ai.workflow.name"
CONVERSATION_ID: Final = "gen_ai.conversation.id"
"""The id of the run, or of the task."""
PROVIDER_NAME: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_MODEL: Final = "gen_ai.response.model"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHED_INPUT_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
ERROR_TYPE: Final = "error.type"

# Values

MAX_CHARACTERS: Final = 256
"""The longest a name or code may be."""

EXECUTABLE: Final = "EXECUTABLE"
ORCHESTRATOR: Final = "ORCHESTRATOR"
"""The component of runs of blueprints."""
REASONER: Final = "REASONER"
"""The component of runs, of what they ask models, and of the stages of tasks."""
EXECUTE_TOOL: Final = "execute_tool"
"""The operation; a span is called this and the id of its tool."""
INVOKE_AGENT: Final = "invoke_agent"
"""The operation of a run; its span is called this and the id of the agent."""
INVOKE_WORKFLOW: Final = "invoke_workflow"
"""The operation of a segment of a blueprint's run; its span is called this and the id of the blueprint."""
INVOKE_STAGE: Final = "invoke_stage"
"""The operation of a stage of a task; its span is called this and the name of the stage."""
CHAT: Final = "chat"
"""The operation of one question to a model; its span is called this and the name of the model."""
FUNCTION: Final = "function"
EXTENSION: Final = "extension"
TOOL_TYPES: Final = {"CAPABILITY": FUNCTION, "BLUEPRINT": FUNCTION, "TOOL": EXTENSION}
"""The kinds of tools, in the words of OpenTelemetry: run by this process, or by a server that it asks."""
UNKNOWN_TOOL: Final = "_unknown"
"""Stands for every tool that there is not: whoever calls could make up any number of names."""
DONE: Final = "DONE"
WAITS: Final = "WAITS"
"""The outcome of a stage that a person has to do something for."""
OTHER_ERROR: Final = "_OTHER"
"""For an error that has no code."""

# Metrics: `golden_{component}_{name}`

CALLS: Final = "golden_executable_calls"
DURATION: Final = "golden_executable_duration"
STAGES: Final = "golden_reasoner_stages"
STAGE_DURATION: Final = "golden_reasoner_duration"
