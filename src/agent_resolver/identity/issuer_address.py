"""Addresses that a secret may be sent to, or a key be believed from."""

from urllib.parse import SplitResult, urlsplit

from agent_resolver.core.loopback import is_loopback


def address(url: str) -> SplitResult | None:
    """The parts of an address that cannot be read or changed on the way: `https`, or `http` on this machine."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - it raises what is wrong with it
    except ValueError:
        return None
    if not parts.hostname or "@" in parts.netloc:
        return None
    is_private = parts.scheme == "https" or (
        parts.scheme == "http" and is_loopback(parts.hostname)
    )
    return parts if is_private else None


def past_any_proxy() -> dict[str, None]:
    """This machine is reached directly: a proxy would see in the clear what is sent to it without TLS."""
    return {f"all://{host}": None for host in ("localhost", "127.0.0.0/8", "[::1]")}
