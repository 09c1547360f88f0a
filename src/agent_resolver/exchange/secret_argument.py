"""Finds what looks like a secret among the arguments of a command or in an address."""

import re
from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import unquote, urlsplit

_WORDS: Final = (
    r"token|api[-_.]?key|secret|password|passwd|passcode|pass|pwd|passphrase|pat|bearer|jwt|cookie|credentials?"
    r"|authorization|access[-_]?key|secret[-_]?key|private[-_]?key"
)
_JOINED_WORDS: Final = (
    r"Token|Secret|Password|Passwd|Passphrase|(?:Api|Account|Access|Secret|Private)Key"
)
_SECRET_NAME: Final = re.compile(
    rf"(?i:(?:.*[-_.])?(?:{_WORDS}))|.*[a-z0-9](?:{_JOINED_WORDS})"
)
"""The name of an option or variable whose value is a secret."""
_WORDED: Final = re.compile(
    rf"(?P<name>(?<![A-Za-z])(?i:{_WORDS})|(?<![A-Z])(?:{_JOINED_WORDS})|(?<![\w-])(?i:key))"
    # A colon alone may be that of an image or a scope: `acme/secret:1.0`, `token:read`.
    r"(?:[\\\"']*\s*=(?!=)\s*|[\\\"']+\s*:\s*|:\s+|:(?=[\\\"']))"
    r"[\\\"']*(?i:(?:bearer|basic|token)\s+)?(?P<value>[^\s\"'&;,][^\s\"'&;,#]*)"
)
"""A secret with its name anywhere in a text: in a connection string, a query, a fragment or JSON."""
_PLAIN_VALUE: Final = re.compile(r"(?i:true|false|null|none)")
_WEB_SCHEMES: Final = frozenset({"http", "https", "ws", "wss", "git+http", "git+https"})
_DOUBTFUL_NAME: Final = re.compile(rf".*(?:{_WORDS}|key|auth).*", re.IGNORECASE)
"""The name of an option that may take a secret: `--auth-type`, `--key`."""
_FILE_NAME: Final = re.compile(
    r"(?:.*(?:credentials?|private[-_]?key)|key)", re.IGNORECASE
)
"""The name of an option or variable that may take the path of a file with a secret."""
_PATH: Final = re.compile(r"(?:~|\.{1,2})?/[\w./ -]*\.[A-Za-z]{2,8}")
_KNOWN_KEY: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"sk-[A-Za-z0-9_-]{8,}|[sr]k_(?:live|test)_[A-Za-z0-9]{8,}|gh[oprsu]_[A-Za-z0-9]{8,}|github_pat_[A-Za-z0-9_]{8,}"
    r"|glpat-[A-Za-z0-9_-]{8,}|xox[abeprs]-[A-Za-z0-9-]{8,}|A(?:KIA|SIA)[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{20,}"
    r"|npm_[A-Za-z0-9]{20,}|pypi-[A-Za-z0-9_-]{20,}|hf_[A-Za-z0-9]{20,}|lin_api_[A-Za-z0-9]{8,}|ntn_[A-Za-z0-9]{20,}"
    r"|dop_v1_[0-9a-f]{20,}|tvly-[A-Za-z0-9-]{8,}|SG\.[\w-]{16,}\.[\w-]{16,}|ya29\.[\w-]{16,}|ATATT3[\w=-]{16,}"
    r"|figd_[\w-]{16,}|sq0[a-z]{3}-[\w-]{16,}|sntrys_\w{16,}|xapp-\d-[\w-]{8,}|gsk_[A-Za-z0-9]{20,}"
    r"|sbp_[0-9a-f]{20,}|glsa_[A-Za-z0-9]{16,}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}|-----BEGIN )"
)
_REFERENCE: Final = re.compile(
    r"\$\{[^}]{0,200}\}|\$[A-Za-z_]\w*|\{\{[^}]{0,200}\}\}|\{[A-Za-z_][\w.-]*\}|<[^<>]*>|%[A-Za-z_]\w*%"
)
_COMMAND_REFERENCE: Final = re.compile(r"\$\([^()]*\)")
_SCHEME_WORD: Final = re.compile(r"^(?:bearer|basic|token)\b", re.IGNORECASE)
_HEADER: Final = re.compile(r"(?P<name>[A-Za-z][A-Za-z0-9-]*)\s*:\s*(?P<value>.+)")
_SURE_HEADER: Final = re.compile(
    r"(?:x-[^:]*|authorization\s*):|[^:]*:\s", re.IGNORECASE
)
"""A header whatever option it follows; others may be a scope or an image: `token:read`, `acme-secret:1.0`."""
_HEADER_OPTIONS: Final = frozenset({"H", "header", "headers"})
_BEARER: Final = re.compile(r"(?:bearer|basic)\s+(?P<value>\S.*)", re.IGNORECASE)
_NAME_AND_PASSWORD: Final = re.compile(r"[\w.@+-]+:(?!\d+$)(?P<value>[^\s:/]+)")
"""A user and a password; a user and a group of numbers is none."""
_PASSWORD_PROGRAM: Final = re.compile(
    r"(?:.*[/\\])?(?:mysql\w*|mariadb[\w-]*|sshpass)(?:\.exe)?"
)
"""Programs that take a password directly behind `-p`."""
_PASSWORD_IN_SCRIPT: Final = re.compile(
    r"(?<![\w-])(?:mysql|mysqldump|mysqladmin|mariadb|sshpass)\s(?:[^|;&]{0,200}\s)?-p(?P<value>[^\s$<]\S*)"
    r"|(?<![\w-])(?:curl|wget|http)\s(?:[^|;&]{0,200}\s)?(?:-u|--user)[\s=]*[\"']?[\w.@+-]+:(?P<word>[^\s:/$<]+)"
)
_USER_OPTIONS: Final = frozenset(
    {"-u", "--user", "--proxy-user", "--auth", "--basic-auth", "--http-auth"}
)
_CONTAINER_COMMANDS: Final = frozenset({"run", "exec", "create"})
_RANDOM_SEGMENT: Final = re.compile(
    r"(?=.*[0-9])(?=.*[a-z])(?=.*[A-Z])[A-Za-z0-9_=-]{24,}"
)
"""A part of the path of an address that no person would choose, which some services use as a password."""
_SIGNATURE_NAME: Final = re.compile(
    r"(?:.*[-_.])?(?:sig|signature|auth)", re.IGNORECASE
)
"""The name of a part of a query that is a secret in an address, and something else as an option."""
_MOST_LEVELS: Final = 20
"""The most addresses, each a part of the one before, that are looked through; deeper ones count as a secret."""
_RANDOM: Final = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9_+/=.-]{20,}")


