"""Faults that a verifier finds in the evidence of a task."""

from typing import Literal

from msgspec import Struct

FaultCode = Literal[
    "DIGEST",
    "CONTENT",
    "RECORD",
    "STORY",
    "CERTIFICATION",
    "APPROVAL",
    "EXECUTION",
    "ANSWER",
    "SUMMARY",
    "SEAL",
    "STATE",
]
"""The part of the evidence that does not hold; stable for machines."""


class EvidenceFault(Struct, frozen=True):
    """One thing that does not hold."""

    code: FaultCode
    message: str

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"
