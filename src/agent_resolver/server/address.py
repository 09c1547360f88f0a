"""The address at which MCP is served."""


def mcp_url(host: str, port: int) -> str:
    """The URL of the server at a host and port."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/mcp"
