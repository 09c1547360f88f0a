"""The files beside an agent file."""

import pytest

from agent_resolver.schema import agent_path_of, explanation_path_of, lock_path_of, report_path_of


@pytest.mark.parametrize(
    ("agent_path", "stem"),
    [("agents.md", "agents"), ("./agents/crm.md", "./agents/crm"), ("a.md.md", "a.md"), ("notes.txt", "notes.txt")],
)
def test_each_is_named_after_the_agent_file(agent_path: str, stem: str) -> None:
    assert lock_path_of(agent_path) == f"{stem}.lock"
    assert explanation_path_of(agent_path) == f"{stem}.resolution.json"
    assert report_path_of(agent_path) == f"{stem}.report.html"


@pytest.mark.parametrize("agent_path", ["agents.md", "./agents/crm.md", "a.lock.md"])
def test_a_lock_leads_back_to_its_agent_file(agent_path: str) -> None:
    assert agent_path_of(lock_path_of(agent_path)) == agent_path
