"""Every table of the state: a new one is a struct, a line here, a schema version of each adapter, and its use."""

from typing import Any, Final, Literal

from msgspec import Struct

from agent_resolver.schema.ledger import LedgerEntry
from agent_resolver.schema.pending import PendingAction
from agent_resolver.schema.table import Table

RunStatus = Literal["running", "waiting", "cancelling", "done", "failed", "cancelled"]
RunKind = Literal["agent", "workflow", "blueprint", "task"]
AGENT_KINDS: Final[frozenset[RunKind]] = frozenset({"agent", "workflow"})
"""The kinds of runs in which agents act, which go on from one kind of journal."""
FINISHED: Final[frozenset[RunStatus]] = frozenset({"done", "failed", "cancelled"})


class Run(Struct, frozen=True, kw_only=True):
    """A run of an agent, a workflow, a blueprint or a task, as runtime, engine and reasoner share it."""

    id: str
    kind: RunKind
    status: RunStatus
    trace_id: str
    """The trace of every call and question of the run; nothing with this trace is pruned before the run has ended."""
    lease: int = 0
    """The fencing number of the lease under which the row was last written."""
    waits_for: str | None = None
    """The id of the pending action that a waiting run waits for."""
    started_at: str
    changed_at: str
    agent: str = ""
    """Its agent; the name of the file where it is a workflow, and the environment where it is a task."""
    plan: str = ""
    """The digest of the plan that it runs by; empty for a workflow, each of whose steps has its own."""
    caller: str = ""
    """The id of the caller who started it."""
    parent: str = ""
    """The run that delegates to it, or that it is a step of."""
    thread: str = ""
    """The conversation that it belongs to, of its caller."""
    continues: str = ""
    """The run before it in its conversation."""
    reason: str = ""
    """Why it ended."""
    code: str = ""
    """The stop rule, the budget or the error that ended it, or the kind of what it waits for."""
    rounds: int = 0
    tokens: int = 0
    cost: float | None = None
    """In US dollars; None where a price is not known."""
    uncertain: int = 0
    """The questions to a model that may have cost something though no answer came."""
    entries: int = 0
    """The number of entries that its journal has: a journal with fewer has lost some."""
    stage: str = ""
    """The stage that a task is in; empty for every other kind of run."""
    issuer: str = ""
    """The issuer that vouches for the caller: an id is unique for one issuer only. Empty where none does."""


class JournalRow(Struct, frozen=True, kw_only=True):
    """One step of a run, from which the run can go on."""

    run: str
    number: int
    """From 1, without gaps."""
    kind: str
    at: int
    """The time, in milliseconds since 1970."""
    body: bytes
    """Sealed: what changed with this step."""


class PlanRow(Struct, frozen=True, kw_only=True):
    """The parts of a plan, kept once for all runs that were made of it."""

    digest: str
    body: bytes


class ThreadRow(Struct, frozen=True, kw_only=True):
    """A conversation that goes on over several runs."""

    caller: str
    name: str
    agent: str
    run: str
    """The newest run of it."""


class ArtifactRow(Struct, frozen=True, kw_only=True):
    """Something that the state of a task refers to by its digest."""

    task: str
    digest: str
    body: bytes
    """Sealed for its task and its digest."""


class LeaseRow(Struct, frozen=True, kw_only=True):
    """Who may work on something, until when."""

    name: str
    """What the lease is on, such as `run/4f1c`."""
    owner: str
    """The process that holds the lease; empty once it was released."""
    number: int
    """The fencing number: each new holder has a higher one."""
    until: float
    lost: int = 0
    """The highest fencing number whose holder did not give the lease back before another one took it. Nothing may be
    written any longer under this number or a lower one."""
    losses: int = 0
    """The number of holders in a row that did not give the lease back: each was killed, cut off or frozen."""


WorkerState = Literal["working", "draining", "stopped"]


