"""Launch records for packages and images, and the versions that commands name."""

import re
from collections.abc import Sequence
from typing import Final

from agent_resolver.schema.index import Launch
from agent_resolver.schema.vocabulary import Transport

_FLOATING: Final = frozenset(
    {"latest", "main", "master", "edge", "nightly", "stable", "next", "*"}
)
_NPM_PACKAGE: Final = re.compile(r"(?P<name>@?[^@\s]+)@(?P<version>[^@\s]+)")
_PYPI_PACKAGE: Final = re.compile(
    r"(?P<name>[A-Za-z0-9._-]+(?:\[[^\]]*\])?)(?:==|@)(?P<version>[^\s@=]+)"
)
_PACKAGES: Final = {
    "npx": _NPM_PACKAGE,
    "bunx": _NPM_PACKAGE,
    "pnpx": _NPM_PACKAGE,
    "dnx": _NPM_PACKAGE,
    "uvx": _PYPI_PACKAGE,
    "pipx": _PYPI_PACKAGE,
}
"""How the programs that start packages spell one with its version."""
_CONTAINER_RUNNERS: Final = frozenset({"docker", "podman", "nerdctl"})
_OPTIONS_WITH_VALUE: Final = frozenset(
    {
        "-e",
        "--env",
        "-v",
        "--volume",
        "--mount",
        "-p",
        "--publish",
        "--name",
        "--network",
        "--env-file",
        "-u",
        "--user",
    }
    | {
        "-w",
        "--workdir",
        "--entrypoint",
        "--platform",
        "--add-host",
        "--memory",
        "--cpus",
        "-l",
        "--label",
        "--pull",
    }
)
_FROM: Final = frozenset({"--from", "--spec", "--package", "-p"})


def is_package_name(name: str) -> bool:
    """True if a program that starts packages or images takes a word for the name of one, and never for an option."""
    return name[:1] not in {"", "-"} and all(
        sign.isprintable() and not sign.isspace() for sign in name
    )


def npm_launch(package: str, version: str | None, after: Sequence[str]) -> Launch:
    """Starts an npm package with `npx`."""
    return Launch(command="npx", args=("-y", _pinned(package, version, "@"), *after))


def pypi_launch(package: str, version: str | None, after: Sequence[str]) -> Launch:
    """Starts a PyPI package with `uvx`."""
    return Launch(command="uvx", args=(_pinned(package, version, "=="), *after))


def nuget_launch(package: str, version: str | None, after: Sequence[str]) -> Launch:
    """Starts a NuGet package with `dnx`, where what the package takes comes after a double dash."""
    # Without the dashes `dnx` would take these words for options of its own.
    rest = ("--", *after) if after else ()
    return Launch(command="dnx", args=(_pinned(package, version, "@"), "--yes", *rest))


def container_launch(  # noqa: PLR0913 - what `docker run` takes
    image: str,
    environment: Sequence[str],
    after: Sequence[str] = (),
    *,
    constants: Sequence[str] = (),
    port: int | None = None,
    transport: Transport = "stdio",
) -> Launch:
    """Starts a container that gets variables by name, has no access to files, and is removed when it ends.

    Args:
        image: The image.
        environment: The names of the variables that it gets.
        after: What the image takes.
        constants: Variables with values that are the same for everyone, as `NAME=value`.
        port: The port that it listens on; it is reachable from this machine alone.
        transport: The protocol that it speaks.
    """
    args = ["run", "-i", "--rm"]
    if port:
        # Without an address, Docker would open the port to other machines.
        args += ("-p", f"127.0.0.1:{port}:{port}")
    for variable in (*environment, *constants):
        args += ("-e", variable)
    args += (image, *after)
    return Launch(
        command="docker",
        args=tuple(args),
        env=tuple(environment),
        transport=transport,
    )


def image_version(image: str) -> str | None:
    """The version that the tag of an image names; None where the tag moves, or there is none."""
    # A registry may have a port, as in `host:5000/image`, so a tag is searched in the
    # last part alone.
    address, _, _digest = image.partition("@")
    _, _, last_part = address.rpartition("/")
    _, _, tag = last_part.partition(":")
    return _fixed_version(tag)


def command_version(command: str, arguments: Sequence[str]) -> str | None:
    """The version of the package or image that a command starts, where it names one."""
    _, _, file = command.replace("\\", "/").rpartition("/")
    # npm installs `npx.cmd` on Windows.
    program = file.removesuffix(".exe").removesuffix(".cmd")
    if program in _CONTAINER_RUNNERS:
        image = _image_in(arguments)
        return image_version(image) if image else None
    pattern = _PACKAGES.get(program)
    package = _package_in(arguments)
    if pattern is None or package is None:
        return None
    found = pattern.fullmatch(package)
    return _fixed_version(found["version"]) if found else None


def _package_in(arguments: Sequence[str]) -> str | None:
    for position, argument in enumerate(arguments):
        if argument in _FROM and position + 1 < len(arguments):
            return arguments[position + 1]
        option, equals, value = argument.partition("=")
        if equals and option in _FROM:
            return value
        if not argument.startswith("-") and argument != "run":
            return argument
    return None


def _image_in(arguments: Sequence[str]) -> str | None:
    rest = iter(arguments)
    if next(rest, None) != "run":
        return None
    for argument in rest:
        if argument in _OPTIONS_WITH_VALUE:
            next(rest, None)
        elif not argument.startswith("-"):
            return argument
    return None


def _pinned(package: str, version: str | None, sign: str) -> str:
    if version and not _names_version(package, sign):
        return f"{package}{sign}{version}"
    return package


def _names_version(package: str, sign: str) -> bool:
    # The `@` of a scope, as in `@acme/notes`, begins the name and names no version.
    return sign in package[1:]


def _fixed_version(word: str) -> str | None:
    if not word or word in _FLOATING:
        return None
    # A range, a digest or a variable may stand for another version tomorrow.
    if any(character in word for character in "@|,<>{}$*^~ "):
        return None
    if re.match(r"v\d", word):
        return word.removeprefix("v")
    return word
