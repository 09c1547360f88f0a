"""The programs that fetch a package and run it, and the options that each of them understands.

Options that name another registry are not listed: a version there may be anything.
"""

from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct, structs

Ecosystem = Literal["npm", "pypi", "oci"]


class Runner(Struct, frozen=True, kw_only=True):
    """The way in which one command that runs packages reads its options."""

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


def options(text: str) -> frozenset[str]:
    """The options in a text, between spaces."""
    return frozenset(text.split())


_NPX: Final = Runner(
    ecosystem="npm",
    naming=options("-p --package"),
    valued=options(
        "--cache --loglevel --node-options --prefix --script-shell --shell --workspace -w"
    ),
    flags=options(
        "--bun --ignore-existing --ignore-scripts --no --no-install --offline --prefer-offline --prefer-online --quiet "
        "--silent --verbose --workspaces --yes -q -s -y"
    ),
)
_PNPM: Final = Runner(
    ecosystem="npm",
    subcommands=("dlx",),
    naming=options("--package"),
    valued=options("--allow-build --dir --loglevel --reporter -C"),
    flags=options("--shell-mode --silent -c -s"),
)
_YARN: Final = Runner(
    ecosystem="npm",
    subcommands=("dlx",),
    naming=options("--package -p"),
    valued=options("--cwd"),
    flags=options("--quiet --silent -q -s"),
)
_UVX: Final = Runner(
    ecosystem="pypi",
    naming=options("--from"),
    adding=options("--with -w"),
    valued=options(
        "--build-constraints --cache-dir --color --config-setting --constraints --directory --env-file "
        "--exclude-newer --keyring-provider --link-mode --overrides --prerelease --project --python "
        "--python-platform --refresh-package --reinstall-package --resolution --upgrade-package "
        "--with-editable -C -P -b -c -p"
    ),
    flags=options(
        "--compile-bytecode --isolated --managed-python --native-tls --no-binary --no-build --no-cache --no-config "
        "--no-env-file --no-index --no-managed-python --no-progress --no-python-downloads --no-sources --offline "
        "--quiet --refresh --reinstall --system-certs --upgrade --verbose -U -n -q -v"
    ),
)
_UV_RUN: Final = structs.replace(
    _UVX,
    subcommands=("run",),
    naming=frozenset(),
    valued=_UVX.valued | options("--extra --group --no-group --only-group --package"),
    flags=_UVX.flags
    | options(
        "--active --all-extras --all-groups --all-packages --dev --exact --frozen --gui-script --locked --module "
        "--no-default-groups --no-dev --no-editable --no-project --no-sync --only-dev --script -m -s"
    ),
    # `uv run` starts a program of the project; its first word names no package.
    runs_word=False,
)
_PIPX: Final = Runner(
    ecosystem="pypi",
    subcommands=("run",),
    naming=options("--spec"),
    adding=options("--with"),
    valued=options("--python"),
    flags=options(
        "--fetch-missing-python --no-cache --path --pypackages --quiet --system-site-packages --verbose -q -v"
    ),
)
_DOCKER: Final = Runner(
    ecosystem="oci",
    subcommands=("run",),
    valued=options(
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
    flags=options(
        "--debug --detach --env-host --http-proxy --init --interactive --no-healthcheck --no-hosts --oom-kill-disable "
        "--privileged --publish-all --quiet --read-only --replace --rm --rmi --sig-proxy --tls --tls-verify "
        "--tlsverify --tty -D -P -d -i -q -t"
    ),
)


def _with_subcommands(runner: Runner, *subcommands: str) -> Runner:
    return structs.replace(runner, subcommands=subcommands)


_CONTAINERS: Final = (_DOCKER, _with_subcommands(_DOCKER, "container", "run"))
RUNNERS: Final[Mapping[str, tuple[Runner, ...]]] = {
    "npx": (_NPX,),
    "npm": (_with_subcommands(_NPX, "exec"), _with_subcommands(_NPX, "x")),
    # Bun reads the options of npx, and has a few more, which are listed with them.
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
