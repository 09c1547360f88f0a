from agent_resolver.exchange.fetch import (
    Fetched as Fetched,
    Fetcher as Fetcher,
    FetchFailed as FetchFailed,
    is_public as is_public,
    split_url as split_url,
)
from agent_resolver.exchange.git_source import Cloned as Cloned, clone_files as clone_files
from agent_resolver.exchange.registry_api import (
    MAX_PAGES as MAX_PAGES,
    FetchedPart as FetchedPart,
    RegistryPages as RegistryPages,
    fetch_registry as fetch_registry,
    is_registry as is_registry,
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
