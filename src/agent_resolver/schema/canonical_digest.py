"""Digests of values: SHA-256 over canonical JSON.

`hashlib` loads OpenSSL for SHA-256, which takes longer than reading a small index. The
interpreter's own functions, from which Python's `random` takes its hash as well, give
the same digests. They are slower on many megabytes, for which `hashlib` is the better choice.
"""

import msgspec

try:
    from _sha256 import sha256  # type: ignore[import-not-found]
except ModuleNotFoundError:  # pragma: no cover - Python 3.12 and later
    try:
        from _sha2 import sha256  # type: ignore[import-not-found]
    except ModuleNotFoundError:  # An interpreter that was built without them.
        from hashlib import sha256


def hexdigest(content: bytes) -> str:
    """The hexadecimal SHA-256 of a content that is not large."""
    return str(sha256(content).hexdigest())


def digest(value: object) -> str:
    """`sha256-` and the hexadecimal digest of `value` as compact JSON with sorted keys."""
    return f"sha256-{hexdigest(msgspec.json.encode(value, order='sorted'))}"
