from agent_resolver.schema.agent_file import (
    ActionConstraints as ActionConstraints,
    AgentFile as AgentFile,
    Constraints as Constraints,
    DataConstraints as DataConstraints,
    Limits as Limits,
    Requirement as Requirement,
    Requires as Requires,
    TrustConstraints as TrustConstraints,
    find_in_agent_file as find_in_agent_file,
    front_matter_issues as front_matter_issues,
    limits_in as limits_in,
    limits_in_front_matter as limits_in_front_matter,
    parse_agent_file as parse_agent_file,
    read_agent_file as read_agent_file,
    trust_contradictions as trust_contradictions,
)
from agent_resolver.schema.artifact_path import (
    agent_path_of as agent_path_of,
    explanation_path_of as explanation_path_of,
    lock_path_of as lock_path_of,
    report_path_of as report_path_of,
)
from agent_resolver.schema.audit import (
    CONTENT as CONTENT,
    AuditKind as AuditKind,
    AuditRecord as AuditRecord,
    Head as Head,
    Record as Record,
    Seal as Seal,
)
from agent_resolver.schema.blueprint import (
    MAX_ITEMS as MAX_ITEMS,
    MAX_STEPS as MAX_STEPS,
    MAX_UNBATCHED_ITEMS as MAX_UNBATCHED_ITEMS,
    AcceptanceTest as AcceptanceTest,
    Blueprint as Blueprint,
    BlueprintMetadata as BlueprintMetadata,
    Compensation as Compensation,
    Dag as Dag,
    ForEach as ForEach,
    HumanRequirement as HumanRequirement,
    Retry as Retry,
    SecurityLogic as SecurityLogic,
    Step as Step,
    StepId as StepId,
    Tuning as Tuning,
    Wait as Wait,
    WaitKind as WaitKind,
)
from agent_resolver.schema.blueprint_file import (
    BlueprintReading as BlueprintReading,
    blueprint_bytes as blueprint_bytes,
    blueprint_digest as blueprint_digest,
    encode_blueprint as encode_blueprint,
    parse_blueprint as parse_blueprint,
    read_blueprint as read_blueprint,
)
from agent_resolver.schema.caller import (
    ANONYMOUS as ANONYMOUS,
    CONTEXT_CLAIMS as CONTEXT_CLAIMS,
    Caller as Caller,
    local_caller as local_caller,
)
from agent_resolver.schema.canonical_digest import digest as digest
from agent_resolver.schema.classification import (
    CLASSIFICATION_RANK as CLASSIFICATION_RANK,
    Classification as Classification,
)
from agent_resolver.schema.conflict import (
    Conflict as Conflict,
    find_conflict as find_conflict,
)
from agent_resolver.schema.descriptor import (
    Descriptor as Descriptor,
    Labels as Labels,
    ManifestTool as ManifestTool,
    Rules as Rules,
    ToolChangeKind as ToolChangeKind,
    change_rules as change_rules,
    definition_digest as definition_digest,
)
from agent_resolver.schema.errors import (
    EditedManifest as EditedManifest,
    InvalidAgentFile as InvalidAgentFile,
    InvalidBlueprint as InvalidBlueprint,
    InvalidDefinitions as InvalidDefinitions,
    InvalidEvalReport as InvalidEvalReport,
    InvalidEvalSet as InvalidEvalSet,
    InvalidEvidence as InvalidEvidence,
    InvalidIndex as InvalidIndex,
    InvalidInput as InvalidInput,
    InvalidLockfile as InvalidLockfile,
    InvalidManifest as InvalidManifest,
    InvalidOverlay as InvalidOverlay,
    InvalidWorkflow as InvalidWorkflow,
    ResolverError as ResolverError,
)
from agent_resolver.schema.eval_report import (
    AnsweredStep as AnsweredStep,
    CaseResult as CaseResult,
    EvalAnswer as EvalAnswer,
    EvalReport as EvalReport,
    Score as Score,
    SortScore as SortScore,
    encode_eval_report as encode_eval_report,
    parse_eval_report as parse_eval_report,
)
from agent_resolver.schema.eval_set import (
    EvalCase as EvalCase,
    EvalSet as EvalSet,
    EvalSetReading as EvalSetReading,
    Expectation as Expectation,
    ExpectedStep as ExpectedStep,
    parse_eval_set as parse_eval_set,
    read_eval_set as read_eval_set,
    require_known_tools as require_known_tools,
)
from agent_resolver.schema.evidence import (
    CertifiedPlan as CertifiedPlan,
    TaskEvidence as TaskEvidence,
    evidence_digest as evidence_digest,
    evidence_json as evidence_json,
    parse_evidence as parse_evidence,
)
from agent_resolver.schema.explanation import (
    AppliedConstraints as AppliedConstraints,
    Edit as Edit,
    EditKind as EditKind,
    Explanation as Explanation,
    FailedRequirement as FailedRequirement,
    Reason as Reason,
    Rejection as Rejection,
    RejectionCode as RejectionCode,
    RequirementExplanation as RequirementExplanation,
    Selection as Selection,
    Suggestion as Suggestion,
)
from agent_resolver.schema.foreign_error import describe_exception as describe_exception
from agent_resolver.schema.format_schema import (
    FORMATS as FORMATS,
    json_schema as json_schema,
)
from agent_resolver.schema.front_matter import Document as Document, split as split
from agent_resolver.schema.frozen import (
    freeze as freeze,
    freeze_fields as freeze_fields,
)
from agent_resolver.schema.golden_context import (
    Environment as Environment,
    GoldenContext as GoldenContext,
    Incident as Incident,
)
from agent_resolver.schema.golden_path import (
    MAX_ANSWER as MAX_ANSWER,
    MAX_INTENT as MAX_INTENT,
    MAX_MESSAGE as MAX_MESSAGE,
    MAX_SUMMARY as MAX_SUMMARY,
    Answer as Answer,
    Artifact as Artifact,
    ArtifactStatus as ArtifactStatus,
    ArtifactType as ArtifactType,
    DecisionRecord as DecisionRecord,
    GoldenPathState as GoldenPathState,
    IntentKind as IntentKind,
    InvalidState as InvalidState,
    Stage as Stage,
    TaskAction as TaskAction,
    TaskState as TaskState,
    checked as checked,
    decision as decision,
    decode_state as decode_state,
    encode_state as encode_state,
)
from agent_resolver.schema.governing_key import (
    ALLOW_LISTS as ALLOW_LISTS,
    DENY_LISTS as DENY_LISTS,
    TOOL_LISTS as TOOL_LISTS,
    governing_faults as governing_faults,
    governing_key_faults as governing_key_faults,
)
from agent_resolver.schema.index import (
    OVERLAY_NAME as OVERLAY_NAME,
    UNVERSIONED as UNVERSIONED,
    Index as Index,
    IndexEntry as IndexEntry,
    Launch as Launch,
    Server as Server,
    ServerData as ServerData,
    ServerPolicy as ServerPolicy,
    ServerTrust as ServerTrust,
    server_of as server_of,
)
from agent_resolver.schema.index_edit import (
    entry_documents as entry_documents,
    with_entries as with_entries,
)
from agent_resolver.schema.index_fast import (
    BATCH as BATCH,
    is_surely_clean as is_surely_clean,
)
from agent_resolver.schema.index_reader import (
    parse_index as parse_index,
    read_index as read_index,
    unremarkable_index as unremarkable_index,
)
from agent_resolver.schema.index_tree import (
    entry_spans as entry_spans,
    entry_trees as entry_trees,
)
from agent_resolver.schema.issue import (
    Issue as Issue,
    IssueCode as IssueCode,
    Severity as Severity,
    only_errors as only_errors,
    only_warnings as only_warnings,
)
from agent_resolver.schema.json_reader import read_json as read_json
from agent_resolver.schema.json_tree import (
    parse_json as parse_json,
    parse_json_at as parse_json_at,
)
from agent_resolver.schema.kept_definition import (
    DEFINITIONS_NAME as DEFINITIONS_NAME,
    parse_definitions as parse_definitions,
)
from agent_resolver.schema.ledger import (
    Begun as Begun,
    Ending as Ending,
    LedgerEntry as LedgerEntry,
    Start as Start,
)
from agent_resolver.schema.limit import (
    MAX_AGENT_FILE_BYTES as MAX_AGENT_FILE_BYTES,
    MAX_DEPTH as MAX_DEPTH,
    MAX_FRONT_MATTER_CHARACTERS as MAX_FRONT_MATTER_CHARACTERS,
    MAX_INTEGER_DIGITS as MAX_INTEGER_DIGITS,
    MAX_LOCKFILE_BYTES as MAX_LOCKFILE_BYTES,
    MAX_WORKFLOW_BYTES as MAX_WORKFLOW_BYTES,
    MAX_WORKFLOW_HEADING as MAX_WORKFLOW_HEADING,
    MAX_WORKFLOW_STEPS as MAX_WORKFLOW_STEPS,
    MAX_WORKFLOW_TEXT as MAX_WORKFLOW_TEXT,
)
from agent_resolver.schema.lockfile import (
    LockedServer as LockedServer,
    Lockfile as Lockfile,
    is_newer as is_newer,
    is_ours as is_ours,
    parse_lockfile as parse_lockfile,
    to_json as to_json,
)
from agent_resolver.schema.manifest import (
    Manifest as Manifest,
    is_manifest as is_manifest,
    manifest_digest as manifest_digest,
    parse_manifest as parse_manifest,
)
from agent_resolver.schema.mention import (
    Mention as Mention,
    code_spans as code_spans,
    find_mentions as find_mentions,
    without_mentions as without_mentions,
)
from agent_resolver.schema.outcome import (
    Done as Done,
    Failed as Failed,
    FailureCode as FailureCode,
    Outcome as Outcome,
    Pending as Pending,
)
from agent_resolver.schema.overlay import (
    NO_OVERLAY as NO_OVERLAY,
    Overlay as Overlay,
    OverlayFacts as OverlayFacts,
    parse_overlay as parse_overlay,
    read_overlay as read_overlay,
)
from agent_resolver.schema.pending import (
    CLAIM_NEED as CLAIM_NEED,
    PendingAction as PendingAction,
    PendingState as PendingState,
    PendingType as PendingType,
    Priority as Priority,
)
from agent_resolver.schema.planning import (
    AuditAdvice as AuditAdvice,
    CapabilityDraft as CapabilityDraft,
    Classified as Classified,
    Drafted as Drafted,
    Evaluation as Evaluation,
    Isolation as Isolation,
    PlanQuestion as PlanQuestion,
    PlanRequest as PlanRequest,
    RemedyRequest as RemedyRequest,
    Snippet as Snippet,
    TestResult as TestResult,
    Violation as Violation,
)
from agent_resolver.schema.source import (
    Lines as Lines,
    Unreadable as Unreadable,
    byte_order_mark_warning as byte_order_mark_warning,
    decode as decode,
    unreadable as unreadable,
)
from agent_resolver.schema.state import (
    ARTIFACTS as ARTIFACTS,
    FINISHED as FINISHED,
    JOURNAL as JOURNAL,
    LEASES as LEASES,
    LEDGER as LEDGER,
    PENDING as PENDING,
    PLANS as PLANS,
    RATES as RATES,
    RUNS as RUNS,
    SERVED as SERVED,
    TABLES as TABLES,
    THREADS as THREADS,
    WAITS as WAITS,
    WORKERS as WORKERS,
    ArtifactRow as ArtifactRow,
    JournalRow as JournalRow,
    LeaseRow as LeaseRow,
    PlanRow as PlanRow,
    RateUse as RateUse,
    Run as Run,
    RunStatus as RunStatus,
    ThreadRow as ThreadRow,
    WaitRow as WaitRow,
    WorkerRow as WorkerRow,
    WorkerState as WorkerState,
)
from agent_resolver.schema.table import (
    Table as Table,
    optional_columns as optional_columns,
)
from agent_resolver.schema.toml_tree import parse_toml as parse_toml, tree_of as tree_of
from agent_resolver.schema.tool_list import (
    is_tool_name as is_tool_name,
    tool_list_faults as tool_list_faults,
    tool_names as tool_names,
)
from agent_resolver.schema.tree import (
    EMPTY as EMPTY,
    Item as Item,
    Mapping as Mapping,
    Node as Node,
    Scalar as Scalar,
    Sequence as Sequence,
    find as find,
    kind as kind,
    located as located,
    plain as plain,
)
from agent_resolver.schema.vocabulary import (
    DECLARED_ORDER as DECLARED_ORDER,
    SENSITIVITY_RANK as SENSITIVITY_RANK,
    AgentName as AgentName,
    Endpoint as Endpoint,
    Identifier as Identifier,
    OptionalText as OptionalText,
    Residency as Residency,
    Sensitivity as Sensitivity,
    Text as Text,
)
from agent_resolver.schema.walker import suggestion as suggestion, walk as walk
from agent_resolver.schema.workflow import (
    SectionMention as SectionMention,
    Workflow as Workflow,
    WorkflowSection as WorkflowSection,
    WorkflowStep as WorkflowStep,
    WorkflowSteps as WorkflowSteps,
    parse_workflow as parse_workflow,
)
from agent_resolver.schema.yaml_tree import parse_yaml as parse_yaml