class WorkerRow(Struct, frozen=True, kw_only=True):
    """A process that takes up runs."""

    name: str
    """The name of the process, as leases have it."""
    host: str
    pid: int
    version: str
    kinds: str
    """The kinds of runs that it takes up, separated by commas."""
    capacity: int
    """The most runs that it drives at once."""
    driven: int
    """The number of runs that it drove when it was last seen."""
    started_at: str
    seen: float
    """The time when it last said so, as leases measure it."""
    state: WorkerState = "working"
    """`draining` once it is to take up nothing further: an operator may ask for that from any machine."""


FAR: Final = 2**62
"""The due time of a wait that no time ends."""


class WaitRow(Struct, frozen=True, kw_only=True):
    """A run that a worker is to take up: at once, at some time, or once something has happened."""

    due: int
    """The time, in milliseconds since 1970: 0 for at once, `FAR` where only an answer or a signal ends the wait."""
    run: str
    awaited: str = ""
    """The id of the pending action or of the run that ends the wait, or `signal/<run>/<name>`; empty for a time."""


class ServedRow(Struct, frozen=True, kw_only=True):
    """Something that the servers of a project have to know of a client, whichever of them it reaches."""

    key: str
    """The kind and a digest of what it is about: `ended/…` and `wanted/…` are about a session of MCP, `waiting/…` is
    about a call."""
    until: int
    """The time after which it is of no use, in milliseconds since 1970."""
    body: str = ""


class RateUse(Struct, frozen=True, kw_only=True):
    """One use of something that has a limit."""

    subject: str
    number: int
    at: float


PENDING: Final = Table(
    name="pending",
    row=PendingAction,
    key=("id",),
    indexes=(("binding",), ("requester", "answer")),
    scans=(("answer",),),
    # A question quotes the request. An answer is what a person wrote, and one of an
    # approval lets a call pass.
    sealed=("message", "answer", "reason"),
)
# Every call writes to the ledger twice, and each index would be written with it. A
# process looks for calls that were interrupted once, when it starts.
LEDGER: Final = Table(
    name="ledger",
    row=LedgerEntry,
    key=("key",),
    order="key",
    scans=(("state",),),
    owner="owner",
)
RATES: Final = Table(
    name="rate", row=RateUse, key=("subject", "number"), indexes=(("subject",),)
)
RUNS: Final = Table(
    name="run",
    row=Run,
    key=("id",),
    indexes=(("status",),),
    scans=(("parent",), ("kind",), ("kind", "status")),
    # Why it ended may quote a failure, which may quote arguments.
    sealed=("reason",),
)
JOURNAL: Final = Table(
    name="journal",
    row=JournalRow,
    key=("run", "number"),
    order="key",
    indexes=(("run",),),
)
PLANS: Final = Table(name="plan", row=PlanRow, key=("digest",), order="key")
THREADS: Final = Table(
    name="thread", row=ThreadRow, key=("caller", "name"), order="key"
)
# In the order of the key: the first rows are the ones that are due.
WAITS: Final = Table(
    name="wait",
    row=WaitRow,
    key=("due", "run", "awaited"),
    order="key",
    indexes=(("awaited",), ("run",)),
)
ARTIFACTS: Final = Table(
    name="artifact",
    row=ArtifactRow,
    key=("task", "digest"),
    order="key",
    indexes=(("task",),),
)
SERVED: Final = Table(name="served", row=ServedRow, key=("key",), order="key")
LEASES: Final = Table(
    name="lease", row=LeaseRow, key=("name",), owner="owner", is_durable=False
)
WORKERS: Final = Table(
    name="worker",
    row=WorkerRow,
    key=("name",),
    order="key",
    owner="name",
    is_durable=False,
)

TABLES: Final[tuple[Table[Any], ...]] = (
    PENDING,
    LEDGER,
    RATES,
    RUNS,
    JOURNAL,
    PLANS,
    THREADS,
    WAITS,
    ARTIFACTS,
    SERVED,
    LEASES,
    WORKERS,
)
