from agent_resolver.project.blueprint import (
    CheckedBlueprint as CheckedBlueprint,
    ExaminedBlueprint as ExaminedBlueprint,
    examine_blueprints as examine_blueprints,
    load_blueprints as load_blueprints,
    own_descriptors as own_descriptors,
)
from agent_resolver.project.blueprint_file import blueprint_files as blueprint_files
from agent_resolver.project.blueprint_history import (
    RunEvent as RunEvent,
    read_events as read_events,
)
from agent_resolver.project.capability import load_capabilities as load_capabilities
from agent_resolver.project.catalog import (
    judge_of as judge_of,
    open_catalog as open_catalog,
    resolve_against as resolve_against,
)
from agent_resolver.project.config import (
    Audit as Audit,
    Catalog as Catalog,
    Config as Config,
    Engine as Engine,
    Health as Health,
    Identity as Identity,
    Knowledge as Knowledge,
    Layers as Layers,
    Loaded as Loaded,
    Model as Model,
    ModelData as ModelData,
    OAuth as OAuth,
    Policy as Policy,
    Prices as Prices,
    ProjectFacts as ProjectFacts,
    Provider as Provider,
    Reasoner as Reasoner,
    Remote as Remote,
    SecretPlace as SecretPlace,
    ServerAccess as ServerAccess,
    State as State,
    Tools as Tools,
    load_config as load_config,
    masked as masked,
)
from agent_resolver.project.config_file import (
    find_config as find_config,
    read_config as read_config,
)
from agent_resolver.project.engine import (
    EngineUse as EngineUse,
    blueprint_journal as blueprint_journal,
    engine_of as engine_of,
    open_engine as open_engine,
)
from agent_resolver.project.errors import (
    InvalidBlueprints as InvalidBlueprints,
    InvalidConfig as InvalidConfig,
    InvalidSkills as InvalidSkills,
    LockRefused as LockRefused,
    ManifestDrift as ManifestDrift,
    RefusedManifest as RefusedManifest,
    RefusedStep as RefusedStep,
    UntrustedFolder as UntrustedFolder,
    UnusableBlueprints as UnusableBlueprints,
    UnusableModule as UnusableModule,
    UnusableProvider as UnusableProvider,
    UnusableState as UnusableState,
    UnusableWorkspace as UnusableWorkspace,
)
from agent_resolver.project.file_change import (
    FileChange as FileChange,
    write_changes as write_changes,
)
from agent_resolver.project.identity import (
    ProcessIdentity as ProcessIdentity,
    caller_of as caller_of,
    caller_or_anonymous as caller_or_anonymous,
    user_name as user_name,
    verifier_of as verifier_of,
    worker_of as worker_of,
)
from agent_resolver.project.manifest import require_no_drift as require_no_drift
from agent_resolver.project.mention import CatalogDefinitions as CatalogDefinitions
from agent_resolver.project.plan import (
    CatalogAgents as CatalogAgents,
    ProjectLocks as ProjectLocks,
    runtime_of as runtime_of,
)
from agent_resolver.project.planner import (
    close_planner as close_planner,
    planner_of as planner_of,
)
from agent_resolver.project.plugin import InstalledPlugins as InstalledPlugins
from agent_resolver.project.project import (
    Project as Project,
    ProjectInbox as ProjectInbox,
    ProjectTools as ProjectTools,
)
from agent_resolver.project.provider import (
    ProviderExecutor as ProviderExecutor,
    provider_executor as provider_executor,
)
from agent_resolver.project.replay import replay_of_project as replay_of_project
from agent_resolver.project.run import (
    ProjectRuns as ProjectRuns,
    ToolUse as ToolUse,
    open_runs as open_runs,
)
from agent_resolver.project.secret import ProjectSecrets as ProjectSecrets
from agent_resolver.project.session import Session as Session
from agent_resolver.project.state import prune as prune
from agent_resolver.project.tools import (
    OpenTools as OpenTools,
    open_tools as open_tools,
)
from agent_resolver.project.trust import (
    TrustedFolders as TrustedFolders,
    folders_behind as folders_behind,
)
from agent_resolver.project.workflow import (
    StepResult as StepResult,
    plan_steps as plan_steps,
    step_prompt as step_prompt,
    steps_of as steps_of,
)
from agent_resolver.project.workflow_event import (
    WorkflowEvent as WorkflowEvent,
    WorkflowStepEnded as WorkflowStepEnded,
    WorkflowStepStarted as WorkflowStepStarted,
)
from agent_resolver.project.workflow_progress import (
    begin_progress as begin_progress,
    take_up_progress as take_up_progress,
)
from agent_resolver.project.workflow_request import (
    WorkflowRequest as WorkflowRequest,
    WorkflowResult as WorkflowResult,
)
from agent_resolver.project.workflow_run import (
    resume_workflow as resume_workflow,
    run_workflow as run_workflow,
    start_workflow as start_workflow,
)
from agent_resolver.project.workspace import Member as Member, members as members
