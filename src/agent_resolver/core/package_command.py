"""Commands that fetch a package and run it: which words of their command lines name packages.

Only options that `package_runner` lists are understood. Any other one may or may not take the next word as its value,
so what follows it is unknown, and the command line counts as unclear. So does every script that is more than one plain
command, and every command line that names a program that fetches in another place than that of the command.
"""

import re
import shlex
from collections.abc import Sequence
from itertools import takewhile, zip_longest
from typing import Final

from msgspec import Struct

from agent_resolver.core.package_runner import RUNNERS, Ecosystem, Runner, options
from agent_resolver.schema.index import Launch


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
    """The word that is not understood; the packages are unknown then."""


class _NotUnderstoodError(Exception):
    """A word, or a script, behind which an unknown package may be fetched."""

    def __init__(self, text: str) -> None:
        super().__init__(
            text if len(text) <= _MOST_QUOTED else f"{text[:_MOST_QUOTED]}…"
        )


def read_command(launch: Launch) -> PackageCommand | None:
    """The packages that a launch record fetches; None for a command that fetches none."""
    words: tuple[str, ...] = (launch.command, *launch.args)
    try:
        # Each round takes one wrapper off, such as `sudo` or `env`; a longer chain than
        # this counts as unclear.
        for _ in range(_MOST_WRAPPERS):
            inner = _inside_wrapper(words)
            if inner is None:
                return _read_words(words)
            words = inner
    except _NotUnderstoodError as problem:
        return _unclear(words, str(problem))
    return _unclear(words, words[0])


def _read_words(words: tuple[str, ...]) -> PackageCommand | None:
    found = _read_program(words)
    if found is None or not found.unclear:
        # A word that was read as a package is exempt: a package may have the name of a
        # program.
        places = {spec.position for spec in found.specs} if found else set()
        _require_plain(
            [word for place, word in enumerate(words) if place and place not in places]
        )
    return found


def _read_program(words: tuple[str, ...]) -> PackageCommand | None:
    program = _program(words[0])
    if program == "deno":
        return _read_deno(words)
    if program == "go":
        return _read_go(words)
    if program == "dnx":
        return _read_dnx(words)
    if program in _CREATING and any(
        word in {"create", "init"} for word in _first_argument(words)
    ):
        return _unclear(words, words[0])
    for runner in RUNNERS.get(program, ()):
        found = _read_with(runner, words)
        if found is not None:
            return found
    return None


def _require_plain(words: Sequence[str]) -> None:
    """Stop at a word that names a program that fetches, and was not read as the command: it may be run all the same."""
    for word, following in zip_longest(words, words[1:], fillvalue=""):
        if _program(word) in _SHELLS and _SCRIPT.fullmatch(following):
            raise _NotUnderstoodError(word)
        # In `--runtime=docker`, the name is the value of an option; in `--run=npx -y
        # pkg`, it is a command line.
        for part in (
            _SEPARATOR.split(word)
            if _SEPARATOR.search(word.replace("=", ""))
            else (word,)
        ):
            # `npx@10` names the program as well, at a version.
            if _program(part).partition("@")[0] in _NAMES:
                raise _NotUnderstoodError(part)


def _read_with(runner: Runner, words: tuple[str, ...]) -> PackageCommand | None:
    specs: list[Spec] = []
    here = 1
    for subcommand in runner.subcommands:
        here, unclear = _take_options(runner, words, here, specs)
        if unclear:
            # Without this subcommand, nothing is fetched, whatever the option means.
            return _unclear(words, unclear) if subcommand in words[here:] else None
        if words[here : here + 1] != (subcommand,):
            return None
        here += 1
    here, unclear = _take_options(runner, words, here, specs)
    if unclear:
        return _unclear(words, unclear)
    return _read_first_word(runner, words, here, specs)


def _read_first_word(
    runner: Runner,
    words: tuple[str, ...],
    here: int,
    specs: list[Spec],
) -> PackageCommand | None:
    """Read the word behind the options: it is the package, unless one of them has named it."""
    first_word = "".join(words[here : here + 1])
    is_named = any(spec.is_main for spec in specs)
    needs_word = runner.runs_word and not is_named
    if needs_word and here >= len(words):
        return _unclear(words, words[0])
    # A program that runs local files fetches the one that is named by an address.
    is_address = not runner.runs_word and "://" in first_word
    if needs_word or is_address:
        specs.insert(
            0, Spec(ecosystem=runner.ecosystem, text=first_word, position=here)
        )
    late_option = _late_option(words, here)
    if late_option:
        return _unclear(words, late_option)
    if specs:
        return PackageCommand(words=words, specs=tuple(specs))
    return None


