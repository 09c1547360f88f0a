"""Time runs of blueprints that 1, 2 and 4 workers share, on SQLite and Postgres: `workers.py RUNS FOLDER`.

Needs the extras `tools`, `engine`, `postgres` and `temporal`, the programs of a Postgres server, and the Temporal
server of `requirements/services.txt`. Every figure is of the same work: so many runs of five steps that do nothing,
which have begun before the workers start. DBOS drives them, and in the last case Temporal, with the state in Postgres.
The clock is that of the audit trail, from the first call of a step to the end of the last, so that the start of the
workers is not counted.
"""

import asyncio
import datetime as dt
import json
import os
import secrets
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
AGENT = Path(sysconfig.get_path("scripts"), "agent")
WORKERS = (1, 2, 4)
CASES = ("sqlite", "postgres", "temporal")
STEPS = 5
TOOLS = '''\
from typing import Annotated

from msgspec import Meta, Struct

from agent_resolver import capability


class Number(Struct):
    number: Annotated[int, Meta(description="Any number", examples=[1])]


@capability("bench.step", idempotent=True, examples=[{"number": 1}])
async def step(given: Number) -> Number:
    """Do nothing."""
    return given
'''
STEP = '    - { id: step%d, capability: bench.step, input_mapping: { number: "${input.number}" } }'
BLUEPRINT = """\
blueprint_metadata: { id: bench.steps, version: 1.0.0, description: Do nothing several times. }
dag:
  input_schema: { type: object, properties: { number: { type: integer } }, required: [number] }
  steps:
""" + "\n".join(STEP % number for number in range(STEPS))
KEY = {"STATE_KEY": "a" * 64, "AGENT_STATE_KEY_ENV": "STATE_KEY"}
SETTINGS = '[tools]\nmodules = ["bench_tools"]\nblueprints = ["blueprints"]\n'


async def begin(folder: str, runs: int) -> None:
    """Begin the runs, and leave them to workers."""
    from msgspec import structs

    from agent_resolver import Project
    from agent_resolver.project import EngineUse, open_tools
    from agent_resolver.schema import local_caller

    with Project.open(folder, trust=True) as project:
        opening = open_tools(
            project.session, caller=local_caller("bench"), is_connected=False, engine=EngineUse(drives=False)
        )
        async with opening as tools:
            for number in range(runs):
                context = structs.replace(tools.context, trace_id=secrets.token_hex(16), key=None)
                await tools.registry.call("bench.steps", {"number": number}, context)


def write_project(folder: Path) -> None:
    """Write a project whose only tool does nothing."""
    (folder / "blueprints").mkdir(parents=True)
    (folder / "bench_tools.py").write_text(TOOLS, encoding="utf-8")
    (folder / "blueprints" / "steps.yaml").write_text(BLUEPRINT, encoding="utf-8")
    (folder / "agent.toml").write_text(SETTINGS, encoding="utf-8")


def measure(folder: Path, settings: dict[str, str], workers: int, runs: int) -> float:
    """The runs that so many workers bring to their end in a second; `settings` are variables of theirs."""
    write_project(folder)
    environment = {**os.environ, "XDG_CONFIG_HOME": str(folder / "config"), **settings}
    beginning = [sys.executable, __file__, "--begin", str(folder), str(runs)]
    subprocess.run(beginning, env=environment, check=True)
    command = [str(AGENT), "worker", "--until-idle", "--kind", "blueprint", "--trust", "--capacity", "20"]
    started = [
        subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.DEVNULL) for _ in range(workers)
    ]
    for process in started:
        if process.wait() != 0:
            sys.exit(f"a worker ended with {process.returncode}")
    return runs / _seconds_of_steps(folder, environment, runs)


def _seconds_of_steps(folder: Path, environment: dict[str, str], runs: int) -> float:
    command = [str(AGENT), "audit", "show", "--trust", "--json", "--last", str(runs * STEPS * 10)]
    shown = subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.PIPE)
    records = [each for each in json.loads(shown.stdout) if each["body"].get("tool") == "bench.step"]
    ends = sum(each["kind"] == "call.done" for each in records)
    if ends != runs * STEPS:
        sys.exit(f"{ends} steps were done, not {runs * STEPS}")
    times = [dt.datetime.fromisoformat(each["at"]) for each in records]
    return (max(times) - min(times)).total_seconds()


def main(runs: int, scratch: Path) -> dict[str, float]:
    """The runs in a second, of each database with each number of workers."""
    sys.path.insert(0, str(ROOT))
    from tests.postgres_server import postgres_server
    from tests.temporal_server import temporal_server

    rates: dict[str, float] = {}
    with postgres_server(is_flushed=True) as server:
        for workers in WORKERS:
            for case in CASES:
                folder = scratch / f"workers-{case}-{workers}"
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
                settings = {} if case == "sqlite" else {"AGENT_STATE_URL": server.new_database(), **KEY}
                if case == "temporal":
                    with temporal_server(folder) as engine:
                        settings |= {"AGENT_ENGINE_KIND": "temporal", "AGENT_ENGINE_ADDRESS": engine.address}
                        rates[f"{case} {workers}"] = measure(folder, settings, workers, runs)
                else:
                    rates[f"{case} {workers}"] = measure(folder, settings, workers, runs)
                shutil.rmtree(folder)
    return rates


if __name__ == "__main__":
    if sys.argv[1] == "--begin":
        asyncio.run(begin(sys.argv[2], int(sys.argv[3])))
    else:
        print(json.dumps(main(int(sys.argv[1]), Path(sys.argv[2]))))
