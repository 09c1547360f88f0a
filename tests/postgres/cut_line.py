"""A line to a server that is cut at the worst moment, such as while a commit is on its way."""

import socket
import threading
from contextlib import suppress
from typing import Self

_COMMIT = b"; COMMIT\x00"


class CutLine:
    """Passes everything on between clients and a server, until it is told to cut."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._words = _COMMIT
        self._is_armed = self._is_passed_on = self._is_for_good = self._is_silent = False
        self.cuts = 0
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()
        # A socket that is only closed stays open for as long as a thread waits for it, and with it the session.
        _end(*self._open)
        for each in self._open:
            each.close()

    def cut_at_commit(self, *, is_passed_on: bool, is_for_good: bool = False, is_silent: bool = False) -> None:
        """Cut the line with the next commit: before the server hears of it, or before the client hears the answer.

        Args:
            is_passed_on: True if the server commits.
            is_for_good: True if no later line is passed on either.
            is_silent: True if the line stays open, and nothing comes any more: the server hangs.
        """
        self._arm(_COMMIT, is_passed_on=is_passed_on, is_for_good=is_for_good, is_silent=is_silent)

    def mend(self) -> None:
        """Pass later lines on again."""
        self._is_for_good = False

    def cut_at(self, words: bytes) -> None:
        """Cut the line with the next request that has these words at its end, before the server hears of it."""
        self._arm(words, is_passed_on=False, is_for_good=False, is_silent=False)

    def _arm(self, words: bytes, *, is_passed_on: bool, is_for_good: bool, is_silent: bool) -> None:
        self._words = words
        self._is_passed_on, self._is_for_good, self._is_silent = is_passed_on, is_for_good, is_silent
        self._is_armed = True

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                if self._is_for_good and self.cuts:
                    client.close()
                    continue
                server = socket.create_connection(("127.0.0.1", self._server_port))
                self._open += [client, server]
                cut = threading.Event()
                threading.Thread(target=self._to_server, args=(client, server, cut), daemon=True).start()
                threading.Thread(target=self._to_client, args=(client, server, cut), daemon=True).start()

    def _to_server(self, client: socket.socket, server: socket.socket, cut: threading.Event) -> None:
        with suppress(OSError):
            while content := client.recv(65536):
                if content.endswith(self._words) and self._takes_turn():
                    cut.set()
                    if self._is_passed_on:
                        # The answer comes, and is not passed on: the server has committed.
                        server.sendall(content)
                        return
                    if self._is_silent:
                        return
                    break
                server.sendall(content)
        _end(client, server)

    def _to_client(self, client: socket.socket, server: socket.socket, cut: threading.Event) -> None:
        with suppress(OSError):
            while content := server.recv(65536):
                if cut.is_set() and self._is_silent:
                    return
                if cut.is_set():
                    break
                client.sendall(content)
        _end(client, server)

    def _takes_turn(self) -> bool:
        with self._lock:
            is_first, self._is_armed = self._is_armed, False
            self.cuts += is_first
            return is_first


def _end(*ends: socket.socket) -> None:
    for each in ends:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
