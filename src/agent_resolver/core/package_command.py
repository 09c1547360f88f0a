"""Commands that fetch a package and run it: which words of their command lines name packages.

Only options that are listed here are understood. Any other one may or may not take the next word as its value, so what
follows it cannot be told, and the command line counts as unclear.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct, structs

from agent_resolver.schema.index import Launch

Ecosystem = Literal["npm", "pypi", "oci"]


class Spec(Struct, frozen=True, kw_only=True):
    """A place in a command line that names a package."""

    ecosystem: Ecosystem
    text: str
    position: int
    """The word that holds it."""
    prefix: str = ""
    """What comes before it in its word, such as `--package=`."""
    is_main: bool = True
    """False for a package that is only added to the one that runs."""


class PackageCommand(Struct, frozen=True, kw_only=True):
    """A command line that fetches packages."""

    words: tuple[str, ...]
    """The command and its arguments, without a shell around them."""
    specs: tuple[Spec, ...] = ()
    unclear: str = ""
    """The word that is not understood; the packages cannot be told then."""


class _Runner(Struct, frozen=True, kw_only=True):
    """How one command that runs packages reads its options."""

    ecosystem: Ecosystem
    subcommands: tuple[str, ...] = ()
    naming: frozenset[str] = frozenset()
    """Options whose value is the package, in place of the first word."""
    adding: frozenset[str] = frozenset()
    """Options whose value is one more package."""
    valued: frozenset[str] = frozenset()
    flags: frozenset[str] = frozenset()
    runs_word: bool = True
    """True if the first word is a package, unless an option has named it."""

    @property
    def takes_value(self) -> frozenset[str]:
        return self.naming | self.adding | self.valued


def read_command(launch: Launch) -> PackageCommand | None:
    """The packages that a launch record fetches; None for a command that fetches none."""
    words: tuple[str, ...] = (launch.command, *launch.args)
    for _ in range(_MOST_WRAPPERS):
        inner = _inside_wrapper(words)
        if inner is None:
            return _read_words(words)
        words = inner
    return PackageCommand(words=words, unclear=words[0])


def _read_words(words: tuple[str, ...]) -> PackageCommand | None:
    if _program(words[0]) == "deno":
        return _read_deno(words)
    for runner in _RUNNERS.get(_program(words[0]), ()):
        found = _read_with(runner, words)
        if found is not None:
            return found
    return None


def _read_with(runner: _Runner, words: tuple[str, ...]) -> PackageCommand | None:
    specs: list[Spec] = []
    here = 1
    for subcommand in runner.subcommands:
        here, unclear = _take_options(runner, words, here, specs)
        if unclear:
            # Without this subcommand, nothing is fetched, whatever the option means.
            return PackageCommand(words=words, unclear=unclear) if subcommand in words[here:] else None
        if words[here : here + 1] != (subcommand,):
            return None
        here += 1
    here, unclear = _take_options(runner, words, here, specs)
    if unclear:
        return PackageCommand(words=words, unclear=unclear)
    is_named = any(spec.is_main for spec in specs)
    if runner.runs_word and not is_named:
        if here >= len(words):
            return PackageCommand(words=words, unclear=words[0])
        specs.insert(0, Spec(ecosystem=runner.ecosystem, text=words[here], position=here))
    return PackageCommand(words=words, specs=tuple(specs)) if specs else None


def _take_options(runner: _Runner, words: Sequence[str], here: int, specs: list[Spec]) -> tuple[int, str]:
    """Pass over options, and collect the packages that they name; the next word, and the option that is not known."""
    while here < len(words) and words[here].startswith("-") and words[here] != "-":
        word = words[here]
        if word == "--":
            return here + 1, ""
        name, equals, value = word.partition("=")
        here += 1
        if name in runner.takes_value:
            place, prefix = (here - 1, f"{name}=") if equals else (here, "")
            text = value if equals else "".join(words[here : here + 1])
            here += 0 if equals else 1
            if name not in runner.valued:
                is_main = name in runner.naming
                spec = Spec(ecosystem=runner.ecosystem, text=text, position=place, prefix=prefix, is_main=is_main)
                specs.append(spec)
        elif name not in runner.flags:
            taken = _words_of_cluster(runner, word)
            if taken is None:
                return here, word
            here += taken
    return here, ""


def _words_of_cluster(runner: _Runner, word: str) -> int | None:
    """How many further words a cluster such as `-it` takes; None if it is not understood."""
    if word.startswith("--"):
        return None
    for place, letter in enumerate(word[1:], 2):
        option = f"-{letter}"
        if option in runner.valued:
            return 0 if word[place:] else 1
        if option not in runner.flags:
            return None
    return 0


def _read_deno(words: tuple[str, ...]) -> PackageCommand | None:
    """What Deno runs of npm says so: `npm:name@version`."""
    for position, word in enumerate(words):
        if word.startswith("npm:"):
            spec = Spec(ecosystem="npm", text=word.removeprefix("npm:"), position=position, prefix="npm:")
            return PackageCommand(words=words, specs=(spec,))
    return None


def _program(command: str) -> str:
    """The name of a program, without its folder and without what Windows adds to it."""
    name = command.replace("\\", "/").rpartition("/")[2].lower()
    stem, _, suffix = name.rpartition(".")
    return stem if stem and suffix in {"exe", "cmd", "bat", "ps1"} else name


def _inside_wrapper(words: tuple[str, ...]) -> tuple[str, ...] | None:
    """The command line that a shell, or a command such as `env`, runs; None for any other command.

    What comes before `--` in the command line of another program prepares the command after it.
    """
    program = _program(words[0])
    if program in _FETCHING:
        return None
    if program in _SHELLS:
        return _first_fetching(_script_of(words))
    if program == "cmd":
        words = tuple(" ".join(words).split())
    rest = words[words.index("--") :] if "--" in words else ()
    candidates = words if program in _WRAPPERS else rest[:2]
    places = (place for place, word in enumerate(candidates) if _program(word) in _FETCHING | _SHELLS)
    first = next(places, None)
    if first is None:
        return None
    return (words if program in _WRAPPERS else rest)[first:]


def _script_of(words: tuple[str, ...]) -> str:
    """What a shell is given to run; empty where it runs a file."""
    options = (place for place, word in enumerate(words) if _SCRIPT.fullmatch(word))
    place = next(options, len(words))
    return "".join(words[place + 1 : place + 2])


def _first_fetching(script: str) -> tuple[str, ...] | None:
    """The first command of a shell script that may fetch a package."""
    try:
        commands = list(_commands_in(script))
    except ValueError:  # A quotation mark is not closed.
        return None
    return next((command for command in commands if _program(command[0]) in _FETCHING | _SHELLS | _WRAPPERS), None)


def _commands_in(script: str) -> Iterator[tuple[str, ...]]:
    lexer = shlex.shlex(script, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    command: list[str] = []
    for word in (*lexer, ";"):
        if not set(word) <= _PUNCTUATION:
            command.append(word)
        elif command:
            yield tuple(command[1:] if command[0] == "exec" and len(command) > 1 else command)
            command = []


def _options(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NPX: Final = _Runner(
    ecosystem="npm",
    naming=_options("-p --package"),
    valued=_options(
        "--cache --loglevel --node-options --prefix --registry --script-shell --shell --userconfig --workspace -w"
    ),
    flags=_options(
        "--bun --ignore-existing --ignore-scripts --no --no-install --offline --prefer-offline --prefer-online --quiet "
        "--silent --verbose --workspaces --yes -q -s -y"
    ),
)
_PNPM: Final = _Runner(
    ecosystem="npm",
    subcommands=("dlx",),
    naming=_options("--package"),
    valued=_options("--allow-build --dir --loglevel --registry --reporter -C"),
    flags=_options("--shell-mode --silent -c -s"),
)
_YARN: Final = _Runner(
    ecosystem="npm",
    subcommands=("dlx",),
    naming=_options("--package -p"),
    valued=_options("--cwd"),
    flags=_options("--quiet --silent -q -s"),
)
_UVX: Final = _Runner(
    ecosystem="pypi",
    naming=_options("--from"),
    adding=_options("--with -w"),
    valued=_options(
        "--allow-insecure-host --build-constraints --cache-dir --color --config-file --config-setting --constraints "
        "--default-index --directory --env-file --exclude-newer --extra-index-url --find-links --index "
        "--index-strategy --index-url --keyring-provider --link-mode --overrides --prerelease --project --python "
        "--python-platform --refresh-package --reinstall-package --resolution --upgrade-package "
        "--with-editable --with-requirements -C -P -b -c -f -i -p"
    ),
    flags=_options(
        "--compile-bytecode --isolated --managed-python --native-tls --no-binary --no-build --no-cache --no-config "
        "--no-env-file --no-index --no-managed-python --no-progress --no-python-downloads --no-sources --offline "
        "--quiet --refresh --reinstall --system-certs --upgrade --verbose -U -n -q -v"
    ),
)
_UV_RUN: Final = structs.replace(
    _UVX,
    subcommands=("run",),
    naming=frozenset(),
    valued=_UVX.valued | _options("--extra --group --no-group --only-group --package"),
    flags=_UVX.flags
    | _options(
        "--active --all-extras --all-groups --all-packages --dev --exact --frozen --gui-script --locked --module "
        "--no-default-groups --no-dev --no-editable --no-project --no-sync --only-dev --script -m -s"
    ),
    runs_word=False,
)
_PIPX: Final = _Runner(
    ecosystem="pypi",
    subcommands=("run",),
    naming=_options("--spec"),
    adding=_options("--with"),
    valued=_options("--index-url --pip-args --python -i"),
    flags=_options(
        "--fetch-missing-python --no-cache --path --pypackages --quiet --system-site-packages --verbose -q -v"
    ),
)
_DOCKER: Final = _Runner(
    ecosystem="oci",
    subcommands=("run",),
    valued=_options(
        "--add-host --annotation --attach --blkio-weight --blkio-weight-device --cap-add --cap-drop --cgroup-parent "
        "--cgroupns --cidfile --config --context --cpu-period --cpu-quota --cpu-rt-period --cpu-rt-runtime "
        "--cpu-shares --cpus --cpuset-cpus --cpuset-mems --detach-keys --device --device-cgroup-rule "
        "--device-read-bps --device-read-iops --device-write-bps --device-write-iops --dns --dns-option --dns-search "
        "--domainname --entrypoint --env --env-file --expose --gpus --group-add --health-cmd --health-interval "
        "--health-retries --health-start-period --health-timeout --host --hostname --ip --ip6 --ipc --isolation "
        "--label --label-file --link --log-driver --log-level --log-opt --mac-address --memory --memory-reservation "
        "--memory-swap --memory-swappiness --mount --name --network --network-alias --oom-score-adj --pid "
        "--pids-limit --platform --publish --pull --restart --runtime --secret --security-opt --shm-size --stop-signal "
        "--stop-timeout --storage-opt --sysctl --tmpfs --ulimit --user --userns --uts --volume --volume-driver "
        "--volumes-from --workdir -H -a -c -e -h -l -m -p -u -v -w"
    ),
    flags=_options(
        "--debug --detach --env-host --http-proxy --init --interactive --no-healthcheck --no-hosts --oom-kill-disable "
        "--privileged --publish-all --quiet --read-only --replace --rm --rmi --sig-proxy --tls --tls-verify "
        "--tlsverify --tty -D -P -d -i -q -t"
    ),
)


def _with_subcommands(runner: _Runner, *subcommands: str) -> _Runner:
    return structs.replace(runner, subcommands=subcommands)


_CONTAINERS: Final = (_DOCKER, _with_subcommands(_DOCKER, "container", "run"))
_RUNNERS: Final[Mapping[str, tuple[_Runner, ...]]] = {
    "npx": (_NPX,),
    "npm": (_with_subcommands(_NPX, "exec"), _with_subcommands(_NPX, "x")),
    "bunx": (_NPX,),
    "bun": (_with_subcommands(_NPX, "x"),),
    "pnpx": (_with_subcommands(_PNPM),),
    "pnpm": (_PNPM,),
    "yarn": (_YARN,),
    "uvx": (_UVX,),
    "uv": (
        _with_subcommands(_UVX, "tool", "run"),
        _UV_RUN,
    ),
    "pipx": (_PIPX,),
    "docker": _CONTAINERS,
    "podman": _CONTAINERS,
    "nerdctl": _CONTAINERS,
}
"""The ways of each program to run a package."""
_FETCHING: Final = frozenset({*_RUNNERS, "deno"})
_SHELLS: Final = frozenset({"ash", "bash", "dash", "fish", "powershell", "pwsh", "sh", "zsh"})
_WRAPPERS: Final = frozenset({"cmd", "doas", "env", "nice", "stdbuf", "sudo", "timeout"})
"""Programs whose arguments are the command line of another one, after options of their own."""
_SCRIPT: Final = re.compile("-[a-z]*c|-command", re.IGNORECASE)
_PUNCTUATION: Final = frozenset("();<>|&")
_MOST_WRAPPERS: Final = 4
