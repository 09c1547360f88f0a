"""The command `agent task skills`."""

import argparse
from typing import Any

from agent_resolver.cli.option import session_of
from agent_resolver.cli.output import err_faults, issue_document, out, out_json
from agent_resolver.project.skill import ExaminedSkill, examine_skills, skill_folder


def run(options: argparse.Namespace) -> int:
    """Report every fault of the prompts that a planner with a model follows."""
    if options.folder is not None:
        # A folder on the command line is the operator's choice; one from settings must
        # belong to a user who may decide what runs.
        examined = examine_skills(options.folder)
    else:
        with session_of(options) as session:
            examined = examine_skills(skill_folder(session), session.users)
    is_good = not any(each.issues for each in examined)
    if options.json:
        out_json({"success": is_good, "skills": [_document(each) for each in examined]})
        return 0 if is_good else 1
    for each in examined:
        if each.issues:
            err_faults(each.file, each.file, each.issues)
        elif each.skill:
            out(f"✓ {each.skill.name} {each.skill.version}: {each.file}")
    return 0 if is_good else 1


def _document(examined: ExaminedSkill) -> dict[str, Any]:
    skill = examined.skill
    named = (skill.name, skill.version, skill.digest) if skill else (None, None, None)
    name, version, digest = named
    return {
        "path": examined.file,
        "name": name,
        "version": version,
        "digest": digest,
        "issues": list(map(issue_document, examined.issues)),
    }
