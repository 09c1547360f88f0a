"""Sockets that listen for clients."""

import socket

from agent_resolver.server.errors import CannotServe


def open_listener(host: str, port: int, *, is_shared: bool = False) -> socket.socket:
    """A socket that listens there; with `is_shared`, other programs of the same user may listen there too.

    Raises:
        CannotServe: It cannot, as where another server does.
    """
    try:
        return _listen(host, port, is_shared=is_shared)
    except OSError as error:
        message = f"Cannot listen on `{host}:{port}`: {(error.strerror or str(error)).partition(' (')[0]}"
        raise CannotServe(
            message, "name another port, or 0 for any that is free", exit_code=1
        ) from None


def _listen(host: str, port: int, *, is_shared: bool) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named, since asyncio sends small answers at once only where it
    # sees that it is TCP.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_shared:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listening.bind((host, port))
        listening.listen()
    except OSError:
        listening.close()
        raise
    return listening