def secret_arguments(arguments: Sequence[str]) -> list[int]:
    """The positions of the arguments that hold what looks like a secret."""
    named = {
        position
        for position, name, value in _named_values(arguments)
        if _is_secret(name, value, 0)
    }
    return sorted(named.union(_nameless_passwords(arguments)))


def _nameless_passwords(arguments: Sequence[str]) -> Iterator[int]:
    """The positions of passwords that no name goes with: `-pWORD` of `mysql`, `-u NAME:WORD` of `curl`."""
    takes_password = in_container = False
    before = ""
    for position, argument in enumerate(arguments):
        if takes_password and _is_password_option(argument):
            yield position
        # Behind `docker run`, it is a user and a group.
        if not in_container and _has_user_password(before, argument):
            yield position
        is_program = _PASSWORD_PROGRAM.fullmatch(argument) is not None
        takes_password = takes_password or is_program
        in_container = in_container or argument in _CONTAINER_COMMANDS
        before = argument


def _is_password_option(argument: str) -> bool:
    return re.fullmatch("-p.+", argument) is not None and _is_literal(argument[2:])


def _has_user_password(before: str, argument: str) -> bool:
    """True for a user and a password, behind their option or in one word with it."""
    joined = re.fullmatch("(?:-u|--user=|--proxy-user=)(.+:.+)", argument)
    if not joined and before not in _USER_OPTIONS:
        return False
    found = _NAME_AND_PASSWORD.fullmatch(joined[1] if joined else argument)
    return found is not None and _is_literal(found["value"])


def masked_arguments(arguments: Sequence[str]) -> list[str]:
    """The arguments to show to a person, with `***` in place of each that looks like a secret."""
    masked = list(arguments)
    for position in secret_arguments(arguments):
        masked[position] = "***"
    return masked


def has_secret(address: str) -> bool:
    """True if an address names a user or password, has a secret in its path, query or fragment, or cannot be read."""
    return _holds_secret(address, 1)


def _holds_secret(address: str, level: int) -> bool:
    """As `has_secret`, for an address that may be a part of another one, `level` of them in all."""
    try:
        parts = urlsplit(address)
        user = parts.username
        password = parts.password
    except ValueError:
        return True
    if _is_secret_login(parts.scheme, user, password):
        return True
    if _has_worded(unquote(address)):
        return True
    if any(_RANDOM_SEGMENT.fullmatch(segment) for segment in parts.path.split("/")):
        return True
    if _has_secret_pair(unquote(f"{parts.query}&{parts.fragment}"), level):
        return True
    return _KNOWN_KEY.search(address) is not None


