from agent_resolver.exchange.agent_use import (
    KnownNames as KnownNames,
    ServerMention as ServerMention,
    inline_servers as inline_servers,
    server_mentions as server_mentions,
)
from agent_resolver.exchange.allowlist import (
    AllowList as AllowList,
    allow_list as allow_list,
)
from agent_resolver.exchange.bill import (
    Bill as Bill,
    BillServer as BillServer,
    bill_of as bill_of,
)
from agent_resolver.exchange.category import (
    categories_of as categories_of,
    category_aliases as category_aliases,
)
from agent_resolver.exchange.client.check import (
    ClientFinding as ClientFinding,
    Governing as Governing,
    judge_entry as judge_entry,
)
from agent_resolver.exchange.client.direct import (
    Access as Access,
    Direct as Direct,
    LockedUse as LockedUse,
    Loss as Loss,
    direct_entries as direct_entries,
    uses_of as uses_of,
)
from agent_resolver.exchange.client.entry import (
    Client as Client,
    ClientEntry as ClientEntry,
)
from agent_resolver.exchange.client.known import CLIENTS as CLIENTS
from agent_resolver.exchange.client.project_settings import (
    ClientProblem as ClientProblem,
    check_clients as check_clients,
)
from agent_resolver.exchange.client.removal import without_entries as without_entries
from agent_resolver.exchange.client.settings import (
    UnusableSettings as UnusableSettings,
    read_entries as read_entries,
    write_entries as write_entries,
)
from agent_resolver.exchange.client.shown import (
    shown_settings as shown_settings,
    words_in as words_in,
)
from agent_resolver.exchange.cyclonedx_bill import cyclonedx_text as cyclonedx_text
from agent_resolver.exchange.fetch import (
    Fetched as Fetched,
    Fetcher as Fetcher,
    FetchFailed as FetchFailed,
    is_public as is_public,
    split_url as split_url,
)
from agent_resolver.exchange.format import (
    FORMATS as FORMATS,
    Format as Format,
    recognise as recognise,
)
from agent_resolver.exchange.git_source import (
    Cloned as Cloned,
    clone_files as clone_files,
)
from agent_resolver.exchange.imported import (
    Imported as Imported,
    Note as Note,
    NoteKind as NoteKind,
    Source as Source,
)
from agent_resolver.exchange.jsonc import strict_json as strict_json
from agent_resolver.exchange.jsonc_edit import (
    CannotEdit as CannotEdit,
    JsonNode as JsonNode,
    NotJsonc as NotJsonc,
    scan_jsonc as scan_jsonc,
    with_json_value as with_json_value,
    without_json_members as without_json_members,
)
from agent_resolver.exchange.launch_record import (
    command_version as command_version,
    image_version as image_version,
)
from agent_resolver.exchange.merge import (
    Batch as Batch,
    MergeConflict as MergeConflict,
    Merged as Merged,
    Update as Update,
    merge_entries as merge_entries,
)
from agent_resolver.exchange.oscal import (
    Assessment as Assessment,
    oscal_document as oscal_document,
)
from agent_resolver.exchange.proposed_requirement import (
    Certainty as Certainty,
    ProposedRequirement as ProposedRequirement,
    Wish as Wish,
    agent_file_text as agent_file_text,
    missing_lines as missing_lines,
    propose_requirements as propose_requirements,
    with_own_categories as with_own_categories,
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
from agent_resolver.exchange.server_id import (
    assign_ids as assign_ids,
    is_path as is_path,
    mapped_id as mapped_id,
)
from agent_resolver.exchange.source_file import (
    SourceReading as SourceReading,
    SourcesReading as SourcesReading,
    read_sources as read_sources,
)
from agent_resolver.exchange.spdx_bill import (
    spdx_document as spdx_document,
    spdx_text as spdx_text,
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
from agent_resolver.exchange.toml_edit import (
    NotToml as NotToml,
    with_toml_item as with_toml_item,
    with_toml_table as with_toml_table,
    without_toml_tables as without_toml_tables,
)
