"""Checks that every driver passes, so that an engine of any author can drive runs of blueprints.

The author gives a function that makes a driver which keeps what it keeps in a folder. Each check has a folder of its
own, and makes a second driver on it only after the first one was closed, as another process would have. It raises
`AssertionError` with what it missed:

    @pytest.mark.parametrize("name", DRIVER_CHECKS)
    def test_my_driver_keeps_the_promises_of_the_port(name: str, tmp_path: Path) -> None:
        asyncio.run(DRIVER_CHECKS[name](MyDriver, tmp_path))
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from agent_resolver.engine.carrier import Carrier
from agent_resolver.engine.port import Driver, RunSegment, StepBody, StepRunner
from agent_resolver.storage.errors import LeaseLost

MakeDriver = Callable[[Path], Driver]
"""Makes a driver that keeps what it keeps in this folder; it is not open yet."""
MakeCarrier = Callable[[Path], Carrier]
"""The same for an engine that interprets runs itself. It is not given segments, so that only the checks of whole runs
are about it."""
DriverCheck = Callable[[MakeDriver, Path], Coroutine[Any, Any, None]]

_SEGMENT: Final = "run-1:1"
_PATIENCE_SECONDS: Final = 20.0
_TOGETHER: Final = 20
# Values that a careless serializer changes: `True` for 1, the end of exact integers in
# JavaScript, NUL, an empty key, and a text of a megabyte.
_JSON_VALUES: Final[tuple[Any, ...]] = (
    None,
    True,
    0,
    -1.5,
    2**53,
    "",
    'ü "quoted" \U0001f600 \x00',
    [],
    {},
    {"a": [{"b": None}, [1, [2]]], "": False},
    {"text": "x" * 1_000_000},
)


@asynccontextmanager
async def _opened(
    make: MakeDriver,
    folder: Path,
    run_segment: RunSegment,
    own: str = "one",
) -> AsyncIterator[Driver]:
    driver = make(folder)
    await driver.open(own, run_segment)
    try:
        # A driver that never ends a segment must fail its check, and not hang its
        # author's tests.
        async with asyncio.timeout(_PATIENCE_SECONDS):
            yield driver
    finally:
        await driver.close()


def _gives(value: Any) -> StepBody:  # noqa: ANN401 - JSON
    async def body() -> Any:  # noqa: ANN401 - JSON
        return value

    return body


async def _wave(step: StepRunner, bodies: Mapping[str, StepBody]) -> dict[str, Any]:
    """The results of steps that start together, as the engine starts them: in the order of their names."""
    names = sorted(bodies)
    results = await asyncio.gather(*(step(name, bodies[name]) for name in names))
    return dict(zip(names, results, strict=True))


async def _failure(attempt: Awaitable[Any]) -> Exception:
    try:
        await attempt
    except Exception as error:  # noqa: BLE001 - the check says which one it must be
        return error
    raise AssertionError("the segment failed, and its driver heard of a success")


# The checks ---------------------------------------------------------------------------


async def _a_segment_is_driven_to_its_end(make: MakeDriver, folder: Path) -> None:
    driven: list[str] = []

    async def run_segment(segment: str, step: StepRunner) -> None:
        driven.append(f"{segment} {await step('first', _gives('first'))}")
        driven.append(f"{segment} {await step('second', _gives('second'))}")

    async with _opened(make, folder, run_segment) as driver:
        await driver.drive(_SEGMENT)
        await driver.drive("run-2:7")
    expected = [
        f"{segment} {name}"
        for segment in (_SEGMENT, "run-2:7")
        for name in ("first", "second")
    ]
    assert driven == expected, f"the steps were {driven}, and not {expected}"


async def _results_come_back_as_they_were(make: MakeDriver, folder: Path) -> None:
    found: dict[str, Any] = {}

    async def run_segment(_segment: str, step: StepRunner) -> None:
        found.update(
            await _wave(
                step,
                {f"s{n:02}": _gives(value) for n, value in enumerate(_JSON_VALUES)},
            )
        )

    async with _opened(make, folder, run_segment) as driver:
        await driver.drive(_SEGMENT)
    for (name, value), expected in zip(
        sorted(found.items()), _JSON_VALUES, strict=True
    ):
        # The type as well: True is not 1 in JSON.
        found_pair = (value, type(value))
        expected_pair = (expected, type(expected))
        assert found_pair == expected_pair, (
            f"the result of {name} is {str(value)[:100]!r}"
        )


async def _steps_of_a_wave_run_together(make: MakeDriver, folder: Path) -> None:
    """Each step waits until all have started."""
    barrier = asyncio.Barrier(_TOGETHER)

    def meets(name: str) -> StepBody:
        async def body() -> str:
            await barrier.wait()
            return name

        return body

    async def run_segment(_segment: str, step: StepRunner) -> None:
        names = [f"s{number:02}" for number in range(_TOGETHER)]
        results = await _wave(step, {name: meets(name) for name in names})
        assert results == {name: name for name in names}, (
            f"the results of the wave are {results}"
        )

    async with _opened(make, folder, run_segment) as driver:
        await driver.drive(_SEGMENT)


async def _segments_do_not_wait_for_each_other(make: MakeDriver, folder: Path) -> None:
    barrier = asyncio.Barrier(_TOGETHER)

    async def body() -> None:
        await barrier.wait()

    async def run_segment(_segment: str, step: StepRunner) -> None:
        await step("meet", body)

    async with _opened(make, folder, run_segment) as driver:
        await asyncio.gather(
            *(driver.drive(f"run-{number}:1") for number in range(_TOGETHER))
        )


async def _a_segment_that_is_driven_twice_runs_once(
    make: MakeDriver, folder: Path
) -> None:
    begun = Counter[str]()
    goes_on = asyncio.Event()

    async def run_segment(segment: str, step: StepRunner) -> None:
        begun[segment] += 1

        async def body() -> None:
            await goes_on.wait()

        await step("waits", body)

    async with _opened(make, folder, run_segment) as driver:
        both = [asyncio.ensure_future(driver.drive(_SEGMENT)) for _ in range(2)]
        # Long enough for a driver that ends too early to be caught.
        await asyncio.wait(both, timeout=0.1)
        assert not any(drive.done() for drive in both), (
            "it ended while its step was under way"
        )
        goes_on.set()
        await asyncio.gather(*both)
    assert begun[_SEGMENT] == 1, f"it began {begun[_SEGMENT]} times"


async def _a_segment_that_has_ended_may_be_driven_again(
    make: MakeDriver, folder: Path
) -> None:
    """The store says what is left of it, which is nothing."""

    async def run_segment(_segment: str, step: StepRunner) -> None:
        await step("first", _gives(1))

    for executor in ("one", "two"):
        async with _opened(make, folder, run_segment, executor) as driver:
            await driver.drive(_SEGMENT)
            await driver.take_over(_SEGMENT, "gone")


async def _a_lost_lease_reaches_whoever_drives(make: MakeDriver, folder: Path) -> None:
    """Both from a step and from the segment itself; the next segment is not touched by it."""

    async def loses() -> None:
        raise LeaseLost("run/run-1")

    async def run_segment(segment: str, step: StepRunner) -> None:
        if segment == _SEGMENT:
            await step("loses", loses)
        if segment == "run-2:1":
            raise LeaseLost("run/run-2")
        await step("works", _gives(1))

    async with _opened(make, folder, run_segment) as driver:
        for segment in (_SEGMENT, "run-2:1"):
            failure = await _failure(driver.drive(segment))
            assert isinstance(failure, LeaseLost), f"the failure is {failure!r}"
        await driver.drive("run-3:1")


async def _another_executor_goes_on_with_what_one_left(
    make: MakeDriver, folder: Path
) -> None:
    """Branches of unequal speed: after a wave in which the last step ends first, each step has its own result."""
    is_left = asyncio.Event()
    is_second = False
    found: list[dict[str, Any]] = []

    def slowly(name: str, turns: int) -> StepBody:
        async def body() -> str:
            for _ in range(turns):
                await asyncio.sleep(0)
            return name

        return body

    async def stays() -> str:
        if not is_second:
            is_left.set()
            await asyncio.Event().wait()
        return "last"

    async def run_segment(_segment: str, step: StepRunner) -> None:
        for wave in range(3):
            # The fifth step of one wave is the quickest, and the first of the next one.
            places = range(5) if wave % 2 else range(4, -1, -1)
            turns = {
                f"w{wave}.{number}": place * 7 for number, place in enumerate(places)
            }
            results = await _wave(
                step, {name: slowly(name, count) for name, count in turns.items()}
            )
            found.append(results)
        found.append({"last": await step("last", stays)})

    async with _opened(make, folder, run_segment) as driver:
        drive = asyncio.ensure_future(driver.drive(_SEGMENT))
        await is_left.wait()
    # Whether it failed or was cancelled is not ours to say: its process is gone.
    await asyncio.gather(drive, return_exceptions=True)
    found.clear()
    is_second = True
    async with _opened(make, folder, run_segment, "two") as driver:
        await driver.take_over(_SEGMENT, "one")
    assert len(found) == 4, f"{len(found)} waves ended, and not 4"  # noqa: PLR2004 - three and the last
    _assert_own_results(found)


def _assert_own_results(waves: list[dict[str, Any]]) -> None:
    """Each step gave its own name, and so must have it as its result."""
    for results in waves:
        assert all(name == value for name, value in results.items()), (
            f"steps have the results of others: {results}"
        )


DRIVER_CHECKS: Final[Mapping[str, DriverCheck]] = {
    check.__name__.strip("_"): check
    for check in (
        _a_segment_is_driven_to_its_end,
        _results_come_back_as_they_were,
        _steps_of_a_wave_run_together,
        _segments_do_not_wait_for_each_other,
        _a_segment_that_is_driven_twice_runs_once,
        _a_segment_that_has_ended_may_be_driven_again,
        _a_lost_lease_reaches_whoever_drives,
        _another_executor_goes_on_with_what_one_left,
    )
}
"""Every check by its name."""
