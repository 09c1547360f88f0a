"""Agent files in, `agent://` definitions out, each read only when it is asked for."""
