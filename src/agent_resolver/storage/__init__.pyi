from agent_resolver.storage.database import Busy as Busy, Database as Database
from agent_resolver.storage.errors import (
    FileError as FileError,
    OversizeFile as OversizeFile,
    UnreadableFile as UnreadableFile,
    UnwritableFile as UnwritableFile,
)
from agent_resolver.storage.file import (
    Batch as Batch,
    read_bounded as read_bounded,
    read_head as read_head,
    same_content as same_content,
    write_atomic as write_atomic,
)
from agent_resolver.storage.ledger import Ending as Ending, LedgerCall as LedgerCall, SqliteLedger as SqliteLedger
from agent_resolver.storage.owner import Owner as Owner
from agent_resolver.storage.pending import SqlitePending as SqlitePending
from agent_resolver.storage.rate import SqliteRate as SqliteRate
from agent_resolver.storage.seal import AesSeal as AesSeal, key_beside as key_beside
from agent_resolver.storage.trail import SqliteTrail as SqliteTrail
from agent_resolver.storage.walk import Identity as Identity, files_below as files_below, identity_of as identity_of
from agent_resolver.storage.writer import Writer as Writer
