"""The evals of a project: the one place that ties eval sets to settings, tools and planners."""

import os
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import Final

from msgspec import UNSET, Struct

from agent_resolver.core.pattern import matches
from agent_resolver.project.blueprint import own_descriptors
from agent_resolver.project.errors import UnusableEvals
from agent_resolver.project.manifest import read_manifest
from agent_resolver.project.planner import close_planner, planner_of
from agent_resolver.project.session import Session
from agent_resolver.project.skill import load_skills, skill_folder
from agent_resolver.reasoner.evaluation import Watch, evaluate_planner
from agent_resolver.reasoner.planner.offline import OfflinePlanner
from agent_resolver.reasoner.port import Planner
from agent_resolver.registry.manifest import descriptors_of
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.errors import InvalidEvalReport, InvalidEvalSet
from agent_resolver.schema.eval_report import EvalReport, parse_eval_report
from agent_resolver.schema.eval_set import (
    EvalSet,
    EvalSetReading,
    parse_eval_set,
    require_known_tools,
)
from agent_resolver.schema.limit import MAX_EVAL_REPORT_BYTES, MAX_EVAL_SET_BYTES
from agent_resolver.storage.file import read_bounded


class NamedPlanner(Struct, frozen=True):
    """A planner to evaluate, under the name that reports know it by."""

    name: str
    open: Callable[[], AbstractAsyncContextManager[Planner]]
    """Opens the planner for one eval; a planner on a model closes its connections behind it."""


OFFLINE: Final = NamedPlanner("offline", lambda: nullcontext(OfflinePlanner()))
"""The planner that needs no model."""
_COMPARED: Final = 2
"""How many planners it takes to compare them."""


def planners_to_compare(
    session: Session, models: Sequence[str], folders: Sequence[str]
) -> tuple[NamedPlanner, ...]:
    """The planners that an eval runs: each model with each folder of prompts, in the order given.

    A single one is compared with what it would replace: a folder with the prompts of the project, a model with the
    offline planner. Without models and folders, the offline planner is evaluated alone.

    Args:
        session: The project.
        models: Names of models of the settings.
        folders: Folders with prompts.

    Raises:
        InvalidSkills: A prompt of the project or of a folder has a fault, such as a change without a new version.
        UnusableEvals: There are prompts to compare, and no model to give them to.
        UntrustedFolder: The settings say where models are, and no person trusts the project.
    """
    # A changed prompt with an old version fails the gate, whether or not a model is
    # asked here.
    for folder in (skill_folder(session), *folders):
        load_skills(folder, session.users)
    named = tuple(models) or _model_in_settings(session, folders)
    if named and session.config_path:
        # A provider would only refuse, and each request be planned without its model:
        # better said once, and first.
        session.require_trust(
            "its settings say where the models are that would be asked"
        )
    # None means the prompts of the project, with which a single folder is compared.
    compared: tuple[str | None, ...] = (
        (None, *folders) if len(folders) == 1 else tuple(folders) or (None,)
    )
    found = tuple(
        _named_planner(session, model, folder) for model in named for folder in compared
    )
    # Fewer than two planners leave nothing to compare, so the offline one comes first.
    if len(found) < _COMPARED:
        return (OFFLINE, *found)
    return found


def _model_in_settings(session: Session, folders: Sequence[str]) -> tuple[str, ...]:
    if not folders:
        return ()
    model = session.config.reasoner.model
    if model is UNSET:
        hint = "give `--model NAME`, or set `model` in `[reasoner]` of agent.toml"
        raise UnusableEvals(
            "No model is named that the prompts would be given to", hint, exit_code=2
        )
    return (model,)


def _named_planner(session: Session, model: str, folder: str | None) -> NamedPlanner:
    name = model if folder is None else f"{model} with the prompts of {folder}"
    return NamedPlanner(name, partial(_opened_planner, session, model, folder))


@asynccontextmanager
async def _opened_planner(
    session: Session, model: str, folder: str | None
) -> AsyncIterator[Planner]:
    planner = planner_of(session, model=model, skills=folder)
    try:
        yield planner
    finally:
        await close_planner(planner)


