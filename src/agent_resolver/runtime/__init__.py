"""From an agent id to a plan: its model, plugins and tools, whole or not at all."""
