"""What a server is, whatever its version: the package that it starts, its command line, or the host that it calls."""

import re
from typing import Final
from urllib.parse import urlsplit

from agent_resolver.core.package import package_of
from agent_resolver.exchange.secret_argument import masked_arguments
from agent_resolver.schema.index import IndexEntry

_DEFAULT_HOST: Final = re.compile("^(?:docker\\.io/)?(?:library/)?")
"""What the name of an image may begin with, or leave out."""
_VERSION: Final = re.compile(r"@v?\d[\w.+-]*$", re.ASCII)


def reached_name(entry: IndexEntry) -> str:
    """The name of what an entry reaches, such as `npm:@acme/files`, without a version or what looks like a secret."""
    launch = entry.launch
    if not launch:
        return f"//{urlsplit(entry.endpoint or '').netloc.rpartition('@')[2].lower()}"
    package = package_of(launch)
    if package is None:
        words = masked_arguments([launch.command, *launch.args])
        return " ".join(_VERSION.sub("", word) for word in words)
    name = (
        _DEFAULT_HOST.sub("", package.name) if package.kind == "oci" else package.name
    )
    return f"{package.kind}:{name}"