def _late_option(words: tuple[str, ...], here: int) -> str:
    """The first option behind the package that its program reads as its own; empty if there is none."""
    # Unlike `npx`, `npm exec` reads them so.
    if _program(words[0]) != "npm":
        return ""
    return next(iter(_own_options(words[here:])), "")


def _unclear(words: tuple[str, ...], word: str) -> PackageCommand:
    """A command line whose packages are unknown, because of this word of it."""
    return PackageCommand(words=words, unclear=word)


def _own_options(words: Sequence[str]) -> list[str]:
    """The options of a program among these words; what is behind `--` is for the package that it runs."""
    own = takewhile(lambda word: word != "--", words)
    return [word for word in own if word.startswith("-")]


def _take_options(
    runner: Runner,
    words: Sequence[str],
    here: int,
    specs: list[Spec],
) -> tuple[int, str]:
    """Pass over options, and collect the packages that they name; the next word, and the option that is not known."""
    while here < len(words) and _is_option(words[here]):
        word = words[here]
        if word == "--":
            return here + 1, ""
        name, equals, _ = word.partition("=")
        place = here
        here += 1
        if name in runner.takes_value:
            if not equals:
                here += 1
            if here > len(words):
                return len(words), word
            if name not in runner.valued:
                specs.append(_spec_of_option(runner, words, place))
        # A word that is no known option may be a cluster of short flags; otherwise, it
        # may take the next word as its value.
        elif name not in runner.flags:
            taken = _words_of_cluster(runner, word)
            if taken is None:
                return here, word
            here += taken
    return here, ""


def _is_option(word: str) -> bool:
    # A lone hyphen is a word, and not an option.
    return word.startswith("-") and word != "-"


def _spec_of_option(runner: Runner, words: Sequence[str], place: int) -> Spec:
    """The package that the option at this place names, in its own word or in the next one."""
    name, equals, value = words[place].partition("=")
    is_main = name in runner.naming
    # Behind an equals sign, only a part of the word is the value.
    if equals:
        return Spec(
            ecosystem=runner.ecosystem,
            text=value,
            position=place,
            prefix=f"{name}=",
            is_main=is_main,
        )
    return Spec(
        ecosystem=runner.ecosystem,
        text=words[place + 1],
        position=place + 1,
        is_main=is_main,
    )


def _words_of_cluster(runner: Runner, word: str) -> int | None:
    """The number of further words that a cluster such as `-it` takes; None if it is not understood."""
    if word.startswith("--"):
        return None
    # The first letter that takes a value gets the rest of the cluster, or else the next
    # word.
    for place, letter in enumerate(word[1:], 2):
        option = f"-{letter}"
        if option in runner.valued:
            return 0 if word[place:] else 1
        if option not in runner.flags:
            return None
    return 0


def _read_deno(words: tuple[str, ...]) -> PackageCommand | None:
    """Read a command line of Deno: a package of npm is written as `npm:name@version` there."""
    for position, word in enumerate(words):
        # JSR is a registry of its own, about whose packages nothing is known here.
        if word.startswith("jsr:"):
            return _unclear(words, word)
        if word.startswith(("npm:", "http:", "https:")):
            prefix = "npm:" if word.startswith("npm:") else ""
            spec = Spec(
                ecosystem="npm",
                text=word.removeprefix("npm:"),
                position=position,
                prefix=prefix,
            )
            return PackageCommand(words=words, specs=(spec,))
    return None


def _read_go(words: tuple[str, ...]) -> PackageCommand | None:
    """A module that Go fetches is named with its version, such as `example.com/server@v1.2.3`."""
    # Only `go run` runs what it fetches, and only an exact version names one module.
    floating = [
        word for word in words[2:] if "@" in word and not _GO_MODULE.fullmatch(word)
    ]
    if floating and words[1] == "run":
        return _unclear(words, floating[0])
    return None


def _read_dnx(words: tuple[str, ...]) -> PackageCommand | None:
    """A package of NuGet, such as `Acme.Server@1.2.3`; none of the kinds that are known here."""
    is_pinned = any(map(_NUGET_PACKAGE.fullmatch, _first_argument(words)))
    unknown = [
        option for option in _own_options(words) if option not in {"--yes", "-y"}
    ]
    if is_pinned and not unknown:
        return None
    return _unclear(words, unknown[0] if unknown else words[0])


def _first_argument(words: Sequence[str]) -> Sequence[str]:
    """The first word behind the command that is no option; nothing if there is none."""
    return [word for word in words[1:] if not word.startswith("-")][:1]


