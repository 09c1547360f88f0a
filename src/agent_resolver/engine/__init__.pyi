from agent_resolver.engine.dbos_driver import DbosDriver as DbosDriver
from agent_resolver.engine.dbos_serializer import SealedJson as SealedJson
from agent_resolver.engine.dbos_system import DbosSystem as DbosSystem, SegmentState as SegmentState
from agent_resolver.engine.errors import (
    EditedRecord as EditedRecord,
    EngineBroken as EngineBroken,
    EngineRefused as EngineRefused,
    ReplayMismatch as ReplayMismatch,
)
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
