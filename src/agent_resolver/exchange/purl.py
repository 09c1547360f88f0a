"""The package URL of a server that is started from a package registry."""

import re
from typing import Final
from urllib.parse import quote

from agent_resolver.schema.index import Launch

_NPM: Final = re.compile(r"(@[^@/]+/)?([^@/]+)@(\d+\.\d+\.\d+[\w.+-]*)", re.ASCII)
_PYPI: Final = re.compile(r"()([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?(?:==|@)(\d[\w.!+]*)", re.ASCII)
_RUNNERS: Final = {"npx": ("npm", _NPM), "bunx": ("npm", _NPM), "uvx": ("pypi", _PYPI)}


def package_url_of(launch: Launch) -> str | None:
    """The package URL, as bills of materials name a package; None unless the command plainly runs one pinned package.

    Options that could name another package (`--package`, `--from`) are not read: nothing is said rather than a guess.
    """
    runner = launch.command.replace("\\", "/").rpartition("/")[2].removesuffix(".cmd")
    if runner not in _RUNNERS:
        return None
    kind, pattern = _RUNNERS[runner]
    words = [word for word in launch.args if word not in {"-y", "--yes"}]
    found = pattern.fullmatch(words[0]) if words else None
    if found is None:
        return None
    scope, name, version = found.groups()
    if kind == "pypi":
        name = re.sub(r"[-_.]+", "-", name).lower()
    folder = f"{quote(scope[:-1], safe='')}/" if scope else ""
    return f"pkg:{kind}/{folder}{quote(name, safe='')}@{quote(version, safe='')}"
