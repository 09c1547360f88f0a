from agent_resolver.connection.definition import (
    definition_of as definition_of,
    digest_of as digest_of,
)
from agent_resolver.connection.locked_servers import (
    LockedServers as LockedServers,
    ServerUse as ServerUse,
)
from agent_resolver.connection.mcp_connection import McpConnection as McpConnection
from agent_resolver.connection.transport import (
    Credentials as Credentials,
    Surroundings as Surroundings,
    TokensInMemory as TokensInMemory,
    transport_of as transport_of,
)