class Evals(Struct, frozen=True, kw_only=True):
    """An eval set, and the tools that its requests are planned over."""

    path: str
    set: EvalSet
    tools: tuple[Descriptor, ...]


def load_evals(session: Session, named: str | None = None) -> Evals:
    """The eval set of a project, or the one in a file.

    Args:
        session: The project.
        named: The file; left out, `[reasoner] evals` of the settings.

    Raises:
        InvalidEvalSet: With every fault of the file.
        ResolverError: The file or its tools cannot be used.
    """
    path = named or _path_in_settings(session)
    try:
        reading = parse_eval_set(
            read_bounded(path, MAX_EVAL_SET_BYTES, session.users),
            is_json=path.lower().endswith(".json"),
        )
        return _with_tools(session, path, reading)
    except InvalidEvalSet as error:
        # The parser knows nothing but bytes; a fault in them is reported with the path.
        error.source = path
        raise


async def run_evals(
    evals: Evals,
    planners: Iterable[NamedPlanner] = (OFFLINE,),
    watch: Watch = lambda _: None,
) -> tuple[EvalReport, ...]:
    """Evaluate planners one after the other; a report for each, in their order."""
    reports = []
    for named in planners:
        async with named.open() as planner:
            report = await evaluate_planner(
                planner, evals.set, evals.tools, name=named.name, watch=watch
            )
        reports.append(report)
    return tuple(reports)


def read_kept_report(path: str) -> EvalReport:
    """The report in a file.

    Raises:
        InvalidEvalReport: The file is not a report of an eval, or was cut off.
        UnreadableFile: There is none, or it may not be read.
    """
    try:
        return parse_eval_report(read_bounded(path, MAX_EVAL_REPORT_BYTES))
    except InvalidEvalReport as error:
        error.source = path
        raise


def _path_in_settings(session: Session) -> str:
    named = session.config.reasoner.evals
    if named is UNSET:
        raise UnusableEvals(
            "There is no eval set here",
            "name a file, or set `evals` in `[reasoner]` of agent.toml",
            exit_code=2,
        )
    path = os.path.normpath(os.path.join(os.path.relpath(session.root), named))
    # The settings come with the project, and must not make the command read a file
    # elsewhere.
    if not _is_within(session.root, path):
        raise UnusableEvals(
            f"`[reasoner] evals` names `{named}`, which is outside of the project",
            "name a file of the project, or give the file to the command",
        )
    return path


def _with_tools(session: Session, path: str, reading: EvalSetReading) -> Evals:
    found = reading.value
    if found is None:
        raise InvalidEvalSet(reading.issues)
    if found.tools is UNSET:
        tools: Sequence[Descriptor] = _own_tools(session)
    else:
        tools = descriptors_of(read_manifest(_contained(path, found.tools)))
    # A case that expects a tool which is not there is a fault of the set, and not of a
    # planner.
    require_known_tools(reading, (tool.id for tool in tools))
    return Evals(path=path, set=found, tools=tuple(tools))


def _own_tools(session: Session) -> list[Descriptor]:
    """The tools of the project's own code that the settings open to plans."""
    patterns = session.config.reasoner.tools
    return [
        tool
        for tool in own_descriptors(session)
        if any(matches(each, tool.id) for each in patterns)
    ]


def _contained(path: str, named: str) -> str:
    """The path of a manifest below the folder of its set: a set from elsewhere must not read other files."""
    folder = os.path.dirname(path) or os.curdir
    found = os.path.normpath(os.path.join(folder, named))
    if not _is_within(folder, found):
        raise UnusableEvals(
            f"`{path}` names `{named}` as its tools, which is outside of its folder",
            "put the manifest into the folder of the set",
        )
    return found


def _is_within(folder: str, path: str) -> bool:
    """True if a file is in a folder or below, also after every link was followed."""
    inside = os.path.realpath(folder)
    return os.path.commonpath([inside, os.path.realpath(path)]) == inside
