"""The rules about access: the scopes that a plan takes, and the secrets that its tools are given."""

from collections.abc import Iterator

from agent_resolver.core.authorization import missing_scopes
from agent_resolver.core.count import plural
from agent_resolver.core.ops.draft import AuditedDraft
from agent_resolver.core.ops.rule import ABOUT_STEP, ALLOWED, OpsFinding
from agent_resolver.core.ops.subject import OpsSubject
from agent_resolver.schema.descriptor import Rules


def exceeded_scopes(draft: AuditedDraft) -> Iterator[OpsFinding]:
    """Scopes that a call takes, or the draft itself, and the initiator or the lock does not have."""
    for call, tool in draft.known_calls:
        lacking = _lacking_scopes(draft.subject, tool.rules)
        if lacking:
            yield OpsFinding(
                about=call.about,
                step=call.step,
                message=f"{call} calls `{tool.id}`: {lacking}",
                remedy="Leave the step out, or grant the scopes to the initiator and in the lock",
                choices=ABOUT_STEP,
            )
    own = Rules(required_scopes=draft.subject.blueprint.security_logic.required_scopes)
    lacking = _lacking_scopes(draft.subject, own)
    if lacking:
        yield OpsFinding(
            about="required_scopes",
            message=f"The draft itself takes more than is granted: {lacking}",
            remedy="Grant the scopes to the initiator and in the lock",
            choices=(ALLOWED,),
        )


def _lacking_scopes(subject: OpsSubject, rules: Rules) -> str:
    """The scopes that the initiator or the lock does not have, in words; empty if they have all of them."""
    locked = subject.policy.locked_scopes
    # Without a lock, only the initiator limits the scopes.
    unlocked = [] if locked is None else sorted({*rules.required_scopes} - locked)
    sides = (
        ("the initiator does not hold", missing_scopes(rules, subject.caller)),
        ("the lock has not", unlocked),
    )
    return "; ".join(
        f"{words} {', '.join(dict.fromkeys(scopes))}"
        for words, scopes in sides
        if scopes
    )


def missing_secrets(draft: AuditedDraft) -> Iterator[OpsFinding]:
    """Secrets that tools of the plan are given and the project does not have. Only their names are known here."""
    wanted: dict[str, list[str]] = {}
    for call, tool in draft.known_calls:
        for secret in tool.rules.secrets:
            wanted.setdefault(secret, []).append(f"`{call.about}`")
    for secret in sorted(wanted.keys() - draft.subject.secrets_present):
        steps = list(dict.fromkeys(wanted[secret]))
        yield OpsFinding(
            about=secret,
            message=f"{plural(len(steps), 'Step')} {', '.join(steps)} cannot run without the secret {secret}",
            remedy=f"Provide the secret {secret} to the project",
        )
