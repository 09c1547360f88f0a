"""Thin: the parts over MCP, on stdio or Streamable HTTP."""