def _program(command: str) -> str:
    """The name of a program, without its folder and without what Windows adds to it."""
    name = command.replace("\\", "/").rpartition("/")[2].lower()
    stem, _, suffix = name.rpartition(".")
    if stem and suffix in {"exe", "cmd", "bat", "ps1"}:
        return stem
    return name


def _inside_wrapper(words: tuple[str, ...]) -> tuple[str, ...] | None:
    """The command line that a shell, or a command such as `env`, runs; None for any other command.

    What comes before `--` in the command line of another program prepares the command after it.
    """
    program = _program(words[0])
    if program in _FETCHING:
        return None
    if program in _POWERSHELLS:
        return _inside_powershell(words)
    if program in _SHELLS:
        return _inside_shell(words)
    if _PYTHON.fullmatch(program):
        return _inside_python(words)
    if program == "cmd":
        words = _words_of_cmd(words)
    first = _place_of_inner(words, is_wrapper=program in _WRAPPERS)
    # `env -S` splits one word into a command line of its own, which is not read here.
    if program == "env":
        _require_none(_SPLITTING, words[1:first])
    if first == len(words):
        return None
    # A variable such as `npm_config_registry` would fetch the same name and version
    # from another place.
    _require_none(_OTHER_SOURCE, words[1:first])
    _require_plain(words[1:first])
    return words[first:]


def _place_of_inner(words: Sequence[str], *, is_wrapper: bool) -> int:
    """The place of the command that another one runs; behind the last word if there is none."""
    if is_wrapper:
        # A wrapper may have options of its own before its command.
        start = 1
        candidates = words[1:]
    elif "--" in words:
        # Any program may prepare a command behind `--`, as in `op run -- npx …`, and
        # only the next word is one.
        start = words.index("--")
        candidates = words[start : start + 2]
    else:
        return len(words)
    for place, word in enumerate(candidates, start):
        if _program(word) in _FETCHING_OR_SHELLS:
            return place
    return len(words)


def _require_none(pattern: re.Pattern[str], words: Sequence[str]) -> None:
    for word in filter(pattern.match, words):
        raise _NotUnderstoodError(word)


def _inside_python(words: tuple[str, ...]) -> tuple[str, ...] | None:
    """The command line behind `python -m`, if it is that of a program that fetches."""
    for place, word in enumerate(words[1:], 2):
        # `-mpipx` in one word is not taken apart, so what it fetches is not known.
        if _PYTHON_MODULE.fullmatch(word):
            raise _NotUnderstoodError(word)
        rest = words[place:]
        if word == "-m" and rest and rest[0] in _FETCHING:
            return rest
    return None


def _words_of_cmd(words: tuple[str, ...]) -> tuple[str, ...]:
    # `cmd` reads its arguments as one line, whatever words they were.
    line = " ".join(words)
    found = tuple(line.split())
    switches = takewhile(lambda word: word.startswith("/"), found[1:])
    if set(line) & _CMD_SPECIAL or not all(map(_CMD_SWITCH.fullmatch, switches)):
        raise _NotUnderstoodError(line)
    return found


def _inside_powershell(words: tuple[str, ...]) -> tuple[str, ...] | None:
    for place, word in enumerate(words[1:], 2):
        option = word.lower()
        # PowerShell takes every beginning of an option for the option, such as `-c` for
        # `-Command`.
        if len(option) > 1 and "-command".startswith(option):
            return _command_of_script(" ".join(words[place:]))
        # A script in a file is like any local program: what it fetches is not in the
        # command line.
        if len(option) > 1 and "-file".startswith(option):
            return None
        if option.endswith(".ps1"):
            return None
    # All else is run as a script, or is one in another encoding.
    raise _NotUnderstoodError(words[-1])


def _inside_shell(words: tuple[str, ...]) -> tuple[str, ...] | None:
    """The command that a shell is given to run; None where it runs a file."""
    options = (place for place, word in enumerate(words) if _SCRIPT.fullmatch(word))
    place = next(options, len(words))
    script = "".join(words[place + 1 : place + 2])
    # `-o` takes a word of its own, before the script.
    is_odd = script[:1] in {"-", "+"} or _WITH_SETTING.fullmatch(
        "".join(words[place : place + 1])
    )
    # A script inside its option, as in `--command=…`, is not read.
    if is_odd or any(map(_SCRIPT_WITHIN.match, words)):
        raise _NotUnderstoodError(words[0])
    return _command_of_script(script)


