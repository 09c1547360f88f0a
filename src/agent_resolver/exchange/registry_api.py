"""The API of the official registry: all pages of its list of servers, or those that changed since the last time."""

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec
from msgspec import Struct

from agent_resolver.exchange.fetch import Fetched, Fetcher, FetchFailed, public_form

MAX_PAGES: Final = 2_000
"""The most pages that one sync may take."""
_ALWAYS_ASKED: Final = {
    "limit": "100",
    # Otherwise a registry leaves out what it has withdrawn, and nothing would say so to
    # an index that has it.
    "include_deleted": "true",
}
_MAX_CURSOR: Final = 4_096
_PATHS: Final = ("/v0.1/servers", "/v0/servers")
_OFFICIAL: Final = "io.modelcontextprotocol.registry/official"
_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")

ServerKey = tuple[str, str]


class FetchedPart(Struct, frozen=True):
    """One document that was fetched."""

    url: str
    digest: str
    bytes: int


class RegistryPages(Struct, frozen=True):
    """The answers of a registry."""

    servers: dict[ServerKey, Any]
    """Each server as the registry gives it, by name and version."""
    parts: tuple[FetchedPart, ...]
    updated: str
    """The time of the newest change among the servers; empty if none says it."""


class _Metadata(Struct):
    next_cursor: str | None = msgspec.field(default=None, name="nextCursor")
    older_cursor: str | None = msgspec.field(default=None, name="next_cursor")


class _Page(Struct):
    servers: list[dict[str, Any]]
    metadata: _Metadata | None = None


def is_registry(url: str) -> bool:
    """True for the address of a registry or of its list of servers; any other address is that of a file."""
    path = urlsplit(url).path.rstrip("/")
    return not path or path.endswith("/servers")


def fetch_registry(
    fetcher: Fetcher, url: str, updated_since: str = ""
) -> RegistryPages:
    """Every page of a registry's list of servers.

    Args:
        fetcher: What the pages are fetched with.
        url: The registry, or its list of servers; a query such as `?version=latest` narrows it.
        updated_since: Ask only for what changed since this time.

    Raises:
        FetchFailed: A page cannot be fetched or is not one, or there is no end to them.
    """
    address = _list_address(fetcher, url)
    cursor = ""
    narrowing = dict(parse_qsl(urlsplit(url).query))
    servers: dict[ServerKey, Any] = {}
    parts: list[FetchedPart] = []
    seen: set[str] = set()
    for _ in range(MAX_PAGES):
        query = {
            **narrowing,
            **_ALWAYS_ASKED,
            "cursor": cursor,
            "updated_since": updated_since,
        }
        fetched = fetcher.get(
            f"{address}?{urlencode({key: value for key, value in query.items() if value})}"
        )
        page = _page_of(fetched)
        parts.append(part_of(fetched))
        servers.update(
            (server_key(fetched.url, server), server) for server in page.servers
        )
        following = _cursor_after(page)
        if not following:
            return RegistryPages(servers, tuple(parts), newest_change(servers.values()))
        if following in seen or len(following) > _MAX_CURSOR:
            raise FetchFailed(
                fetched.url, "names a page that it named before: its list has no end"
            )
        seen.add(following)
        cursor = following
    raise FetchFailed(address, f"has more than {MAX_PAGES:,} pages")


def part_of(fetched: Fetched) -> FetchedPart:
    """What is kept about a document that was fetched."""
    content = fetched.content
    return FetchedPart(
        public_form(fetched.url), f"sha256-{sha256(content).hexdigest()}", len(content)
    )


def server_key(url: str, server: Mapping[str, Any]) -> ServerKey:
    """The name and version of a server of a page.

    Raises:
        FetchFailed: It has no name.
    """
    inner = server.get("server", server)
    name = inner.get("name") if isinstance(inner, dict) else None
    if not isinstance(name, str) or not name:
        raise FetchFailed(
            url, "lists a server without a name: it is not a page of the registry's API"
        )
    detail = inner.get("version_detail")
    older = detail.get("version") if isinstance(detail, dict) else None
    version = inner.get("version") or older
    return name, version if isinstance(version, str) else ""


def newest_change(servers: Iterable[Mapping[str, Any]]) -> str:
    """The time of the newest change among servers; empty if none says it."""
    return max(filter(None, map(_changed_at, servers)), default="")


def _changed_at(server: Mapping[str, Any]) -> str:
    meta = server.get("_meta")
    official = meta.get(_OFFICIAL) if isinstance(meta, dict) else None
    if not isinstance(official, dict):
        return ""
    instant = official.get("updatedAt") or official.get("updated_at")
    if isinstance(instant, str) and _INSTANT.fullmatch(instant):
        return instant
    return ""


def _list_address(fetcher: Fetcher, url: str) -> str:
    """The address of the list: of the newest revision of the API that the registry has."""
    parts = urlsplit(url)
    base = parts._replace(path=parts.path.rstrip("/"), query="", fragment="").geturl()
    if parts.path.rstrip("/"):
        return base
    newest, older = (f"{base}{path}" for path in _PATHS)
    try:
        fetcher.get(f"{newest}?limit=1")
    except FetchFailed as error:
        if "HTTP 404" not in str(error):
            raise
        return older
    return newest


def _page_of(fetched: Fetched) -> _Page:
    try:
        return msgspec.json.decode(fetched.content, type=_Page)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FetchFailed(
            fetched.url, f"is not a page of the registry's API: {error}"
        ) from None


def _cursor_after(page: _Page) -> str:
    metadata = page.metadata or _Metadata()
    return metadata.next_cursor or metadata.older_cursor or ""
