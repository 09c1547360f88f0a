"""The program of the process that runs acceptance tests: reads a draft, gives up its rights, tries the draft.

    python -I -c START PACKAGES PARENT

Its stdin is a `TestJob` as JSON. Its stdout is a file that gets a line for each thing that is known: first how far the
process could be confined, then the result of each test. A line that is missing tells the parent which test it was that
did not end.
"""

import os
import sys

import msgspec

from agent_resolver.core.blueprint.acceptance import run_acceptance_test
from agent_resolver.reasoner.acceptance import value_faults
from agent_resolver.reasoner.acceptance_message import TestJob
from agent_resolver.schema.blueprint import AcceptanceTest, Blueprint
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.planning import TestResult
from agent_resolver.storage.confinement import limit_resources, refuse_system_calls
from agent_resolver.storage.process_tree import die_with_parent


def main() -> None:
    """Run all tests of the job, and end without more ado: there is nothing to put in order."""
    die_with_parent(int(sys.argv[2]))
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=TestJob)
    tools = {
        tool.id: _descriptor_of(tool.id, tool.input_schema, tool.output_schema)
        for tool in job.tools
    }
    # The first use of each library may open files, and must come before nothing can be
    # opened any more.
    value_faults("1970-01-01", {"type": "string", "format": "date", "pattern": "^1"})
    limit_resources(job.seconds, job.memory_bytes, job.output_bytes)
    is_confined = refuse_system_calls()
    _write_line("confined" if is_confined else "process")
    for test in job.blueprint.acceptance_tests:
        _write_line(_result_of(job.blueprint, test, tools))
    # Exit handlers may open files, which this process gave up the right to do.
    os._exit(0)


def _descriptor_of(
    tool: str,
    input_schema: dict[str, object],
    output_schema: dict[str, object] | None,
) -> Descriptor:
    return Descriptor(
        id=tool,
        description="",
        input_schema=input_schema,
        output_schema=output_schema,
        source="test",
    )


def _result_of(
    blueprint: Blueprint,
    test: AcceptanceTest,
    tools: dict[str, Descriptor],
) -> TestResult:
    """The result of one test, also where the draft exhausts what the process may use."""
    try:
        return run_acceptance_test(blueprint, test, tools, value_faults)
    except MemoryError:
        message = "It needs more memory than an acceptance test may use"
    except RecursionError:
        message = "It nests too deeply to be tried"
    except Exception as error:  # noqa: BLE001 - whatever a draft brings about, its test fails
        message = f"It cannot be tried: {type(error).__name__}"
    return TestResult(name=test.name, passed=False, message=message)


def _write_line(value: object) -> None:
    # The line is written at once, without a buffer: a later crash must not take the
    # results of earlier tests with it.
    os.write(1, msgspec.json.encode(value) + b"\n")
