"""Answers over HTTP are sent at once."""

import socket

from agent_resolver.server import open_listener


def test_the_socket_says_that_it_is_tcp_so_that_asyncio_does_not_hold_small_answers_back() -> None:
    with open_listener("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.proto == socket.IPPROTO_TCP
