from agent_resolver.catalog.cache import Cache as Cache, Counters as Counters
from agent_resolver.catalog.capability import (
    SYNONYMS as SYNONYMS,
    WORDS as WORDS,
    derived_capabilities as derived_capabilities,
)
from agent_resolver.catalog.catalog import MAX_PAGE as MAX_PAGE, Catalog as Catalog
from agent_resolver.catalog.client_folder import (
    client_folders as client_folders,
    eager_folders as eager_folders,
)
from agent_resolver.catalog.cursor import (
    decode_cursor as decode_cursor,
    encode_cursor as encode_cursor,
)
from agent_resolver.catalog.entry import Definition as Definition, Entry as Entry
from agent_resolver.catalog.errors import (
    BadCursor as BadCursor,
    BadLimit as BadLimit,
    MalformedUri as MalformedUri,
    UnknownAgent as UnknownAgent,
    UnusableRoot as UnusableRoot,
)
from agent_resolver.catalog.index import CatalogIndex as CatalogIndex
from agent_resolver.catalog.listing import Verdict as Verdict
from agent_resolver.catalog.mention import (
    Dangling as Dangling,
    Mentioned as Mentioned,
    dangling_mentions as dangling_mentions,
    follow_mention as follow_mention,
)
from agent_resolver.catalog.mention_rewrite import (
    LeftMention as LeftMention,
    Moved as Moved,
    Rewriting as Rewriting,
    moved_agents as moved_agents,
    rewrite_mentions as rewrite_mentions,
)
from agent_resolver.catalog.naming import Named as Named, addresses as addresses
from agent_resolver.catalog.query import (
    Changes as Changes,
    Judge as Judge,
    Query as Query,
    View as View,
)
from agent_resolver.catalog.reader import (
    read_entry as read_entry,
    refused_name as refused_name,
)
from agent_resolver.catalog.repair import repaired as repaired
from agent_resolver.catalog.role import parse_roles as parse_roles
from agent_resolver.catalog.uri import (
    MAX_LENGTH as MAX_LENGTH,
    AgentUri as AgentUri,
    agent_uri as agent_uri,
    parse_uri as parse_uri,
)
