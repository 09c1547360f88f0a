"""The packages that launch records fetch: their names, whether their version is pinned, and how to pin it."""

import re
import shlex
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Literal
from urllib.parse import quote

from msgspec import Struct

from agent_resolver.core.package_command import PackageCommand, read_command
from agent_resolver.core.package_runner import Ecosystem
from agent_resolver.schema.index import Launch

PackageKind = Literal["npm", "pypi", "oci", "git", "url"]


class Package(Struct, frozen=True, kw_only=True):
    """A package that a launch record fetches and runs."""

    kind: PackageKind
    name: str
    version: str | None = None
    """As it is written: an exact version, a range, a tag, or the commit of a repository."""
    digest: str | None = None
    """The digest of an image."""
    extras: str = ""
    """The optional parts of a Python package, as `[cli]`."""

    @property
    def is_pinned(self) -> bool:
        """True if it names the same bytes whenever it is fetched; a tag of an image does not."""
        if self.kind == "oci":
            stated, pattern = self.digest, _DIGEST
        elif self.kind in _EXACT:
            stated, pattern = self.version, _EXACT[self.kind]
        else:
            return False
        return stated is not None and pattern.fullmatch(stated) is not None


class FloatingKind(StrEnum):
    """The reasons for which a package can be another one tomorrow."""

    NO_VERSION = "no-version"
    RANGE = "range"
    TAG = "tag"
    """The tag of an image, without its digest: a weaker pin, which the publisher can move."""
    UNCLEAR = "unclear"
    URL = "url"


class Floating(Struct, frozen=True):
    """A package whose version is not pinned."""

    kind: FloatingKind
    message: str

    @property
    def is_weak_pin(self) -> bool:
        """True where a version is named that only the publisher can change."""
        return self.kind is FloatingKind.TAG


def packages_of(launch: Launch) -> tuple[Package, ...]:
    """The packages that a launch record fetches, the one that runs first; none for a plain command."""
    command = read_command(launch)
    specs = command.specs if command else ()
    # The sort is stable, so added packages keep their order behind the one that runs.
    main_first = sorted(specs, key=lambda spec: not spec.is_main)
    found = (read_package(spec.ecosystem, spec.text) for spec in main_first)
    return tuple(package for package in found if package is not None)


def package_of(launch: Launch) -> Package | None:
    """The package that a launch record runs; None for a plain command."""
    return next(iter(packages_of(launch)), None)


def read_package(ecosystem: Ecosystem, text: str) -> Package | None:
    """The package that a command line names; None for a file or a folder of this machine."""
    if ecosystem == "oci":
        return _image(text)
    if ecosystem == "pypi":
        # In a direct reference, `name @ address` (PEP 508), the address decides what is
        # fetched.
        text = text.rpartition(" @ ")[2].strip()
    if _LOCAL.match(text):
        return None
    # npm reads `owner/name` as a repository of GitHub.
    if ecosystem == "npm" and _SHORTHAND.fullmatch(text):
        text = f"github:{text}"
    # Before plain addresses: a repository may have an address with `://` as well.
    if _GIT.match(text):
        return _repository(text)
    if "://" in text:
        return Package(kind="url", name=text)
    if ecosystem == "npm":
        return _npm_package(text)
    return _python_package(text)


def floating_reason(launch: Launch) -> Floating | None:
    """The reason why a launch record may run something else tomorrow; None if it is pinned or fetches nothing."""
    command = read_command(launch)
    if command is None:
        return None
    if command.unclear:
        message = (
            f"`{command.unclear}` is not understood here, so the package that "
            f"`{command.words[0]}` runs is not known"
        )
        return Floating(FloatingKind.UNCLEAR, message)
    found = filter(None, map(_floating_package, packages_of(launch)))
    # A package without any version is worse than an image with a tag.
    return min(found, key=lambda floating: floating.is_weak_pin, default=None)


def pinned_form(launch: Launch, version: str) -> str:
    """The command line with each package pinned, to be written into the index; empty where none can be said.

    Args:
        launch: The launch record.
        version: The version of the server; a placeholder takes its place where it cannot be that of the package.
    """
    command = read_command(launch)
    if command is None or command.unclear:
        return ""
    words = list(command.words)
    for spec in command.specs:
        package = read_package(spec.ecosystem, spec.text)
        if package is None or package.is_pinned:
            continue
        if package.kind == "url":
            return ""
        # The version of the server says nothing about packages that are only added.
        own_version = version if spec.is_main else ""
        pinned = _pinned_text(package, own_version)
        words[spec.position] = f"{spec.prefix}{pinned}"
    before = _words_before(launch, command)
    return shlex.join((*before, *words))


def _words_before(launch: Launch, command: PackageCommand) -> tuple[str, ...]:
    """The words before a command line that another program runs, as in `op run -- npx …`; none for a script."""
    whole = (launch.command, *launch.args)
    start = len(whole) - len(command.words)
    if start > 0 and whole[start:] == command.words:
        return whole[:start]
    return ()


def package_url(package: Package) -> str | None:
    """The package URL, as bills of materials name a package; None if it comes from no registry."""
    if package.kind in {"git", "url"}:
        return None
    if package.kind == "oci":
        return _image_url(package)
    name = package.name
    if package.kind == "pypi":
        # PEP 503: a run of `-`, `_` and `.` is one hyphen, and case does not count.
        name = re.sub(r"[-_.]+", "-", name).lower()
    path = "/".join(quote(part, safe="") for part in name.split("/"))
    url = f"pkg:{package.kind}/{path}"
    if package.version and package.is_pinned:
        url += f"@{quote(package.version, safe='')}"
    return url


