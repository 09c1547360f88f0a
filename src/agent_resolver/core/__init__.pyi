from agent_resolver.core.admission import (
    AdmissionCode as AdmissionCode,
    Grant as Grant,
    Refused as Refused,
    forbidden as forbidden,
    grants_of as grants_of,
)
from agent_resolver.core.approval import (
    LIFETIME_MINUTES as LIFETIME_MINUTES,
    MAX_OPEN_QUESTIONS as MAX_OPEN_QUESTIONS,
    AnswerCode as AnswerCode,
    AnswerRefusal as AnswerRefusal,
    Verdict as Verdict,
    effects_of as effects_of,
    expiry as expiry,
    instant as instant,
    is_answered_by_worker as is_answered_by_worker,
    is_usable as is_usable,
    refuse_verdict as refuse_verdict,
    refuse_words as refuse_words,
)
from agent_resolver.core.audit import (
    anchored as anchored,
    chain_faults as chain_faults,
    chained as chained,
    extended as extended,
    had_root as had_root,
    is_sealed as is_sealed,
    new_seal as new_seal,
    rekeyed as rekeyed,
    resealed as resealed,
    sealed as sealed,
)
from agent_resolver.core.authorization import (
    acting_for as acting_for,
    is_cleared as is_cleared,
    is_expired as is_expired,
    is_own_run as is_own_run,
    is_requester as is_requester,
    may_read_action as may_read_action,
    may_read_all as may_read_all,
    may_read_record as may_read_record,
    may_read_run as may_read_run,
    may_see_action as may_see_action,
    may_see_run as may_see_run,
    may_use as may_use,
    missing_scopes as missing_scopes,
    narrowed as narrowed,
)
from agent_resolver.core.blueprint.acceptance import (
    ValueFaults as ValueFaults,
    run_acceptance_test as run_acceptance_test,
)
from agent_resolver.core.blueprint.call_check import BlueprintLimits as BlueprintLimits
from agent_resolver.core.blueprint.check import (
    NO_LIMITS as NO_LIMITS,
    check_blueprint as check_blueprint,
    located_findings as located_findings,
)
from agent_resolver.core.blueprint.dependency import (
    first_cycle as first_cycle,
    needs_in_group as needs_in_group,
    step_groups as step_groups,
    steps_read_by as steps_read_by,
)
from agent_resolver.core.blueprint.drawing import draw_text as draw_text
from agent_resolver.core.blueprint.expression import (
    Expression as Expression,
    ExpressionFault as ExpressionFault,
    parse_expression as parse_expression,
)
from agent_resolver.core.blueprint.expression_value import (
    MAX_RESULT_BYTES as MAX_RESULT_BYTES,
    ResultTooLarge as ResultTooLarge,
    is_true as is_true,
    value_of as value_of,
)
from agent_resolver.core.blueprint.history import (
    History as History,
    HistoryDifference as HistoryDifference,
    RecordedWave as RecordedWave,
    decode_history as decode_history,
    encode_history as encode_history,
    replay_history as replay_history,
)
from agent_resolver.core.blueprint.mapped_schema import (
    is_unknown as is_unknown,
    known_part as known_part,
    schema_of as schema_of,
)
from agent_resolver.core.blueprint.move import Course as Course, next_move as next_move
from agent_resolver.core.blueprint.path import (
    COMPENSATION_PREFIX as COMPENSATION_PREFIX,
    NO_ITEM as NO_ITEM,
    Path as Path,
    attempt_path as attempt_path,
    item_path as item_path,
    parse_path as parse_path,
)
from agent_resolver.core.blueprint.prepared_blueprint import (
    PreparedBlueprint as PreparedBlueprint,
    PreparedGroup as PreparedGroup,
    PreparedStep as PreparedStep,
    prepare as prepare,
    waves_of as waves_of,
)
from agent_resolver.core.blueprint.svg_drawing import draw_svg as draw_svg
from agent_resolver.core.blueprint.template import (
    Reference as Reference,
    Template as Template,
    TemplateFault as TemplateFault,
    evaluate as evaluate,
    parse_condition as parse_condition,
    parse_template as parse_template,
    references as references,
)
from agent_resolver.core.blueprint.tool_rule import blueprint_rules as blueprint_rules
from agent_resolver.core.blueprint.undeclared_member import (
    UndeclaredMember as UndeclaredMember,
    undeclared_members as undeclared_members,
)
from agent_resolver.core.blueprint.wave import (
    INTERPRETER_VERSION as INTERPRETER_VERSION,
    Ended as Ended,
    Known as Known,
    Move as Move,
    RunFacts as RunFacts,
    StepCall as StepCall,
    StepDone as StepDone,
    StepFailed as StepFailed,
    StepOutcome as StepOutcome,
    StepWait as StepWait,
    Wave as Wave,
)
from agent_resolver.core.catalog_pattern import (
    MAX_PATTERN as MAX_PATTERN,
    BadPattern as BadPattern,
    check_pattern as check_pattern,
    parts_of as parts_of,
)
from agent_resolver.core.choice import rejections as rejections
from agent_resolver.core.chosen_notice import chosen_notices as chosen_notices
from agent_resolver.core.constraint import (
    RunLimits as RunLimits,
    limits_of as limits_of,
    positions_of as positions_of,
    requirements_of as requirements_of,
)
from agent_resolver.core.context_claim import (
    answers_by_token as answers_by_token,
    proves_claim as proves_claim,
)
from agent_resolver.core.count import counted as counted, plural as plural
from agent_resolver.core.drafted_scope import (
    draft_scopes as draft_scopes,
    scope_subject as scope_subject,
    with_pins as with_pins,
)
from agent_resolver.core.egress import (
    EVERY_HOST as EVERY_HOST,
    egress_hosts as egress_hosts,
    hosts_of_servers as hosts_of_servers,
    is_host as is_host,
    unlisted_hosts as unlisted_hosts,
)
from agent_resolver.core.evaluation.answer import answer_of as answer_of
from agent_resolver.core.evaluation.difference import (
    AnswerChangeKind as AnswerChangeKind,
    CaseChange as CaseChange,
    EvalDifference as EvalDifference,
    compare_reports as compare_reports,
    describe_answer as describe_answer,
)
from agent_resolver.core.evaluation.judgement import judge_case as judge_case
from agent_resolver.core.evaluation.report import (
    Evaluated as Evaluated,
    passes_gate as passes_gate,
    report_of as report_of,
)
from agent_resolver.core.evidence.certified import certified_plans as certified_plans
from agent_resolver.core.evidence.check import (
    evidence_faults as evidence_faults,
    evidence_seal as evidence_seal,
)
from agent_resolver.core.evidence.fault import EvidenceFault as EvidenceFault
from agent_resolver.core.explanation_writer import explanation_json as explanation_json
from agent_resolver.core.guardrail import (
    GuardrailCode as GuardrailCode,
    GuardrailLimits as GuardrailLimits,
    needs_person as needs_person,
    tripped as tripped,
)
from agent_resolver.core.index_coverage import (
    FILLABLE as FILLABLE,
    CategoryCoverage as CategoryCoverage,
    Coverage as Coverage,
    Remedy as Remedy,
    Unresolved as Unresolved,
    coverage_of as coverage_of,
    unknown_facts as unknown_facts,
    unresolved as unresolved,
)
from agent_resolver.core.keyword_gap import Reason as Reason
from agent_resolver.core.lease import (
    MAX_LEASE_SECONDS as MAX_LEASE_SECONDS,
    claimed as claimed,
    is_free as is_free,
    is_taken_from as is_taken_from,
    lease_end as lease_end,
)
from agent_resolver.core.ledger import judge_start as judge_start
from agent_resolver.core.lock import (
    lock_entry as lock_entry,
    server_hash as server_hash,
)
from agent_resolver.core.lock_diff import (
    Change as Change,
    ChangeKind as ChangeKind,
    Risk as Risk,
    Side as Side,
    diff as diff,
    worst as worst,
)
from agent_resolver.core.lock_difference import (
    Difference as Difference,
    DifferenceKind as DifferenceKind,
    remedy as remedy,
)
from agent_resolver.core.loopback import is_loopback as is_loopback
from agent_resolver.core.manifest_diff import (
    ToolChange as ToolChange,
    is_breaking as is_breaking,
    manifest_difference as manifest_difference,
)
from agent_resolver.core.masking import (
    MASK as MASK,
    MAX_EXCERPT_BYTES as MAX_EXCERPT_BYTES,
    SecretFields as SecretFields,
    excerpt as excerpt,
    secret_fields as secret_fields,
)
from agent_resolver.core.moment import (
    milliseconds_of as milliseconds_of,
    moment_of as moment_of,
)
from agent_resolver.core.notice import (
    agent_file_notices as agent_file_notices,
    index_notices as index_notices,
    overlay_notices as overlay_notices,
)
from agent_resolver.core.ops.audit import (
    MAX_VIOLATIONS as MAX_VIOLATIONS,
    OPS_RULES as OPS_RULES,
    audit_blueprint as audit_blueprint,
)
from agent_resolver.core.ops.remedy import (
    checklist as checklist,
    is_builder_able as is_builder_able,
    remedy_requests as remedy_requests,
)
from agent_resolver.core.ops.rule import (
    ALLOWED as ALLOWED,
    LEAVE_OUT as LEAVE_OUT,
    OpsRule as OpsRule,
)
from agent_resolver.core.ops.subject import (
    OpsPolicy as OpsPolicy,
    OpsSubject as OpsSubject,
)
from agent_resolver.core.overlay import (
    apply_overlay as apply_overlay,
    stated_facts as stated_facts,
    unused_patterns as unused_patterns,
)
from agent_resolver.core.package import (
    Floating as Floating,
    FloatingKind as FloatingKind,
    Package as Package,
    floating_reason as floating_reason,
    package_of as package_of,
    package_url as package_url,
    packages_of as packages_of,
    pinned_form as pinned_form,
    read_package as read_package,
)
from agent_resolver.core.pattern import matches as matches
from agent_resolver.core.permission_glob import compile_glob as compile_glob
from agent_resolver.core.permission_rule import (
    BadRule as BadRule,
    CallMatch as CallMatch,
    FieldMatch as FieldMatch,
    TextMatch as TextMatch,
    parse_rule as parse_rule,
)
from agent_resolver.core.permission_verdict import (
    MAX_MATCHED as MAX_MATCHED,
    Behavior as Behavior,
    BehaviorRule as BehaviorRule,
    PermissionJudge as PermissionJudge,
    PermissionVerdict as PermissionVerdict,
    is_about_any_arguments as is_about_any_arguments,
    rank_of as rank_of,
)
from agent_resolver.core.rate import (
    WINDOW_SECONDS as WINDOW_SECONDS,
    is_outside_window as is_outside_window,
    seconds_to_wait as seconds_to_wait,
)
from agent_resolver.core.resolution import (
    EPOCH as EPOCH,
    Resolution as Resolution,
    explain as explain,
    resolve as resolve,
    resolver as resolver,
)
from agent_resolver.core.retention import (
    Family as Family,
    Unfinished as Unfinished,
    families_of as families_of,
    last_old_record as last_old_record,
    old_actions as old_actions,
    old_entries as old_entries,
    old_families as old_families,
    traces_of as traces_of,
    unfinished as unfinished,
)
from agent_resolver.core.rule import (
    CHECKS as CHECKS,
    CONSTRAINTS as CONSTRAINTS,
    FACTS as FACTS,
    broken_data_rules as broken_data_rules,
    every_broken as every_broken,
    judge as judge,
    names_behind as names_behind,
    preference as preference,
)
from agent_resolver.core.schema_change import (
    SchemaChange as SchemaChange,
    schema_changes as schema_changes,
)
from agent_resolver.core.schema_document import (
    ALL_TYPES as ALL_TYPES,
    DIALECT as DIALECT,
    Document as Document,
    TooLarge as TooLarge,
    bare as bare,
    declared_types as declared_types,
    same as same,
    token as token,
    transform as transform,
    type_of as type_of,
    types_of as types_of,
    values_of as values_of,
)
from agent_resolver.core.schema_inclusion import below as below, gaps as gaps
from agent_resolver.core.server import (
    ServerPool as ServerPool,
    by_category as by_category,
    in_order as in_order,
    known_servers as known_servers,
    servers_of as servers_of,
)
from agent_resolver.core.server_search import (
    Match as Match,
    ServerText as ServerText,
    search_servers as search_servers,
)
from agent_resolver.core.spelling import (
    are_twins as are_twins,
    is_slip as is_slip,
    near_categories as near_categories,
    similar_scopes as similar_scopes,
)
from agent_resolver.core.star_match import (
    LiteralParts as LiteralParts,
    matching_texts as matching_texts,
    parts_match as parts_match,
)
from agent_resolver.core.suggested_edit import (
    apply_edits as apply_edits,
    edited as edited,
)
from agent_resolver.core.token_estimate import (
    BYTES_PER_TOKEN as BYTES_PER_TOKEN,
    estimate_text as estimate_text,
    size_of_text as size_of_text,
)
from agent_resolver.core.tool_definition import (
    MAX_DEFINITION_BYTES as MAX_DEFINITION_BYTES,
    MAX_DEFINITION_LINES as MAX_DEFINITION_LINES,
    DefinitionChange as DefinitionChange,
    definition_changes as definition_changes,
    definition_diff as definition_diff,
    definition_digest as definition_digest,
    definition_parts as definition_parts,
    exceeded_limit as exceeded_limit,
    is_reviewable as is_reviewable,
)
from agent_resolver.core.tool_id import (
    MAX_TOOL_ID as MAX_TOOL_ID,
    MAX_TOOL_NAME as MAX_TOOL_NAME,
    is_usable_name as is_usable_name,
    tool_id_fault as tool_id_fault,
)
from agent_resolver.core.unknown_scope import (
    UnknownScope as UnknownScope,
    unknown_scopes as unknown_scopes,
)
from agent_resolver.core.verification import (
    examine as examine,
    is_as_written as is_as_written,
    verify as verify,
)
from agent_resolver.core.why_chosen import Answer as Answer, why as why
from agent_resolver.core.wire_name import (
    MAX_WIRE_NAME as MAX_WIRE_NAME,
    from_wire_name as from_wire_name,
    to_wire_name as to_wire_name,
)
