"""Located diagnostics: what is wrong in an input, where, and what to do next."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Self

from msgspec import Struct, structs


class Severity(StrEnum):
    """How much an issue matters: an error refuses the input, the others do not."""

    ERROR = "error"
    WARNING = "warning"
    HINT = "hint"


class IssueCode(StrEnum):
    """The kind of an issue, stable for machines; the message is for people.

    Below each member: its messages, then the cause and the remedy, as docs/reason-codes.md has them.
    """

    BYTE_ORDER_MARK = "byte-order-mark"
    """Warning: The file opens with a byte order mark

    Three invisible bytes at the start, which some editors write. They are skipped here; other tools may fail on them.
    Save the file as UTF-8 without a byte order mark.
    """
    CONTRADICTION = "contradiction"
    """Error: It is <value> here, and <value> in `constraints`

    `trust.requireSigned` and `constraints.trust.requireSigned` are two spellings of one constraint, and the file has
    both with different values. Keep the one that is meant.
    """
    CONTROL_CHARACTER = "control-character"
    """Error: The file holds a NUL character
    Control character U+<number> is not allowed
    Must not contain control characters, found U+<number>

    A character below U+0020, or U+007F, where none belongs: in the file, or in a value, where it may have been escaped.
    It could hide text on a terminal. Remove it.
    """
    DEPRECATED_SERVER = "deprecated-server"
    """Warning: `<server>` is chosen, and its publisher has deprecated it

    The index states it in `status`. The server still works; look for the one that replaces it. `agent resolve --strict`
    writes no lock with it.
    """
    DRAFTED_SCOPES = "drafted-scopes"
    """Warning: `<server>` is chosen, and no person has confirmed the drafted scopes of <tools>: <names>

    `agent index probe` drafted which scopes open these tools from what the server says of itself. Look at each tool,
    and [confirm its scopes](pins.md#confirm-the-drafted-scopes) in `mcp.overlay.yaml`. `agent resolve --strict` writes
    no lock before that.
    """
    DUPLICATE_KEY = "duplicate-key"
    """Error: Duplicate key, first given on line <line>

    The same key twice in one mapping. Parsers disagree on which one counts, so none is chosen here. Remove one.
    """
    DUPLICATE_SERVER = "duplicate-server"
    """Error: Duplicate server `<server>`, first given on line <line>

    Two entries of the index have the same id and version. Remove one, or give it another version.
    """
    DUPLICATE_SCOPE = "duplicate-scope"
    """Warning: '<scope>' is listed twice

    A requirement lists a permission twice. Both would be in the lock and in its hash. Remove one.
    """
    EMPTY = "empty"
    """Error: Array must contain at least 1 element(s)
    String must contain at least 1 character(s)
    Agent name is required
    Agent version is required

    A list or a string must not be empty: `requires.mcp`, each `permissions`, and every name, version, category and
    scope.
    """
    ENCODING = "encoding"
    """Error: Byte 0x<byte> is not valid UTF-8
    The file is UTF-16, not UTF-8
    A string escapes half a surrogate pair, which is not a character

    Files are UTF-8. Save the file as that; write a character beyond U+FFFF itself, or escape it with both halves.
    """
    ENDPOINT_CONFLICT = "endpoint-conflict"
    """Error: Does not match `launch`, which says how the server is reached

    An entry with [`launch`](file-formats.md#servers-that-are-started) also has an `endpoint`, and it is not the one
    that follows from `launch`. Leave `endpoint` out; the hint also gives the one value that would be right.
    """
    ENDPOINT_NOT_URL = "endpoint-not-url"
    """Hint: '<endpoint>' is not a URL

    An endpoint is not checked to be a URL, but nearly always is one. Look for a typing error.
    """
    FLOATING_PACKAGE = "floating-package"
    """Warning: `<server>` is chosen, and can be another program tomorrow: <reason>

    The launch record of the server fetches a package without one exact version, so the lock pins the command and not
    the program. The hint has the [pinned form](pins.md#pin-the-packages) to write into the index.
    `agent resolve --strict` writes no lock before that.
    """
    FORBIDDEN_SCOPE = "forbidden-scope"
    """Warning: '<scope>' is required, and forbidden by '<pattern>': no server can be chosen

    The agent file asks for what it forbids, and `agent resolve` will reject every server with
    [`FORBIDDEN_ACTION`](#forbidden_action). Drop the permission, or narrow the pattern.
    """
    FORM = "form"
    """Error: Must be <form>

    The id of a step in a [blueprint](blueprints.md) has characters that an expression such as `steps.reserve` could not
    spell. Rename the step.
    """
    FRONT_MATTER = "front-matter"
    """Error: The file is empty
    No front matter found
    Front matter must start on the first line
    Front matter is not closed

    An agent file starts with a line `---`, then the keys, then another line `---`. Without front matter the required
    keys are missing too, and are listed with it.
    """
    FRONT_MATTER_REPAIRED = "front-matter-repaired"
    """Warning: Invalid YAML: <problem>

    From `agent catalog check` alone. The front matter is not YAML, and the catalog
    [read it as it was meant](catalog.md#broken-front-matter); the agent is served. `agent catalog check --fix` writes
    the repaired front matter into the file. `agent validate` calls the same file invalid, with [`syntax`](#syntax), and
    its `requires` do not resolve until it is repaired.
    """
    INVALID_ENUM = "invalid-enum"
    """Error: Invalid enum value. Expected <values>, received '<value>'

    The value is not one of those listed. The hint names the nearest, if one is near.
    """
    INVALID_TYPE = "invalid-type"
    """Error: Expected <type>, received <type>

    A number where a string belongs, a string where a list belongs, and so on. In YAML `version: 1.0` is a number: put
    quotes round it, as the hint shows. `yes` and `no` are strings in YAML 1.2: write `true` and `false`.
    """
    INVISIBLE_CHARACTER = "invisible-character"
    """Warning: Contains the invisible character U+<number> (<name>)

    A character that takes no space, such as a zero width space: two names that look alike would differ. Remove it.
    """
    LEFT_OUT = "left-out"
    """Hint: Left out: <reason>

    From `agent catalog check` alone. The file looks like Markdown and is not taken for an agent: it has no front
    matter, or front matter in TOML or below a comment; its name does not end in `.md`; or it is a symbolic link.
    """
    LIMIT = "limit"
    """Error: Values nest deeper than <number> levels
    More than <number> values, aliases expanded
    Front matter is longer than <number> characters
    Array must contain at most <number> element(s)

    The file passes one of the [limits](file-formats.md#limits), which ordinary files do not come near.
    """
    MERGE_CONFLICT = "merge-conflict"
    """Error: A merge conflict between `<branch>` and `<branch>` opens here

    Version control left its marks in the front matter of the agent file, or in the index, because two branches changed
    it. Keep what is right of both sides, and remove the markers.
    """
    MISPLACED_KEY = "misplaced-key"
    """Error: Has no effect here

    A key that constrains an agent, such as `residency`, `forbid` or `requireSigned`, is where nothing reads it: at the
    top of the front matter, or in another section. It would constrain nothing, so the file is refused. The hint names
    [the right place](file-formats.md#keys-in-the-wrong-place). `agent catalog check` warns about it, since the catalog
    serves the file all the same.
    """
    NAME_ABSENT = "name-absent"
    """Warning: Absent, so the agent goes by the name of its file, `<name>`

    From `agent catalog check` alone. The agent is served, but moves to another address when the file is renamed. Give
    it a `name`.
    """
    NAME_CLASH = "name-clash"
    """Warning: `<path>` has the same name, so this one is `<uri>`

    From `agent catalog check` alone. Both agents are served, [each at its own address](catalog.md#names-and-addresses).
    Give one of them another name, or leave it as it is if the first should come before the other.
    """
    NAME_REFUSED = "name-refused"
    """Warning: `<name>` would be a path, so the agent goes by the name of its file, `<name>`
    `<name>` is longer than <number> characters, so the agent goes by the name of its file, `<name>`
    `<name>` holds characters that cannot be printed, so the agent goes by the name of its file, `<name>`

    From `agent catalog check` alone. The name cannot be part of an address. If the name of the file cannot be part of
    one either, this is an error, and the agent is *not* served. Give it another name.
    """
    OUT_OF_RANGE = "out-of-range"
    """Error: Number out of range

    `rateLimitPerMin` is not a finite number, as with `1e999`.
    """
    REQUIRED = "required"
    """Error: Required

    The key at this path is missing. The place is that of the mapping which lacks it.
    """
    RESIDENCY_ABSENT = "residency-absent"
    """Hint: Absent, so data may go to any region

    The agent file has no `constraints.data.residency`. If that is meant, write `any`, so that a reader need not guess.
    """
    SECRET = "secret"  # noqa: S105 - the name of a fault
    """Error: An argument looks like a secret, and an index is a file to share
    The address holds what looks like a secret, and an index is a file to share

    From `agent index import` alone, which [does not carry secrets over](index-import.md#secrets). Have the server read
    it from an environment variable, and take it out of the arguments or the address.
    """
    SEPARATOR = "separator"
    """Error: Must not contain <characters>: the hash of a lock separates fields by it

    [The hash of a lock entry](file-formats.md#the-hash) joins its fields with `@`, `|` and `,`. If an id, a version or
    a scope could hold one of them, or an endpoint a `|`, two different entries could have the same hash.
    """
    SOURCE_CHANGED = "source-changed"
    """Warning: `<file>` is not what `<file>` was built from

    A [compiled index](large-index.md#no-second-truth) is used beside a source, or an overlay, that has changed since.
    What was chosen comes from the old content. Build it again with `agent index build`; `agent resolve --check` exits 1
    until then.
    """
    SYNTAX = "syntax"
    """Error: Invalid YAML: <problem>
    Alias `<alias>` stands for nothing, or for something that holds it
    A key must be a plain word
    Tag `<tag>` is not allowed here
    Expected a value
    Expected a value, found <text>
    Expected a key in double quotes
    Expected `:` after the key
    Expected `,` or `<bracket>`
    Expected the end of the file
    The string is not closed
    A string holds the control character U+<number>
    Invalid escape in a string
    Invalid number
    `<word>` is not JSON

    The file cannot be parsed, and is not read past that place; other faults come to light once this one is repaired.
    JSON here is strict: no comments, no comma after the last element, no single quotes, no `NaN`.
    """
    TAG_WITHOUT_DIGEST = "tag-without-digest"
    """Hint: `<server>` is chosen, and can be another program tomorrow: <reason>

    The launch record runs an image by its tag. The publisher can move a tag to another image, and rarely does. The hint
    has the form with a digest, which [pins the image](pins.md#pin-the-packages).
    """
    UNKNOWN_AGENT = "unknown-agent"
    """Warning: No agent is called `<name>`

    From `agent catalog check` alone. A role of a [`roles.yaml`](catalog.md#roles), or `fallbacks` of an agent file,
    names an agent that the catalog does not have. Look for a typing error, or name the folder that has the agent with
    `--root`.
    """
    UNKNOWN_FORMAT = "unknown-format"
    """Error: Not of a format that an index is imported from
    Not of the format `<name>`

    From `agent index import` alone. The hint lists the [formats](index-import.md#formats).
    """
    UNKNOWN_KEY = "unknown-key"
    """Warning: Unknown key, it has no effect

    Often a typing error, and then the hint names the key that was meant. A constraint with a misspelt key constrains
    nothing, which is a good reason to use `--strict`. `agent plan` and `agent tools` refuse such a file.
    """
    UNKNOWN_SCOPE = "unknown-scope"
    """Warning: '<scope>' is not among the scopes of the server

    `toolScopes` names a scope that `scopes` of the same entry does not. Correct one of the two.
    """
    UNUSED_PATTERN = "unused-pattern"
    """Warning: `<pattern>` fits no server of the index

    A pattern in the [overlay](file-formats.md#the-overlay) states facts of no server: it is misspelt, or the server
    left the index.
    """
    VERSION_NOT_SEMANTIC = "version-not-semantic"
    """Hint: '<version>' is not a semantic version

    Any string may be a version, but a form such as `1.2.3` tells a reader more.
    """

    # What only the check of a blueprint finds.
    BEYOND_LIMITS = "beyond-limits"
    """Error: The data of '<tool>' is <level>, and the agent may handle at most <level>
    Its data is <level>, and the agent may handle at most <level>
    '<tool>' needs scopes that the lock does not admit: <scopes>
    The blueprint needs scopes that the lock does not admit: <scopes>

    A step, or the blueprint itself, needs more than the agent that uses it may use. Leave the step to another agent, or
    change the agent file and lock again.
    """
    EXPRESSION = "expression"
    """Error: Not an expression: <why>

    A condition, or a `${…}` in a text, does not follow the language of expressions. The message says what is wrong, at
    which character, and what to write.
    """
    FORBIDDEN_CAPABILITY = "forbidden-capability"
    """Error: The agent forbids '<pattern>', which matches '<name>'
    `security_logic` forbids '<pattern>', which matches '<name>'
    `security_logic` keeps data on this machine, and '<tool>' may reach other machines

    A step calls a tool that the agent file or the blueprint forbids, by its id or by a scope that it needs. A tool of a
    server counts as one that may reach other machines: what another program does cannot be known.
    """
    ILL_TYPED = "ill-typed"
    """Error: <target> takes <types>, and this is <types>
    <target> does not take null, which this may be
    <target> does not take <value>
    <target> takes no value here
    <target> needs <name>, which is missing
    <target> has the limit <limit>
    <target> takes no item twice
    <target> takes only the values that its schema lists, not <value>

    A value cannot fit where it goes: an argument, the list of a `for_each`, a condition, the result of the run, or an
    example in `acceptance_tests`. The result of a step with a `condition` may be null, since the step may be left out:
    write `${steps.x.y ?? 'other'}`. If you know more than the schemas say, write `unchecked(…)`.
    """
    INCOMPLETE_WAIT = "incomplete-wait"
    """Error: A wait for a <kind> needs <key>: <meaning>
    A wait for a time needs one of `seconds` and `until`, not both

    The wait lacks a key that says what it waits for.
    """
    LATER_STEP = "later-step"
    """Error: The step '<step>' starts only after this one has ended
    A step cannot wait for itself, nor read its own result

    A step reads the result of another that is not there yet. Change the order, or make both steps of one parallel
    group.
    """
    MAY_BE_REFUSED = "may-be-refused"
    """Warning: May be refused when it runs: <why>

    The value has the right type, and only some of its values are taken: a bound or a list of values that only the tool
    has. The run checks each value before the call.
    """
    MISSING_ARGUMENT = "missing-argument"
    """Error: '<tool>' needs the argument '<name>'

    The tool requires an argument that `input_mapping` does not give.
    """
    MISSING_COMPENSATION = "missing-compensation"
    """Error: If a later step fails, nothing takes back what '<tool>' has done

    The tool is neither idempotent nor read-only, and other steps come beside or after it. Say in `compensation` what
    takes it back. Only a single call at the very end needs none.
    """
    NO_EFFECT = "no-effect"
    """Warning: `<key>` has no effect on a wait for a <kind>
    `<key>` has no effect on a step that waits
    `default` has no effect without `timeout_seconds`
    There is no call to approve: the step '<step>' waits

    The key means nothing here. Remove it, or move it to where it was meant.
    """
    OUT_OF_SCOPE = "out-of-scope"
    """Error: `<root>` is known only in what a step with `for_each` does for each item
    `result` is known only in a compensation

    An expression reads something that does not exist at its place.
    """
    REPEATED_SIGNAL = "repeated-signal"
    """Error: The step '<step>' waits for the signal '<signal>' already
    A signal comes once, and cannot be waited for once for each item

    A signal could end any of the waits. Give each wait a signal of its own.
    """
    REPEATED_STEP = "repeated-step"
    """Error: Another step, at position <number>, has the id '<step>'

    Rename one of them.
    """
    STEP_CYCLE = "step-cycle"
    """Error: Steps wait for each other: <steps>
    A blueprint cannot call itself

    No step of the cycle could ever start. Drop a reference or an entry of `after`.
    """
    STEP_KIND = "step-kind"
    """Error: A step needs `capability` or `wait`: it has neither
    A step has `capability` or `wait`, not both

    A step is a call or a wait.
    """
    UNBATCHED = "unbatched"
    """Error: More than <number> items must be taken in batches

    Say `batch_size`, or lower `max_items`.
    """
    UNDECLARED_MEMBER = "undeclared-member"
    """Error: `<holder>` declares no member '<name>': <rest>

    An expression reads a member that the schema of the value does not have, which would be null in every run. Correct
    the name. If the value has more members than its schema lists, write `unchecked(…)`, or add the member to the
    schema.
    """
    UNKNOWN_ARGUMENT = "unknown-argument"
    """Error: '<tool>' has no argument '<name>'

    The tool would refuse the call. The hint names the nearest argument, if one is near.
    """
    UNKNOWN_CAPABILITY = "unknown-capability"
    """Error: No tool has the id '<tool>'
    The tool '<tool>' is refused: <why>

    This agent has no such tool. `agent tools list` shows its tools, and those that are refused.
    """
    UNKNOWN_STEP = "unknown-step"
    """Error: No step has the id '<step>'

    Often a typing error, and then the hint names the step that was meant.
    """
    UNSAFE_COMPENSATION = "unsafe-compensation"
    """Warning: '<tool>' is not idempotent: if its outcome is unknown, it is not tried again

    If the process ends in the middle of the compensation, a person is asked whether it was done.
    """
    UNUSABLE_SCHEMA = "unusable-schema"
    """Error: `<keyword>` is not something that a JSON Schema (2020-12) of one document can say here
    The arguments of a tool are an object: `type: object` is missing

    Correct the schema: it is in the dialect 2020-12, and refers only to its own parts.
    """


class Issue(Struct, frozen=True, kw_only=True):
    """One finding in an input file, and where it is."""

    at: tuple[str | int, ...]
    """The path to the value, as `("requires", "mcp", 0, "permissions")`; empty for the file as a whole."""
    code: IssueCode
    message: str
    severity: Severity = Severity.ERROR
    hint: str = ""
    """What to do next, when that can be said."""
    line: int = 1
    column: int = 1

    def within(self, key: str | int) -> Self:
        """The same issue, seen from one level further out."""
        return structs.replace(self, at=(key, *self.at))

    @property
    def path(self) -> str:
        """The dotted path, or `(file)` for the file as a whole."""
        return ".".join(map(str, self.at)) or "(file)"

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def only_warnings(issues: Iterable[Issue]) -> tuple[Issue, ...]:
    """The issues that a strict command refuses besides errors."""
    return tuple(issue for issue in issues if issue.severity is Severity.WARNING)


def only_errors(issues: Iterable[Issue]) -> list[Issue]:
    """The issues that refuse the input."""
    return [issue for issue in issues if issue.severity is Severity.ERROR]
