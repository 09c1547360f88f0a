"""The outcomes of a call: done, failed, or waiting for a person."""

from enum import StrEnum
from typing import Any

from msgspec import UNSET, Struct, UnsetType


class FailureCode(StrEnum):
    """The reasons for which a call fails, stable for machines.

    Below each member: its messages, then the cause and the remedy, as docs/reason-codes.md has them.
    """

    UNAUTHORIZED = "UNAUTHORIZED"
    """<caller> is not verified, and this project has an issuer
    The token of <caller> expired at <time>
    <server> refused our credentials (<reason>)
    <server> is locked at '<endpoint>', and credentials never travel in the clear
    The issuer of the credentials for <server> is not an `https` address: <issuer>

    The first two messages are about the caller: the project has [an issuer](identity.md), and the call came without a
    token of it, or with one that has expired since. Get a token, and call again. A run that outlives its token goes on
    with a [worker](identity.md#when-the-token-of-a-run-expires).

    The others are about a server that is called. Look at its
    [table in `agent.toml`](configuration.md#credentials-of-servers): is there one, does the variable that it names hold
    a token that is still valid, and for these scopes? A secret is sent to an `https` address or to this machine only.
    """
    UNKNOWN_TOOL = "UNKNOWN_TOOL"
    """Unknown tool: <tool>
    <server> no longer has `<tool>`

    Neither a locked server nor a module of the project offers a tool of that id. The id of a server's tool is the
    server's id, a dot and the tool's name: `notes.read_note`. A capability has the id that it was declared with. See
    `agent tools list`. A server that was updated may have renamed the tool; then the new name is `TOOL_NOT_MAPPED`
    until the index has it.
    """
    FORBIDDEN_ACTION = "FORBIDDEN_ACTION"
    """Agent forbids '<pattern>' which matches '<name>'
    The agent that runs may not call <tool>
    The run has ended, and <tool> was called in it
    <reason>

    `<reason>` is that of a gate in the run, such as `Tool 'Bash' denied by permission rules`: see
    [permission rules](permissions.md). The word after `matches` is the name of the tool, its id, or a scope that opens
    it. To allow it, narrow the pattern in the agent file; the lock stays as it is. `agent plan` says which tools an
    agent has in a [run](run.md), and why others are absent.
    """
    SCHEMA_UNUSABLE = "SCHEMA_UNUSABLE"
    """The schema of its <part> cannot be used: <reason>

    The server describes the tool's arguments or result with something that is not a JSON Schema, is larger than the
    [limit](file-formats.md#limits), or refers to a schema elsewhere, which is never fetched. Arguments could not be
    checked, so the tool stays closed. Tell the operator of the server.
    """
    SCOPE_NOT_LOCKED = "SCOPE_NOT_LOCKED"
    """It needs scopes that are not locked: <scopes>

    `toolScopes` says that these scopes open the tool, and the lock does not grant them. If the agent should have them,
    add them to the requirement's `permissions`, and resolve again.
    """
    TOOL_CHANGED = "TOOL_CHANGED"
    """<server> has changed the definition of '<tool>' that the lock pins
    <server> has added '<tool>', which the lock does not pin
    <server> no longer lists '<tool>', which the lock pins

    The lock pins what the tools of the server say of themselves, and the server says something else now. A description
    is read by models, so a changed one can change what an agent does. Look at the old text against the new one with
    [`agent tools accept`](pins.md#a-changed-tool), which pins the new one, and renew the lock with `agent resolve`. The
    failure of a call does not quote the new text: the caller may be a model that the text was written for.
    """
    TOOL_ID_RESERVED = "TOOL_ID_RESERVED"
    """<server> lists '<tool>', but ids that begin with '<other>.' are those of the server <other>

    Two locked servers have ids of which one begins with the other and a dot, such as `acme` and `acme.eu`. A tool
    `eu.read` of `acme` would have the id of the tool `read` of `acme.eu`, so it stays closed, even if a map or `admit`
    opens it. The tool of the other server is not affected. Rename the tool, or lock the other server under another id.
    """
    TOOL_NAME_REPEATED = "TOOL_NAME_REPEATED"
    """<server> lists more than one tool named '<tool>', and a call could reach any of them

    All tools of that name are refused; the other tools of the server work. Ask the operator of the server to rename all
    but one. `agent doctor` reports it as well.
    """
    TOOL_NAME_UNUSABLE = "TOOL_NAME_UNUSABLE"
    """A name of a tool has 1 to <number> characters that can be printed
    With the id of its server before it, <reason>

    The name is empty, too long, or has invisible characters, such as line breaks, control characters and those that
    reverse the direction of writing. `agent tools list --json` shows it with escapes. Ask the operator of the server to
    rename the tool. An id is that of the server, a dot and the name, and has at most 256 characters; lock the server
    under a shorter id. Tools of modules, plugins and programs follow the same rule, and are refused where they are
    offered.
    """
    TOOL_NOT_MAPPED = "TOOL_NOT_MAPPED"
    """The lock does not say which scope opens '<tool>'

    `toolScopes` of the server does not list the tool, so it is not known what it opens. Add it there and resolve again,
    or [admit it by name](governed-tools.md#admit-a-tool-by-name).
    """
    INPUT_VALIDATION_FAILED = "INPUT_VALIDATION_FAILED"
    """The arguments do not follow the schema of <tool>
    The arguments do not follow the schema of <tool>: <place>
    The arguments of <tool> are larger than <number> bytes
    The arguments for <tool> cannot be shown to a person
    The key of a call has 1 to <number> printable characters

    Every fault is listed below the message, with the path in the arguments; `(arguments)` is the object itself. The
    value is never repeated: it may be a secret. Nothing was asked, and nothing was done. See `agent tools show` for the
    schema. The limit in bytes is that of a capability that [runs apart](capabilities.md#a-process-of-its-own).
    """
    MISSING_SCOPE = "MISSING_SCOPE"
    """<caller> lacks what <tool> asks for: <scopes>

    The scopes of a caller are those of [their token](identity.md#what-it-says-of-the-caller). Get one with the scopes
    that are listed. Without an issuer, no caller lacks a scope.
    """
    CLEARANCE_TOO_LOW = "CLEARANCE_TOO_LOW"
    """<tool> is <classification>, and <caller> is cleared for <clearance>

    The data of the tool is more sensitive than the caller may see. The clearance is in the claim `clearance_level` of
    [their token](identity.md#what-it-says-of-the-caller), and `PUBLIC` where it is missing. Have a caller with that
    clearance make the call, or have the issuer write the claim. A tool of a locked server counts as `INTERNAL`.
    """
    APPROVAL_REJECTED = "APPROVAL_REJECTED"
    """<approver> rejected this call<reason>

    An approver [rejected](inbox.md) this call, and the answer stays. If it was a mistake, make the call without
    `--trace-id`: under a new trace it asks again.
    """
    RATE_LIMITED = "RATE_LIMITED"
    """The rate limit of <source> is <number> a minute

    The index sets `policy.rateLimitPerMin` for a server, or a capability declares `rate_limit_per_minute`, and all
    processes that share the state file have used it up. The hint says how long to wait.
    """
    TOO_MANY_QUESTIONS = "TOO_MANY_QUESTIONS"
    """<caller> has <number> questions open, and no more are asked for one caller

    Each call that waits for a person is a question in the [inbox](inbox.md), and one caller may have a limited number
    of open ones. Have the open ones answered, or let them expire, and make the call again.
    """
    CODE_CHANGED = "CODE_CHANGED"
    """The code of <tool> changed on disk since it was loaded: <file>

    The process runs the code that it loaded, and the file on disk has other code now. A capability that runs in a
    [process of its own](capabilities.md#a-process-of-its-own) is not called then. Start the command again, so that the
    present code is loaded; an approval of the former code does not count for it.
    """
    STATE_UNAVAILABLE = "STATE_UNAVAILABLE"
    """The state cannot be used: <reason>

    The call could not be recorded, because the disk is full or the state file cannot be read or written. A call that
    had not started was not made. If it had started, look whether it was done before you call again. See
    `agent state info`.
    """
    KEY_REUSED = "KEY_REUSED"
    """The key was used for another call of <tool>

    A [key](calls.md#keys) stands for one call with one set of arguments. It was used with other arguments before. Give
    each call a key of its own.
    """
    ALREADY_RUNNING = "ALREADY_RUNNING"
    """The same call of <tool> is on its way

    Another process, or another request, makes the call of this key right now. Ask again under the same key: once it is
    done, you get its result. Without a key, it is a call that was approved and is made right now: ask again under the
    same trace.
    """
    OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"
    """<tool> was interrupted after it had started, and nobody knows whether it was done
    <tool> was interrupted after it had started; <caller> says: <answer>

    It is not safe to do twice, so nothing tries it again by itself. Look whether it was done; then
    [say so](calls.md#when-the-outcome-is-unknown).
    """
    NOT_CONFIGURED = "NOT_CONFIGURED"
    """The secret <name> cannot be read: <reason>
    <tool> runs in a process of its own, which needs process groups
    <tool> was done under this key, and its result cannot be read: <reason>
    The tools of <server> cannot be offered: <reason>

    The secret cannot be read from the place that [the settings name](secrets.md): the file is not text or may not be
    read, the keyring does not answer, or its package is not installed. A process of its own
    [does not exist on Windows](capabilities.md#a-process-of-its-own). A result that was kept can be read only with the
    key that [sealed it](calls.md#keys): put the key back. Tools of a server cannot be offered if another server has one
    of their ids, or if that cannot be recorded.
    """
    SERVER_UNAVAILABLE = "SERVER_UNAVAILABLE"
    """<server> cannot be reached: <reason>
    <server> cannot be started: `<command>`: <reason>
    <server> closed the connection
    <server> is not connected
    <server> is locked at '<endpoint>', which is no HTTP address
    <server> is to be started and then called over HTTP, which is not done yet
    <server> speaks the older protocol SSE, which is not spoken here
    No process can be started for <tool>: <reason>
    <tool> is not called: <number> calls run on although their time is up

    A server that is called is not there, or went away. A server that is started could not be: its command is looked for
    in `PATH`. If it *closed the connection* at once, it ended by itself: add `--verbose` to see what it said. If it did
    so in the middle of a call, the call may have done its work. The last two are about capabilities: the machine has no
    process left, or too many calls of this function, or of all together, [do not end](capabilities.md#time).
    """
    PROTOCOL_ERROR = "PROTOCOL_ERROR"
    """<server> answered: <message>
    <server> answered what the protocol does not allow: <place>: <reason>
    <server> wrote <lines> outside the protocol
    <server> asks for more input in the middle of `<tool>`, which cannot be given here
    <server> lists too much: more than <limit>
    <server> gave an answer that cannot be used: <reason>

    The server does not keep to MCP, or answered with an error of the protocol instead of a result. A common cause in a
    server that is started: it prints something to stdout, where only messages may go.

    An answer that cannot be used is larger than the [limits](file-formats.md#limits), is compressed although the
    request did not ask for that, or is not what it says it is. Nothing of it is kept. The call may have done its work
    all the same.
    """
    TIMEOUT = "TIMEOUT"
    """<server> did not answer in time
    <tool> did not answer within <number> s
    Nothing came in time

    A server has 20 seconds to start, and a call of its tool the seconds of `--timeout`. A capability has the seconds
    that it [declares](capabilities.md#what-is-declared). A call that was under way may have done its work: look before
    you call again. The last is about a step of a [blueprint](blueprints.md#answer-it) that waits for a person or a
    signal, with a `timeout_seconds` and without a `default`.
    """
    TOOL_ERROR = "TOOL_ERROR"
    """<message>
    The tool reported an error without words
    <tool> asks again what was answered
    Run <run> was cancelled<back>
    <step><code>: <message><back>

    The tool ran and says that it could not do what it was asked. The first message is the tool's own; if it gives no
    hint, ask its author. A capability that fails with a code that is not its own, such as `UNKNOWN_TOOL`, fails with
    this one.

    A tool that asks again raises the same question though it was given the [answer](inbox.md#answer-a-question).

    The last two are about a [blueprint](blueprints.md): its run was cancelled, or a step failed with the code that is
    named. They end with the steps that were taken back.
    """
    RUNNER_ERROR = "RUNNER_ERROR"
    """<tool> failed: <error><place>
    The process of <tool> <end> before it had answered
    The process of <tool> gave an answer that cannot be understood
    <tool> needs a secret, and does not say its name

    The code of the tool raised an error that it did not foresee, or its process ended. The kind of the error and its
    place are reported, such as `ValueError at tickets.py:92 in create`, and not its text: that may hold arguments or
    secrets. It may have done its work all the same. Tell the author of the tool; a failure that is foreseen should be
    [a `ToolFailure`](capabilities.md#failures). A failure with a code that does not exist is such an error as well. The
    last is about a `NeedsAction` whose `needs` is not a name, or the value of a secret.
    """
    OUTPUT_VALIDATION_FAILED = "OUTPUT_VALIDATION_FAILED"
    """The result of <tool> does not follow its schema
    The result is larger than <number> bytes
    <tool> gave a secret where its schema has no room for the mask
    <tool> gave `<type>`, which is not JSON (<error>)

    The tool has a schema for its result, and the result breaks it, or is not JSON at all; or it would break it once a
    secret in it is [masked](calls.md#redaction), such as one in a number. It is not handed on. The tool has done its
    work all the same. Tell the operator of the server, or the author of the capability.
    """


class Done(
    Struct, frozen=True, kw_only=True, tag="done", tag_field="status", rename="camel"
):
    """The tool ran and this is its result."""

    trace_id: str
    result: Any
    traceparent: str | UnsetType = UNSET
    """The call's own place in its trace, where somebody watches."""


class Failed(
    Struct, frozen=True, kw_only=True, tag="failed", tag_field="status", rename="camel"
):
    """The tool was refused, or did not do what it should."""

    trace_id: str
    code: FailureCode
    message: str
    remedy: str
    details: tuple[str, ...] = ()
    question: str | UnsetType = UNSET
    """The id of the open question whose answer lets the same call go on, where there is one."""
    traceparent: str | UnsetType = UNSET


class Pending(
    Struct, frozen=True, kw_only=True, tag="pending", tag_field="status", rename="camel"
):
    """The call waits for the pending action `id`; calling again once it is answered goes on."""

    trace_id: str
    id: str
    type: str
    code: str
    """`APPROVAL_REQUIRED`, `SECRET_REQUIRED`, …: its type, in the words of the failures."""
    message: str
    remedy: str
    expires_at: str | None = None
    traceparent: str | UnsetType = UNSET


Outcome = Done | Failed | Pending
