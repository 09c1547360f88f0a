from agent_resolver.exchange.category import categories_of as categories_of, category_aliases as category_aliases
from agent_resolver.exchange.format import FORMATS as FORMATS, Format as Format, recognise as recognise
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
