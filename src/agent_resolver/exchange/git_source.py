"""A git repository as a source: a shallow clone by the `git` command, of which only data files are taken."""

import os
import shutil
import socket
import stat
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Final

from msgspec import Struct

from agent_resolver.exchange.fetch import (
    MAX_FETCHED_BYTES,
    FetchFailed,
    is_public,
    split_url,
)
from agent_resolver.storage.process_tree import kill_descendants

_SUFFIXES: Final = (".json", ".jsonc", ".yaml", ".yml", ".toml")
_MAX_FILES: Final = 20_000
_MAX_FILE_BYTES: Final = 4 * 1024 * 1024
_LOOK_SECONDS: Final = 0.1
_MAX_WORDS: Final = 200

_SETTINGS: Final = (
    # A repository must bring no code: no hooks, no links out of its folder, no filters
    # of the user's settings.
    "core.hooksPath=/dev/null",
    "core.symlinks=false",
    "core.fsmonitor=false",
    "http.followRedirects=false",
    "transfer.fsckObjects=true",
)


class Cloned(Struct, frozen=True):
    """The files of a repository."""

    files: dict[str, bytes]
    """The data files by path, with `/` between folders."""
    commit: str


def clone_files(
    repository: str,
    environment: Mapping[str, str],
    *,
    seconds: float,
    allows_private: bool,
) -> Cloned:
    """The data files of the newest commit of a repository.

    Args:
        repository: An `https` address, or a folder of this machine.
        environment: The variables of this process; few of them reach `git`.
        seconds: How long it may take.
        allows_private: True if the host may have a private address.

    Raises:
        FetchFailed: It cannot be cloned, breaks a rule or is too large.
    """
    is_local = os.path.isdir(repository)
    settings = (
        [] if is_local else _host_settings(repository, allows_private=allows_private)
    )
    with tempfile.TemporaryDirectory(prefix="agent-sync-") as folder:
        target = os.path.join(folder, "clone")
        source = os.path.abspath(repository) if is_local else repository
        protocol = "file" if is_local else "https"
        _run_clone(
            source,
            target,
            environment,
            seconds=seconds,
            protocol=protocol,
            settings=settings,
        )
        return Cloned(_data_files(repository, target), _commit_of(target, environment))


def _host_settings(repository: str, *, allows_private: bool) -> list[str]:
    """The setting that has `git` call the addresses that were judged here.

    It would look the host up again, and the owner of its name could answer otherwise the second time.
    """
    parts = split_url(repository)
    if parts.scheme != "https":
        raise FetchFailed(
            repository,
            "is not an `https` address",
            "use `https`, or a folder of this machine",
        )
    port = parts.port or 443
    addresses = _addresses_of(repository, parts.hostname, port)
    private = [address for address in addresses if not is_public(address)]
    if private and not allows_private:
        hint = "`--allow-private` lets the host that you name have a private address"
        raise FetchFailed(
            repository,
            f"leads to the private address {private[0]}, which is not called",
            hint,
        )
    is_address = ":" in (parts.hostname or "")
    if is_address:
        return []
    listed = ",".join(map(_in_brackets, addresses))
    return [f"http.curloptResolve={parts.hostname}:{port}:{listed}"]


