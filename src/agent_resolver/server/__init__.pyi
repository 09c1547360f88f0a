from agent_resolver.server.auth import (
    Authentication as Authentication,
    authenticated as authenticated,
    metadata_routes as metadata_routes,
    resource_of as resource_of,
)
from agent_resolver.server.errors import CannotServe as CannotServe
from agent_resolver.server.inbox import inbox_tools as inbox_tools
from agent_resolver.server.listening import open_listener as open_listener
from agent_resolver.server.mcp_server import (
    NAME as NAME,
    AgentServer as AgentServer,
    agent_server as agent_server,
)
from agent_resolver.server.notification import Notices as Notices
from agent_resolver.server.probe import Answer as Answer, Probes as Probes
from agent_resolver.server.prompt import AgentPrompts as AgentPrompts
from agent_resolver.server.resource import AgentResources as AgentResources
from agent_resolver.server.resource_tool import ResourceTools as ResourceTools
from agent_resolver.server.run_tool import RunAgentTool as RunAgentTool
from agent_resolver.server.serving import Ready as Ready, serve as serve
from agent_resolver.server.stdio import Input as Input, Output as Output
from agent_resolver.server.tool import (
    CALLER_KEY as CALLER_KEY,
    RegistryTools as RegistryTools,
    caller_of_request as caller_of_request,
)
from agent_resolver.server.transport import serve_http as serve_http
from agent_resolver.server.waiting_call import WaitingCalls as WaitingCalls
from agent_resolver.server.watch import (
    keep_up as keep_up,
    tell_of_tools as tell_of_tools,
)
