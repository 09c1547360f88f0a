"""Digests of values: SHA-256 over canonical JSON."""

from hashlib import sha256

import msgspec


def digest(value: object) -> str:
    """`sha256-` and the hexadecimal digest of `value` as compact JSON with sorted keys."""
    return f"sha256-{sha256(msgspec.json.encode(value, order='sorted')).hexdigest()}"
