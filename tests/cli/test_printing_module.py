"""Code of a project that prints: it goes to stderr, and what a command says on stdout is its result alone."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import agent_process
from tests.conftest import Run

LOUD = '''\
"""Tools that print, in every way there is."""

import os
import subprocess
import sys
import threading
from typing import Annotated

from msgspec import Meta, Struct

from agent_resolver.capability import capability


def shout(when):
    print("print", when)
    sys.stdout.write(f"write {when}\\n")
    sys.__stdout__.write(f"original {when}\\n")
    os.write(1, f"number {when}\\n".encode())
    subprocess.run([sys.executable, "-c", f"print('process {when}')"], check=True)
    thread = threading.Thread(target=print, args=("thread", when))
    thread.start()
    thread.join()


shout("loading")


class Request(Struct):
    """Nothing to say."""

    word: Annotated[str, Meta(description="A word", examples=["hello"])]


@capability("loud.say", examples=[{"word": "hello"}])
def say(request: Request) -> Request:
    """Say a word."""
    shout("calling")
    return request


@capability("loud.say_later", examples=[{"word": "hello"}])
async def say_later(request: Request) -> Request:
    """Say a word."""
    shout("awaiting")
    return request
'''
WAYS = ("print", "write", "original", "number", "process", "thread")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    (folder / "agents").mkdir(parents=True)
    (folder / "loud.py").write_text(LOUD, encoding="utf-8")
    settings = '[tools]\nmodules = ["loud"]\n[models.default]\nprovider = "local"\nupstream_model = "m"\n'
    (folder / "agent.toml").write_text(f'{settings}[providers.local]\nadapter = "scripted"\n', encoding="utf-8")
    (folder / "agents" / "reviewer.md").write_text("---\nname: reviewer\n---\nYou review.\n", encoding="utf-8")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "moments"),
    [
        (("tools", "list", "--json"), ["loading"]),
        (("tools", "show", "loud.say", "--json"), ["loading"]),
        (("tools", "call", "loud.say", '{"word": "hi"}', "--json"), ["loading", "calling"]),
        (("tools", "call", "loud.say_later", '{"word": "hi"}'), ["loading", "awaiting"]),
        (("tools", "call", "loud.say", "{}", "--json"), ["loading"]),
        (("tools", "manifest"), ["loading"]),
        (("tools", "certify", "--json"), ["loading"]),
        (("plan", "reviewer", "--json"), ["loading"]),
        (("plan", "nobody", "--json"), ["loading"]),
        (("doctor", "--json"), ["loading"]),
    ],
)
@pytest.mark.usefixtures("project")
def test_what_a_module_prints_stays_out_of_the_result(command: tuple[str, ...], moments: list[str]) -> None:
    ran = agent_process(*command, "--trust")

    assert isinstance(json.loads(ran.stdout), dict), ran
    assert {f"{way} {moment}" for way in WAYS for moment in moments} <= set(ran.stderr.splitlines())


@pytest.mark.usefixtures("project")
def test_the_result_is_on_stdout_also_inside_of_another_process(run: Run) -> None:
    ran = run("tools", "call", "loud.say", '{"word": "hi"}', "--trust")

    assert json.loads(ran.stdout) == {"word": "hi"}
    assert "print calling\n" in ran.stderr
