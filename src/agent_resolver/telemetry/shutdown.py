"""Sending what is left before the end, without waiting for ever."""

from collections.abc import Callable, Sequence
from threading import Thread
from time import monotonic

from msgspec import Struct


class Closing(Struct, frozen=True):
    """One thing that has to send what it still holds."""

    close: Callable[[], object]
    on_loss: Callable[[], None]
    """Called when that takes too long."""


def close_all(closing: Sequence[Closing], seconds: float) -> None:
    """Let each of them send what it holds, all at once, and wait for that no longer than this."""
    # The SDK would wait half a minute for a collector that is away. Threads that still
    # do so end with the process.
    threads = [
        Thread(target=_close_quietly, args=(each,), daemon=True) for each in closing
    ]
    for thread in threads:
        thread.start()
    # One deadline holds for all of them, since they send at the same time.
    deadline = monotonic() + seconds
    for thread, each in zip(threads, closing, strict=True):
        thread.join(max(0.0, deadline - monotonic()))
        if thread.is_alive():
            each.on_loss()


def _close_quietly(closing: Closing) -> None:
    try:
        closing.close()
    except Exception:  # noqa: BLE001 - whatever the SDK raises, what it held did not get there
        closing.on_loss()
