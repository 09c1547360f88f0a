from agent_resolver.storage.clock import (
    SystemClock as SystemClock,
    system_time as system_time,
)
from agent_resolver.storage.errors import (
    FileError as FileError,
    ForeignFile as ForeignFile,
    LeaseLost as LeaseLost,
    LinkedAway as LinkedAway,
    OversizeFile as OversizeFile,
    UnreadableFile as UnreadableFile,
    UnwritableFile as UnwritableFile,
)
from agent_resolver.storage.exclusive import exclusively as exclusively
from agent_resolver.storage.file import (
    Batch as Batch,
    create_beside as create_beside,
    read_bounded as read_bounded,
    read_head as read_head,
    replace_with as replace_with,
    same_content as same_content,
    sweep_temporary as sweep_temporary,
    write_atomic as write_atomic,
)
from agent_resolver.storage.joint_writer import (
    JointWriter as JointWriter,
    WriteStopped as WriteStopped,
)
from agent_resolver.storage.key_ring import KeyRing as KeyRing, UnknownKey as UnknownKey
from agent_resolver.storage.lease import (
    LEASE_SECONDS as LEASE_SECONDS,
    claim_in as claim_in,
    lease_name as lease_name,
    release_in as release_in,
)
from agent_resolver.storage.lease_keeper import LeaseKeeper as LeaseKeeper
from agent_resolver.storage.memory import MemoryStore as MemoryStore
from agent_resolver.storage.ownership import (
    believed_users as believed_users,
    require_own as require_own,
)
from agent_resolver.storage.port import (
    Lease as Lease,
    ProjectStore as ProjectStore,
    Snapshot as Snapshot,
    Store as Store,
    Transaction as Transaction,
)
from agent_resolver.storage.postgres.address import PostgresAddress as PostgresAddress
from agent_resolver.storage.postgres.store import PostgresStore as PostgresStore
from agent_resolver.storage.process_tree import (
    become_subreaper as become_subreaper,
    children_of as children_of,
    descendants_of as descendants_of,
    die_with_parent as die_with_parent,
    kill_descendants as kill_descendants,
    signal_all as signal_all,
)
from agent_resolver.storage.run_listing import (
    ListedRun as ListedRun,
    RunFilter as RunFilter,
    list_runs as list_runs,
)
from agent_resolver.storage.seal import (
    AesSeal as AesSeal,
    id_of_key as id_of_key,
    key_beside as key_beside,
)
from agent_resolver.storage.sql.commit import Busy as Busy, Committer as Committer
from agent_resolver.storage.sql.transaction import SqlTransaction as SqlTransaction
from agent_resolver.storage.sql.writer import Writer as Writer
from agent_resolver.storage.sqlite.alone import StateInUse as StateInUse
from agent_resolver.storage.sqlite.database import (
    MIGRATIONS as MIGRATIONS,
    Database as Database,
)
from agent_resolver.storage.sqlite.owner import Owner as Owner
from agent_resolver.storage.sqlite.store import SqliteStore as SqliteStore
from agent_resolver.storage.trail import (
    append_record as append_record,
    trail_faults as trail_faults,
)
from agent_resolver.storage.wake import Waiters as Waiters
from agent_resolver.storage.walk import (
    Identity as Identity,
    files_below as files_below,
    identity_of as identity_of,
)