def _command_of_script(script: str) -> tuple[str, ...] | None:
    """The one plain command that a script of a shell is; whatever else a shell can do may run anything.

    Raises:
        _NotUnderstoodError: It is something else.
    """
    words = _words_of_script(script)
    # `cd folder && command` is the one list that is understood: its first command
    # fetches nothing.
    if words[:1] == ["cd"] and words[2:3] == ["&&"]:
        words = words[3:]
    is_plain = not _EXPANSION.search(script) and not _has_sign(words)
    settings = list(takewhile(_ASSIGNMENT.match, words))
    _require_none(_OTHER_SOURCE, settings)
    words = words[len(settings) :]
    # `command` and `exec` run the words behind them as they are.
    while words[1:] and words[0] in {"command", "exec"}:
        words = words[1:]
    if not is_plain or (words and words[0].lower() in _BUILTINS):
        raise _NotUnderstoodError(script)
    return tuple(words) or None


def _words_of_script(script: str) -> list[str]:
    """The words of a script, and the signs between them.

    Raises:
        _NotUnderstoodError: A quotation mark is not closed.
    """
    # Signs such as `&&` and `;` become words of their own, so that a second command
    # shows.
    lexer = shlex.shlex(script, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    # As comments, the lexer would drop all words behind a `#`, also inside a word,
    # where a shell keeps them.
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError:
        raise _NotUnderstoodError(script) from None


def _has_sign(words: Sequence[str]) -> bool:
    """True if one of the words is a sign such as `&&`, which begins another command."""
    return any(word and set(word) <= _PUNCTUATION for word in words)


_FETCHING: Final = frozenset({*RUNNERS, "deno", "dnx", "go"})
_CREATING: Final = frozenset({"bun", "npm", "pnpm", "yarn"})
"""Programs whose `create` fetches a package and runs it."""
_NAMES: Final = (_FETCHING - {"go"}) | {"corepack", "npm-cli.js", "npx-cli.js"}
"""What is not to be found among the arguments of another program; `go` is too common a word."""
_POWERSHELLS: Final = frozenset({"powershell", "pwsh"})
_SHELLS: Final = _POWERSHELLS | options(
    "ash bash csh dash fish flock ksh mksh nu runuser script sh su tcsh zsh"
)
"""Shells, and programs that give a script to one, behind `-c` as well."""
_FETCHING_OR_SHELLS: Final = _FETCHING | _SHELLS
_WRAPPERS: Final = options(
    "busybox caffeinate chroot chrt cmd corepack cross-env doas dotenv env gtimeout ionice nice nohup setsid stdbuf "
    "strace sudo taskset time timeout unbuffer unshare winpty wsl xargs"
)
"""Programs whose arguments are the command line of another one, after options of their own."""
_SCRIPT: Final = re.compile("-[a-z]*c[a-z]*|--[a-z-]*commands?", re.IGNORECASE)
_SCRIPT_WITHIN: Final = re.compile("--[a-z-]*commands?=")
_WITH_SETTING: Final = re.compile("-[a-z]*o[a-z]*", re.IGNORECASE)
_SEPARATOR: Final = re.compile(r"""[\s;|&()<>{}"'`$=]+""")
_EXPANSION: Final = re.compile(r"[$`\n\r{}*?\[\]]|(?:^|\s)[=#]")
"""What a shell replaces by other words, or what begins a comment or another command."""
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=", re.ASCII)
_OTHER_SOURCE: Final = re.compile(
    r"(?:bun|npm|pip|pipx|pnpm|uv|yarn)_\w*(?:registry|index|config_file|userconfig|find_links|server)\w*=",
    re.IGNORECASE | re.ASCII,
)
"""A variable that says where packages come from, such as `npm_config_registry`."""
_SPLITTING: Final = re.compile("-[a-z0]*S|--s")
"""The option of `env` that holds a whole command line."""
_BUILTINS: Final = options(
    "! . alias and begin bind builtin case coproc do enable eval for function if iex invoke-expression noglob not or "
    "repeat select source start-process then trap until while [["
)
_PYTHON: Final = re.compile(r"(?:python|pypy)[\d.]*w?|pyw?", re.ASCII)
_PYTHON_MODULE: Final = re.compile("-[A-Za-z]*m(?:pipx|uv)")
_GO_MODULE: Final = re.compile(r"[^@]+@v\d+\.\d+\.\d+(?:[-+][\w.+-]+)?", re.ASCII)
_NUGET_PACKAGE: Final = re.compile(
    r"[^@]+@\d+(?:\.\d+){1,3}(?:[-+][\w.+-]+)?", re.ASCII
)
_CMD_SPECIAL: Final = frozenset("&|<>^%")
_CMD_SWITCH: Final = re.compile("(?:/[a-z](?::on|:off)?)+", re.IGNORECASE)
_PUNCTUATION: Final = frozenset("();<>|&")
_MOST_WRAPPERS: Final = 4
_MOST_QUOTED: Final = 60
