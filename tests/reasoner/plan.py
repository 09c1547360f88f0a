"""Plans for tests of stages: small, and sound unless a test breaks them."""

from typing import Any

import msgspec

from agent_resolver.schema.blueprint import Blueprint
from agent_resolver.schema.planning import Classified, Drafted
from tests.reasoner.task_home import NUMBER, TEXT, FakeTool, schema

TITLE = {**TEXT, "description": "What it is about."}


def opening(**more: Any) -> FakeTool:
    """Opens a ticket: an effect that can be taken back."""
    fields = {"inputs": {"title": TITLE}, "outputs": {"ticket_id": NUMBER}, "result": {"ticket_id": 1}}
    return FakeTool("tickets.open", "Open a ticket.", **{**fields, **more})


def closing(**more: Any) -> FakeTool:
    fields = {"inputs": {"ticket_id": NUMBER}, "is_idempotent": True}
    return FakeTool("tickets.close", "Close a ticket.", **{**fields, **more})


def assigning(**more: Any) -> FakeTool:
    fields = {"inputs": {"ticket_id": NUMBER}, "is_idempotent": True}
    return FakeTool("tickets.assign", "Assign a ticket.", **{**fields, **more})


def plan(**more: Any) -> Blueprint:
    """Opens a ticket, which is closed again if assigning it fails."""
    document: dict[str, Any] = {
        "blueprint_metadata": {
            "id": "plans.open_assign",
            "version": "1.0.0",
            "description": "Open a ticket and assign it.",
            "cost_center": more.pop("cost_center", ""),
        },
        "dag": {
            "input_schema": schema(title=TITLE),
            "steps": [
                {
                    "id": "open",
                    "capability": "tickets.open",
                    "input_mapping": {"title": "${input.title}"},
                    "compensation": {
                        "capability": "tickets.close",
                        "input_mapping": {"ticket_id": "${result.ticket_id}"},
                    },
                },
                {
                    "id": "assign",
                    "capability": "tickets.assign",
                    "input_mapping": {"ticket_id": "${steps.open.ticket_id}"},
                },
            ],
            "output_mapping": {"ticket_id": "${steps.open.ticket_id}"},
        },
        "acceptance_tests": [
            {
                "name": "a ticket",
                "input": {"title": "a"},
                "results": {"open": {"ticket_id": 1}, "assign": {"done": True}},
                "output": {"ticket_id": 1},
            }
        ],
    }
    document["security_logic"] = {"data_classification": more.pop("classification", "INTERNAL")}
    change = more.pop("change", None)
    if change is not None:
        change(document)
    return msgspec.convert(document, Blueprint)


def classified(**more: Any) -> Classified:
    return Classified(**{"kind": "BLUEPRINT", "tools": ("tickets.open", "tickets.assign"), **more})


def drafted(blueprint: Blueprint | None = None, **more: Any) -> Drafted:
    known: dict[str, Any] = {"blueprint": blueprint or plan(), "arguments": {"title": "Login fails"}}
    return Drafted(**{**known, **more})
