"""The purposes that values of a task are sealed for: none of them opens in another place, or for another task."""

from typing import Final

FIRST: Final = "first"
"""Takes the place of a digest for the state that a task began with."""


def checkpoint_purpose(thread: str, kind: str) -> str:
    """The purpose of a value in a checkpoint: copied to another thread of the same file it does not open."""
    return f"checkpoint of {thread} as {kind}"


def artifact_purpose(task: str, reference: str) -> str:
    """The purpose of a content that is found by its digest."""
    return f"artifact {reference} of {task}"


def first_purpose(task: str) -> str:
    """The purpose of the state that a task began with."""
    return f"first state of {task}"


def kind_of_sealed(kind: object, sealed: object) -> str:
    """The format of a value before it was sealed: what its type says before the name of the cipher.

    Raises:
        ValueError: The type does not name the cipher that the value begins with. This program did not write it.
    """
    # The file may hold anything in any column.
    if isinstance(kind, str) and isinstance(sealed, bytes):
        plain, plus, cipher = kind.partition("+")
        if plus and cipher and sealed.startswith(f"{cipher}:".encode()):
            return plain
    raise ValueError("a value of a checkpoint is not sealed")
