"""A secret that a tool was given, and how it is kept out of what the tool says."""

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, NoReturn
from urllib.parse import quote_from_bytes

import msgspec

from agent_resolver.core.masking import MASK

_SHORTEST: Final = 4
"""What is shorter than this is found everywhere, and hides nothing when it is masked."""
_SHORTEST_LINE: Final = 8
_URL_SAFE: Final = str.maketrans("+/", "-_")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_QUOTES: Final = (
    ("&quot;", "&#x27;"),
    ("&quot;", "&#39;"),
    ("&#34;", "&#39;"),
    ("&quot;", "&apos;"),
    ("&quot;", "'"),
)
"""How `"` and `'` are written in HTML and XML, where they are not left as they are."""


class Secret:
    """Holds a value and never shows it, whatever prints, formats or pickles it."""

    __slots__ = ("_value", "name")

    def __init__(self, name: str, value: str) -> None:
        self.name = name
        self._value = value

    def reveal(self) -> str:
        """The value, for the one place that needs it."""
        return self._value

    def __repr__(self) -> str:
        return f"Secret({self.name!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not written anywhere")

    def __getstate__(self) -> NoReturn:
        raise TypeError("a secret is not written anywhere")


def is_secret_name(text: str) -> bool:
    """True if a secret can have this name."""
    return _NAME.fullmatch(text) is not None


def redacted(value: Any, secrets: Iterable[Secret]) -> Any:  # noqa: ANN401 - a JSON value
    """The value with every secret in it masked, also where it is encoded."""
    found = {
        form
        for secret in secrets
        for form in _written_forms(secret.reveal())
        if len(form) >= _SHORTEST
    }
    # The longest first: a secret may hold another one, and a form of it a shorter form.
    forms = sorted(found, key=lambda form: (-len(form), form))
    if not forms:
        return value
    try:
        return _mask_forms(value, forms)
    except RecursionError:
        # It is nested too deeply to be looked through, so that none of it is shown.
        return MASK


def _written_forms(text: str) -> Iterator[str]:
    """The forms in which a secret may appear in a text."""
    if len(text) < _SHORTEST:
        return
    raw = _raw_bytes(text)
    yield text
    yield text.strip()
    # A secret of several lines, such as a private key, may be quoted line by line.
    # Shorter lines are common words.
    yield from (
        line
        for line in map(str.strip, text.splitlines())
        if len(line) >= _SHORTEST_LINE
    )
    # The JSON forms go without their outer quotes, once with escapes for characters
    # beyond ASCII and once without.
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]
    yield from _forms_in_markup(text)
    yield from _forms_in_python(text, raw)
    # A path leaves `/` as it is and a query escapes it; some writers use lower-case hex
    # digits, and forms a plus for a space.
    for quoted in {quote_from_bytes(raw, safe=safe) for safe in ("", "/")}:
        yield from (quoted, _lower_escapes(quoted), quoted.replace("%20", "+"))
    yield from (raw.hex(), raw.hex().upper())
    yield from _forms_in_base64(raw)


def _forms_in_markup(text: str) -> Iterator[str]:
    """The secret in HTML or XML."""
    escaped = html.escape(text, quote=False)
    yield escaped
    if '"' in text or "'" in text:
        yield from (
            escaped.replace('"', double).replace("'", single)
            for double, single in _QUOTES
        )


def _forms_in_python(text: str, raw: bytes) -> Iterator[str]:
    """The secret as Python writes it, also as bytes and in what holds quotes of its own."""
    # With both kinds of quotes in a text, it is the single ones that Python escapes.
    for escaped in (repr(f'"{text}')[2:-1], repr(b'"' + raw)[3:-1]):
        yield from (escaped, escaped.replace("\\'", "'"))


def _raw_bytes(text: str) -> bytes:
    try:
        # Bytes of the environment that are not UTF-8 arrive as lone surrogates; this
        # turns them back.
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _lower_escapes(quoted: str) -> str:
    first, *rest = quoted.split("%")
    return "".join((first, *(f"%{part[:2].lower()}{part[2:]}" for part in rest)))


def _forms_in_base64(raw: bytes) -> Iterator[str]:
    """The secret in Base64, also after one or two other bytes and before any, as in `user:password`."""
    yield base64.b64encode(raw).decode()
    yield base64.urlsafe_b64encode(raw).decode()
    # Base64 packs three bytes at a time, so the secret has three spellings, by the
    # number of bytes before it modulo 3.
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + raw).decode()
        # Six bits make a character: what also holds bits of other bytes is left out.
        own = encoded[-(-before * 8 // 6) : (before + len(raw)) * 8 // 6]
        yield from (own, own.translate(_URL_SAFE))


def _mask_forms(value: Any, forms: list[str]) -> Any:  # noqa: ANN401 - a JSON value
    match value:
        case str():
            for form in forms:
                value = value.replace(form, MASK)
            return value
        case list() | tuple():
            return [_mask_forms(item, forms) for item in value]
        case dict():
            return {
                _mask_forms(key, forms): _mask_forms(item, forms)
                for key, item in value.items()
            }
        # This comes before numbers: `True` is an `int`.
        case bool() | None:
            return value
        case int() | float():
            return _mask_number(value, forms)
        case _:
            # Some other values can be written as JSON: they are masked as they would be
            # written.
            return _mask_forms(msgspec.json.decode(msgspec.json.encode(value)), forms)


def _mask_number(value: float, forms: list[str]) -> Any:  # noqa: ANN401 - a JSON value
    # Digits cannot be masked in place: what is left would be no number.
    shown = str(value)
    return MASK if any(form in shown for form in forms) else value