def _addresses_of(repository: str, host: str | None, port: int) -> list[str]:
    """The addresses of the host of a repository, each once."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise FetchFailed(repository, f"cannot be cloned: {error}") from None
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _in_brackets(address: str) -> str:
    """An address as a URL has it: one of IPv6 is in brackets."""
    return f"[{address}]" if ":" in address else address


def _run_clone(  # noqa: PLR0913 - what decides about a clone
    source: str,
    target: str,
    environment: Mapping[str, str],
    *,
    seconds: float,
    protocol: str,
    settings: Sequence[str],
) -> None:
    """Clone, and end it when its time or its space is used up."""
    configured = [
        word for setting in (*_SETTINGS, *settings) for word in ("-c", setting)
    ]
    options = [
        "--quiet",
        "--depth=1",
        "--single-branch",
        "--no-tags",
        "--no-recurse-submodules",
        "--template=",
    ]
    # A plain path would be copied with its links; as an address it is transferred like
    # any other.
    address = f"file://{source}" if protocol == "file" else source
    line = ["git", *configured, "clone", *options, "--", address, target]
    deadline = monotonic() + seconds
    with tempfile.TemporaryFile() as said:
        try:
            process = subprocess.Popen(  # noqa: S603 - the program and its options are fixed, the address is checked
                line,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                env=_environment_of_git(environment, protocol),
                start_new_session=True,
            )
        except OSError as error:
            raise FetchFailed(
                source, f"`git` cannot be started: {error.strerror}", "install git"
            ) from None
        problem = _watch(process, target, deadline, seconds)
        if problem:
            raise FetchFailed(source, problem)
        if process.returncode:
            said.seek(0)
            words = (
                said.read(_MAX_WORDS * 4).decode(errors="replace").strip().splitlines()
            )
            raise FetchFailed(
                source,
                f"cannot be cloned: {(words or ['git failed'])[-1][:_MAX_WORDS]}",
            )


def _watch(
    process: "subprocess.Popen[bytes]",
    target: str,
    deadline: float,
    seconds: float,
) -> str:
    """Wait for a clone to end; why it was ended, or nothing."""
    problem = ""
    try:
        while process.poll() is None and not problem:
            try:
                process.wait(_LOOK_SECONDS)
            except subprocess.TimeoutExpired:
                if monotonic() >= deadline:
                    problem = f"took longer than {seconds:g} seconds"
                elif _size_of(target) > MAX_FETCHED_BYTES:
                    problem = f"has more than {MAX_FETCHED_BYTES:,} bytes, the most that is fetched at once"
    finally:
        if process.poll() is None:
            kill_descendants(process.pid)
            process.kill()
            process.wait()
    return problem


def _environment_of_git(
    environment: Mapping[str, str], protocol: str
) -> dict[str, str]:
    kept = {
        name: environment[name]
        for name in ("PATH", "SSL_CERT_FILE", "SSL_CERT_DIR")
        if name in environment
    }
    return {
        **kept,
        "GIT_ALLOW_PROTOCOL": protocol,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_LFS_SKIP_SMUDGE": "1",
        "HOME": os.devnull,
        "LC_ALL": "C",
    }


def _size_of(folder: str) -> int:
    return sum(
        os.lstat(path).st_size
        for parent, _, names in os.walk(folder)
        for path in (os.path.join(parent, name) for name in names)
        if os.path.lexists(path)
    )


def _data_files(repository: str, folder: str) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    size = 0
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != ".git")
        for name in sorted(names):
            path = os.path.join(parent, name)
            found = os.lstat(path)
            if not name.endswith(_SUFFIXES) or not stat.S_ISREG(found.st_mode):
                continue
            relative = os.path.relpath(path, folder).replace(os.sep, "/")
            size += found.st_size
            if found.st_size > _MAX_FILE_BYTES:
                raise FetchFailed(
                    repository,
                    f"has a file of more than {_MAX_FILE_BYTES:,} bytes: `{relative}`",
                )
            if len(files) >= _MAX_FILES or size > MAX_FETCHED_BYTES:
                raise FetchFailed(
                    repository,
                    f"has more than {_MAX_FILES:,} files, or {MAX_FETCHED_BYTES:,} bytes",
                )
            with open(path, "rb") as file:
                files[relative] = file.read()
    return files


def _commit_of(folder: str, environment: Mapping[str, str]) -> str:
    git = shutil.which("git", path=environment.get("PATH")) or "git"
    done = subprocess.run(  # noqa: S603 - the program and its options are fixed
        [git, "-C", folder, "rev-parse", "HEAD"],
        capture_output=True,
        check=False,
        env=_environment_of_git(environment, "file"),
    )
    return done.stdout.decode(errors="replace").strip()
