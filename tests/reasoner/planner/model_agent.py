"""Agents that answer a planner from a script, sensibly and in every other way."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import agent_resolver.reasoner
from agent_resolver.core.skill import read_skill
from agent_resolver.reasoner import ModelPlanner
from agent_resolver.reasoner.planner.agent_port import AgentQuestion, AgentReply
from agent_resolver.schema.skill import Skill

FOLDER = Path(agent_resolver.reasoner.__path__[0]) / "skill"
Script = Callable[[AgentQuestion, dict[str, Any]], str]


def shipped_skills() -> dict[str, Skill]:
    """The skills that come with the package."""
    readings = {name: read_skill((FOLDER / f"{name}.md").read_bytes()) for name in ("builder", "ops")}
    return {name: reading.skill for name, reading in readings.items() if reading.skill}


def data_of(question: AgentQuestion) -> dict[str, Any]:
    """What a model is asked, as its prompt has it."""
    document: dict[str, Any] = json.loads(question.turns[0].removeprefix("<data>\n").removesuffix("\n</data>"))
    return document


class ScriptedAgent:
    """Answers with what a function makes of the question; ten tokens for each answer."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.asked: list[AgentQuestion] = []

    async def ask(self, question: AgentQuestion) -> AgentReply:
        self.asked.append(question)
        return AgentReply(text=self._script(question, data_of(question)), tokens=10)


class SilentAgent:
    """Never answers."""

    async def ask(self, question: AgentQuestion) -> AgentReply:
        await asyncio.Event().wait()
        return AgentReply(text=question.trace_id)


class ObstructedAgent:
    """Fails, after it used some tokens."""

    async def ask(self, question: AgentQuestion) -> AgentReply:  # noqa: ARG002 - the port
        return AgentReply(tokens=7, obstacle="MODEL_FAILED")


def planner_saying(script: Script) -> ModelPlanner:
    return ModelPlanner(ScriptedAgent(script), shipped_skills())


def always(text: str) -> Script:
    return lambda _question, _data: text


def choosing(**tools: str) -> Script:
    """Chooses a tool for each part that has a word, finds words for inputs, and has a concern."""

    def script(_question: AgentQuestion, data: dict[str, Any]) -> str:
        if data["task"] == "choose-tools":
            parts = [
                (part["part"], tool) for part in data["parts"] for word, tool in tools.items() if word in part["text"]
            ]
            return json.dumps({"parts": [{"part": number, "tools": [tool]} for number, tool in parts]})
        return sensible(_question, data)

    return script


def sensible(_question: AgentQuestion, data: dict[str, Any]) -> str:
    """Chooses nothing and finds nothing: what the rules leave open stays open."""
    empty: dict[str, dict[str, list[Any]]] = {
        "choose-tools": {"parts": []},
        "find-arguments": {"arguments": []},
        "audit": {"concerns": ["The ticket stays open."]},
    }
    return json.dumps(empty[data["task"]])
