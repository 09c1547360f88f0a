"""Agents that others run, reached over A2A."""

from msgspec import Struct

from agent_resolver.runtime.spec import RemoteEndpoint


class A2aBackend(Struct, frozen=True):
    """Where a run of the agent goes."""

    endpoint: RemoteEndpoint


class A2aFactory:
    """Checks where A2A agents are said to be."""

    def validate(self, endpoint: RemoteEndpoint) -> str | None:
        """The fault in the options of an endpoint; None if there is none."""
        for name in ("poll_interval_ms", "history_length"):
            value = endpoint.options.get(name, 0)
            # True is an integer to Python, and not a number of milliseconds or
            # messages.
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                return f"{name} must be an unsigned integer"
        if not isinstance(endpoint.options.get("return_immediately", True), bool):
            return "return_immediately must be a boolean"
        unknown = sorted(
            endpoint.options.keys()
            - {"poll_interval_ms", "history_length", "return_immediately"}
        )
        return f"unknown option {unknown[0]}" if unknown else None

    def build(self, endpoint: RemoteEndpoint) -> A2aBackend:
        """A backend that sends runs to the endpoint."""
        return A2aBackend(endpoint)
