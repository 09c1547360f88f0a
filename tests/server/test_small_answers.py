"""Answers over HTTP are sent at once."""

import socket

from agent_resolver.server import open_listener


def test_the_socket_is_marked_tcp_so_that_small_answers_are_not_held_back() -> None:
    with open_listener("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.proto == socket.IPPROTO_TCP
