from agent_resolver.exchange.category import categories_of as categories_of, category_aliases as category_aliases
from agent_resolver.exchange.fetch import (
    Fetched as Fetched,
    Fetcher as Fetcher,
    FetchFailed as FetchFailed,
    is_public as is_public,
    split_url as split_url,
)
from agent_resolver.exchange.format import FORMATS as FORMATS, Format as Format, recognise as recognise
from agent_resolver.exchange.git_source import Cloned as Cloned, clone_files as clone_files
from agent_resolver.exchange.imported import (
    Imported as Imported,
    Note as Note,
    NoteKind as NoteKind,
    Source as Source,
)
from agent_resolver.exchange.jsonc import strict_json as strict_json
from agent_resolver.exchange.launch_record import command_version as command_version, image_version as image_version
from agent_resolver.exchange.merge import (
    Batch as Batch,
    MergeConflict as MergeConflict,
    Merged as Merged,
    Update as Update,
    merge_entries as merge_entries,
)
from agent_resolver.exchange.registry_api import (
    MAX_PAGES as MAX_PAGES,
    FetchedPart as FetchedPart,
    RegistryPages as RegistryPages,
    fetch_registry as fetch_registry,
    is_registry as is_registry,
)
from agent_resolver.exchange.secret_argument import (
    has_secret as has_secret,
    masked_arguments as masked_arguments,
    secret_arguments as secret_arguments,
)
from agent_resolver.exchange.server_id import assign_ids as assign_ids, is_path as is_path, mapped_id as mapped_id
from agent_resolver.exchange.source_file import (
    SourceReading as SourceReading,
    SourcesReading as SourcesReading,
    read_sources as read_sources,
)
from agent_resolver.exchange.stored_source import (
    SOURCES_NAME as SOURCES_NAME,
    DamagedSource as DamagedSource,
    SourceManifest as SourceManifest,
    StoredSource as StoredSource,
    is_source_name as is_source_name,
    source_name as source_name,
)
from agent_resolver.exchange.sync import (
    NameTaken as NameTaken,
    Synced as Synced,
    SyncRequest as SyncRequest,
    sync_source as sync_source,
)