def _is_secret_login(scheme: str, user: str | None, password: str | None) -> bool:
    """True if the user or the password of an address lets a caller in."""
    if password:
        return _is_literal(password)
    # A database has users with names; on the web, a name without a password is a token.
    if user and scheme in _WEB_SCHEMES:
        return _is_literal(user)
    return False


def _has_secret_pair(query: str, level: int) -> bool:
    """True if a pair of a name and a value in a query is a secret."""
    for pair in re.split("[&;]", query):
        name, _, value = pair.partition("=")
        if _is_secret(name, value, level) or _is_signature(name, value):
            return True
    return False


def _is_signature(name: str, value: str) -> bool:
    """True for a part of a query that grants access by itself."""
    return _SIGNATURE_NAME.fullmatch(name) is not None and _is_literal(value)


def is_known_key(word: str) -> bool:
    """True if a word begins as the keys of a known service do, such as one that was put in place of a name."""
    return _KNOWN_KEY.match(word) is not None


def references_in(text: str) -> tuple[str, ...]:
    """The names of the variables that a text refers to, such as `${NAME}` or `${NAME:-default}`."""
    return tuple(
        dict.fromkeys(re.findall(r"\$\{(?:env:)?([A-Za-z_]\w*)(?::-[^}]*)?\}", text))
    )


def _named_values(arguments: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    """Each argument that has a value, with the name of its option, and whether the next argument is that value."""
    option = ""
    for position, argument in enumerate(arguments):
        if option and (
            not argument.startswith("-") or _is_dashed_secret(option, argument)
        ):
            yield position, option, argument
        option = ""
        name, equals, value = argument.partition("=")
        # `-eNAME=value` of docker: the letter is not part of the name.
        name = re.sub("^-e(?=[A-Z])", "", name)
        if equals and re.fullmatch(r"-{0,2}[A-Za-z_][\w.-]*", name):
            yield position, name.lstrip("-"), value
        elif argument.startswith("-") and not equals:
            option = argument.lstrip("-")
        yield position, "", argument


def _is_dashed_secret(option: str, argument: str) -> bool:
    """True if what follows an option that takes a secret is longer than `-v`, and not written like `--verbose`."""
    return (
        bool(_SECRET_NAME.fullmatch(option))
        and re.fullmatch(r"-[^-].+", argument) is not None
    )


def _has_worded(text: str) -> bool:
    """True if a text holds a secret with its name."""
    marked = _REFERENCE.sub("\0", _COMMAND_REFERENCE.sub("\0", text))
    for found in _WORDED.finditer(marked):
        value = found["value"].strip("\0\\{}()[]")
        is_file = _FILE_NAME.fullmatch(found["name"]) and _PATH.fullmatch(value)
        if value and not is_file and not _PLAIN_VALUE.fullmatch(value):
            return True
    return False


def _is_secret(name: str, value: str, level: int) -> bool:
    """True if a value, with the name of its option or variable, looks like a secret; the name may be empty.

    `level` counts the addresses that the value is a part of.
    """
    if _KNOWN_KEY.search(value) or (not name and _is_nameless_secret(value, level)):
        return True
    if _FILE_NAME.fullmatch(name) and _PATH.fullmatch(value):
        return False
    if _SECRET_NAME.fullmatch(name):
        return _is_literal(value)
    secret = _secret_in_header(name, value)
    if secret is not None:
        return _is_literal(secret)
    is_doubtful = bool(name) and _DOUBTFUL_NAME.fullmatch(name) is not None
    return is_doubtful and _RANDOM.fullmatch(value) is not None


def _is_nameless_secret(value: str, level: int) -> bool:
    """True if a text that is not the value of an option has a secret in it."""
    if "://" in value:
        is_too_deep = level == _MOST_LEVELS
        if is_too_deep or _holds_secret(value, level + 1):
            return True
    if _has_worded(value) or _PASSWORD_IN_SCRIPT.search(value):
        return True
    return _is_bearer(value)


def _secret_in_header(name: str, value: str) -> str | None:
    """The value of a header that takes a secret, as `Authorization` does; None for any other text."""
    is_header = name in _HEADER_OPTIONS or _SURE_HEADER.match(value)
    header = _HEADER.fullmatch(value) if is_header else None
    if not header:
        return None
    short = header["name"].removeprefix("x-").removeprefix("X-")
    if _SECRET_NAME.fullmatch(short):
        return header["value"]
    return None


def _is_bearer(value: str) -> bool:
    bearer = _BEARER.fullmatch(value)
    return bearer is not None and _is_literal(bearer["value"])


def _is_literal(value: str) -> bool:
    """True unless a value consists of references to other values."""
    rest = _SCHEME_WORD.sub("", _REFERENCE.sub("", value).strip())
    return bool(rest.strip(" \"'"))