def _image_url(package: Package) -> str:
    # https://github.com/package-url/purl-spec, type `oci`: the version is the digest,
    # the rest are qualifiers.
    _, slash, name = package.name.rpartition("/")
    # A name without a folder is that of one of Docker's own images.
    repository = package.name if slash else f"docker.io/library/{package.name}"
    url = f"pkg:oci/{quote(name.lower(), safe='')}"
    if package.digest:
        url += f"@{quote(package.digest, safe='')}"
    url += f"?repository_url={quote(repository, safe='/:')}"
    if package.version:
        url += f"&tag={quote(package.version, safe='')}"
    return url


def _floating_package(package: Package) -> Floating | None:
    if package.is_pinned:
        return None
    if package.kind == "url":
        return Floating(
            FloatingKind.URL,
            f"`{package.name}` is an address, and what is there can change",
        )
    if package.version is None:
        return Floating(
            FloatingKind.NO_VERSION, f"`{package.name}` is fetched without a version"
        )
    # `latest` is also what an absent tag means, so that tag pins nothing.
    if package.kind == "oci" and package.version != "latest":
        message = f"`{package.name}:{package.version}` is a tag without a digest, and its publisher can move it"
        return Floating(FloatingKind.TAG, message)
    message = f"`{package.version}` of `{package.name}` is not one version, but whichever is newest"
    return Floating(FloatingKind.RANGE, message)


def _pinned_text(package: Package, version: str) -> str:
    if package.kind == "oci":
        tag = f":{package.version}" if package.version not in {None, "latest"} else ""
        return f"{package.name}{tag}@sha256:<digest>"
    if package.kind == "git":
        separator = "@" if package.name.startswith("git+") else "#"
        return f"{package.name}{separator}<commit>"
    exact = version if _EXACT[package.kind].fullmatch(version) else "<version>"
    separator = "@" if package.kind == "npm" else "=="
    return f"{package.name}{package.extras}{separator}{exact}"


def _image(text: str) -> Package:
    reference, _, digest = text.partition("@")
    folder, slash, last = reference.rpartition("/")
    # Only the part behind the last slash has a tag: a colon before it begins the port
    # of the registry.
    name, _, tag = last.partition(":")
    return Package(
        kind="oci",
        name=f"{folder}{slash}{name}",
        version=tag or None,
        digest=digest or None,
    )


def _repository(text: str) -> Package:
    address, _, reference = text.partition("#")
    # pip and uv write the commit after an `@` of the path; one before the path is that
    # of a user.
    path = address.rfind("/")
    at = address.find("@", path)
    if text.startswith("git+") and at > path >= 0:
        return Package(kind="git", name=address[:at], version=address[at + 1 :])
    return Package(kind="git", name=address, version=reference or None)


def _npm_package(text: str) -> Package:
    # An `@` at the beginning belongs to the scope of the package, as in
    # `@acme/server@1.2.3`.
    start = 0
    at = text.find("@", 1)
    # In an alias, `name@npm:other@1.2.3`, what counts is the package behind it.
    while at >= 0 and text.startswith("npm:", at + 1):
        start = at + len("@npm:")
        at = text.find("@", start + 1)
    if at < 0:
        return Package(kind="npm", name=text[start:])
    version = text[at + 1 :]
    # npm reads a version with a leading `v` or `=` as the same version.
    if version[:1] in {"v", "="}:
        version = version[1:]
    return Package(kind="npm", name=text[start:at], version=version or None)


def _python_package(text: str) -> Package:
    found = _REQUIREMENT.match(text)
    if found is None:
        return Package(kind="pypi", name=text)
    name, extras, rest = found.groups()
    # Behind the semicolon are markers of the environment (PEP 508), which choose no
    # version.
    version = rest.partition(";")[0].strip()
    # `===` is tried first, since it begins with `==`.
    for operator in ("===", "==", "@"):
        if version.startswith(operator):
            version = version.removeprefix(operator).strip()
            break
    return Package(
        kind="pypi",
        name=name,
        version=version or None,
        extras=extras or "",
    )


_DIGEST: Final = re.compile("sha256:[0-9a-f]{64}")
_EXACT: Final[Mapping[str, re.Pattern[str]]] = {
    "npm": re.compile(r"\d+\.\d+\.\d+(?:[-+][0-9A-Za-z.+-]+)?", re.ASCII),
    "pypi": re.compile(r"\d[0-9A-Za-z.!+_-]*", re.ASCII),
    "git": re.compile("[0-9a-f]{40}"),
}
"""What a version of each kind looks like that is one version."""
_LOCAL: Final = re.compile(r"[./~]|file:|[A-Za-z]:[\\/]")
_SHORTHAND: Final = re.compile(r"[\w.-]+/[\w.-]+(?:#.*)?")
_GIT: Final = re.compile(
    r"git\+|git:|git@|github:|gitlab:|bitbucket:|gist:|https?://[^#]*\.git(?:#|$)"
)
_REQUIREMENT: Final = re.compile(
    r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*(\[[^\]]*\])?(.*)", re.DOTALL
)
