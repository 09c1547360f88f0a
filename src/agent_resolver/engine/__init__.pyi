from agent_resolver.engine.acting import Acting as Acting
from agent_resolver.engine.builder import BlueprintBuilder as BlueprintBuilder
from agent_resolver.engine.conformance import (
    DRIVER_CHECKS as DRIVER_CHECKS,
    DriverCheck as DriverCheck,
    MakeDriver as MakeDriver,
)
from agent_resolver.engine.dbos_driver import DbosDriver as DbosDriver
from agent_resolver.engine.dbos_place import (
    ENGINE_SCHEMA as ENGINE_SCHEMA,
    EngineFile as EngineFile,
    EnginePlace as EnginePlace,
    EngineSchema as EngineSchema,
)
from agent_resolver.engine.dbos_serializer import SealedJson as SealedJson
from agent_resolver.engine.dbos_system import (
    DbosSystem as DbosSystem,
    SegmentState as SegmentState,
)
from agent_resolver.engine.errors import (
    CannotAct as CannotAct,
    DamagedRun as DamagedRun,
    EditedRecord as EditedRecord,
    EngineAway as EngineAway,
    EngineBroken as EngineBroken,
    EngineRefused as EngineRefused,
    EngineServerAway as EngineServerAway,
    EngineUnreachable as EngineUnreachable,
    ReplayMismatch as ReplayMismatch,
    UnknownRun as UnknownRun,
)
from agent_resolver.engine.journal import (
    BlueprintJournal as BlueprintJournal,
    History as History,
)
from agent_resolver.engine.memory import MemoryDriver as MemoryDriver
from agent_resolver.engine.port import (
    AwaitedThing as AwaitedThing,
    CallTool as CallTool,
    Driver as Driver,
    Engine as Engine,
    RunResult as RunResult,
    RunSegment as RunSegment,
    RunView as RunView,
    StepBody as StepBody,
    StepRunner as StepRunner,
    StepState as StepState,
    StepView as StepView,
)
from agent_resolver.engine.run_conformance import (
    RUN_CHECKS as RUN_CHECKS,
    RunCheck as RunCheck,
)
from agent_resolver.engine.runs import (
    MAX_INPUT_BYTES as MAX_INPUT_BYTES,
    MAX_SIGNAL_BYTES as MAX_SIGNAL_BYTES,
    BlueprintRuns as BlueprintRuns,
)
from agent_resolver.engine.stored import (
    EngineParts as EngineParts,
    StoredEngine as StoredEngine,
)
from agent_resolver.engine.taking import MAX_ATTEMPTS as MAX_ATTEMPTS
from agent_resolver.engine.tool import (
    BlueprintTool as BlueprintTool,
    describe_blueprint as describe_blueprint,
)
from agent_resolver.engine.worker import CAPACITY as CAPACITY, Worker as Worker
