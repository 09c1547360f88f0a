"""The order of steps: the groups of a blueprint, and the steps of a group that each step waits for.

A step that is not parallel is a group of its own. Neighbouring parallel steps are one group. A group begins when the
one before it has ended, so only the steps of the same group can be in question when a step is looked at.
"""

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import groupby

from agent_resolver.core.blueprint.expression import Expression
from agent_resolver.core.blueprint.template import Template, references
from agent_resolver.schema.blueprint import Step


def step_groups(steps: Iterable[Step]) -> tuple[tuple[Step, ...], ...]:
    """The steps in groups, which run one after the other, in the order of the list."""
    found: list[tuple[Step, ...]] = []
    # `groupby` joins only neighbours, so a step between two parallel ones parts them.
    for is_parallel, neighbours in groupby(steps, key=lambda step: step.is_parallel):
        if is_parallel:
            found.append(tuple(neighbours))
        else:
            found.extend((step,) for step in neighbours)
    return tuple(found)


def steps_read_by(templates: Iterable[Template | Expression]) -> frozenset[str]:
    """The ids of the steps whose results are read by templates."""
    found: set[str] = set()
    for template in templates:
        for reference in references(template):
            if reference.root == "steps":
                found.add(reference.name)
    return frozenset(found)


def needs_in_group(
    group: Iterable[Step],
    read: Mapping[str, frozenset[str]],
) -> dict[str, frozenset[str]]:
    """Maps each step of a group to the steps of the same group that it waits for.

    Args:
        group: The steps.
        read: For the id of each step, the steps whose results its templates read.
    """
    steps = tuple(group)
    ids = frozenset(step.id for step in steps)
    found: dict[str, frozenset[str]] = {}
    for step in steps:
        needed = read[step.id].union(step.after)
        # Steps of earlier groups have ended in any case.
        found[step.id] = ids & needed
    return found


def first_cycle(needs: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
    """Steps each of which waits for the one before it, the first also for the last; empty if there is no cycle."""
    # Sorted, so that it is the same cycle in every process: sets of texts have another
    # order in each.
    ordered = {step: sorted(needed) for step, needed in sorted(needs.items())}
    sorter = TopologicalSorter(ordered)
    try:
        sorter.prepare()
    except CycleError as error:
        # The exception names the first step again at the end.
        steps: list[str] = error.args[1]
        return tuple(steps[:-1])
    return ()


def waves_in_group(needs: Mapping[str, frozenset[str]]) -> tuple[tuple[str, ...], ...]:
    """The steps of a group as they can start, if each takes one wave.

    Raises:
        CycleError: Some steps wait for each other.
    """
    # The sorter hands out steps in rounds, each of which waits for the round before it.
    sorter = TopologicalSorter(needs)
    sorter.prepare()
    waves: list[tuple[str, ...]] = []
    while sorter.is_active():
        # The sorter meets the steps in the order of sets, which is another one in each
        # process.
        wave = tuple(sorted(sorter.get_ready()))
        waves.append(wave)
        sorter.done(*wave)
    return tuple(waves)
