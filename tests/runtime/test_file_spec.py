"""Agent files as the runtime reads them: our own, those of other tools, and what is refused with its place."""

from pathlib import Path

import pytest

from agent_resolver.catalog import Definition, Entry, read_entry
from agent_resolver.runtime import AgentSpec, InvalidSpec, MapAgents, RegistrySet, resolve_local, spec_of
from agent_resolver.schema import ALLOW_LISTS, DENY_LISTS, Limits
from tests.runtime.sample import MODEL, builder

DATA = Path(__file__).parents[3] / "shared" / "data" / "agents"

PLACES = "Invalid enum value. Expected 'any' | 'us-only' | 'eu-only'"


def definition(text: str, name: str = "a") -> Definition:
    raw = text.encode()
    entry = read_entry(raw, name)
    assert isinstance(entry, Entry)
    return Definition(f"agent://{name}", entry, f"{name}.md", f"agents/{name}.md", raw)


def spec(front_matter: str, body: str = "Help.\n") -> AgentSpec:
    return spec_of(definition(f"---\nname: a\n{front_matter}---\n{body}"))


def faults(front_matter: str) -> list[str]:
    with pytest.raises(InvalidSpec) as caught:
        spec(front_matter)
    assert caught.value.source == "agents/a.md"
    return [
        f"{issue.line}:{issue.column} {issue}{f' ({issue.hint})' if issue.hint else ''}"
        for issue in caught.value.issues
    ]


def test_a_file_with_nothing_but_a_name_is_an_agent() -> None:
    found = spec("")

    assert found == AgentSpec(id="a", model_id="default", system_prompt="Help.", registry="agents/a.md")


def test_a_file_says_all_that_there_is_to_say() -> None:
    found = spec(
        """\
description: Helps.
model: sonnet
tools: [read, write]
constraints:
  data: {residency: eu-only, sensitivity: pii.low}
  actions: {forbid: ["delete*"]}
  trust: {requireSigned: true}
requires:
  mcp: [{category: crm, permissions: [read]}]
runtime:
  max_rounds: 3
  plugin_ids: [notes]
  delegates: [b, "agent://team/c"]
  excluded_tool_patterns: ["*_all"]
  sections: {retry: {max_retries: 1}, notes: null}
""",
        "\n  # You help\n\nAlways.\n",
    )

    assert found == AgentSpec(
        id="a",
        description="Helps.",
        model_id="sonnet",
        system_prompt="# You help\n\nAlways.",
        max_rounds=3,
        plugin_ids=("notes",),
        delegates=("b", "team/c"),
        allowed_tools=("read", "write"),
        excluded_tool_patterns=("*_all",),
        sections={"retry": {"max_retries": 1}, "notes": None},
        limits=Limits(residency="eu-only", sensitivity="pii.low", require_signed=True, forbid=("delete*",)),
        requires_lock=True,
        registry="agents/a.md",
    )


def test_what_runtime_says_counts_before_the_other_keys() -> None:
    found = spec(
        "description: Helps.\nmodel: opus\ntools: Read\n"
        "runtime: {model_id: small, description: Other., system_prompt: Be brief., allowed_tools: null}\n"
    )

    assert (found.model_id, found.description, found.system_prompt) == ("small", "Other.", "Be brief.")
    assert found.allowed_tools == ()


@pytest.mark.parametrize(
    ("front_matter", "expected"),
    [
        ("tools: Read, Grep ,Bash\n", ("Read", "Grep", "Bash")),
        ("tools: [Read, Grep]\n", ("Read", "Grep")),
        ("tools:\n  - Read\n  - Read\n", ("Read",)),
        ("tools: Bash(npm *), Read\n", ("Bash(npm *)", "Read")),
        ("tools: Agent(worker, Read, x), Grep\n", ("Agent(worker, Read, x)", "Grep")),
        ("tools: []\n", ()),
        ("tools:\n", ()),
    ],
)
def test_tools_may_be_a_list_or_a_text_with_commas(front_matter: str, expected: tuple[str, ...]) -> None:
    found = spec(front_matter)

    assert found.allowed_tools == expected
    assert found.allowed_patterns == ()


@pytest.mark.parametrize("key", ALLOW_LISTS)
def test_an_allow_list_counts_under_each_spelling_of_other_tools(key: str) -> None:
    assert spec(f"{key}: [Read, Grep]\n").allowed_tools == ("Read", "Grep")
    assert spec(f"{key}: Read, Grep\n").allowed_tools == ("Read", "Grep")
    assert spec(f"{key}:\n").allowed_tools == ()


@pytest.mark.parametrize("key", DENY_LISTS)
def test_a_deny_list_counts_under_each_spelling_of_other_tools(key: str) -> None:
    found = spec(f"{key}: [Bash, 'srv.*']\n")

    assert (found.excluded_tools, found.excluded_tool_patterns) == (("Bash",), ("srv.*",))
    assert spec(f"{key}: Bash Write, Edit\n").excluded_tools == ("Bash", "Write", "Edit")
    assert spec(f"{key}:\n").excluded_tools is None
    assert found.allowed_patterns == ("*",)


@pytest.mark.parametrize("text", ['"*"', '["*"]', '[Read, "*"]'])
def test_a_star_alone_allows_every_tool(text: str) -> None:
    assert spec(f"tools: {text}\n").allowed_patterns == ("*",)


@pytest.mark.parametrize(
    ("front_matter", "expected"),
    [
        ("tools: [a, b, c]\nallowed-tools: b c d\n", ("b", "c")),
        ("tools: [a, b]\nallowedTools: []\n", ()),
        ('tools: "*"\nallowed_tools: [a]\n', ("a",)),
        ("tools: [a, b]\nruntime: {allowed_tools: [b, c]}\n", ("b",)),
    ],
)
def test_a_tool_must_be_in_every_allow_list(front_matter: str, expected: tuple[str, ...]) -> None:
    found = spec(front_matter)

    assert found.allowed_tools == expected
    assert found.allowed_patterns == ()


def test_patterns_of_runtime_say_which_tools_there_are_besides_names() -> None:
    found = spec("tools: [a.x]\nruntime: {allowed_tool_patterns: ['b.*']}\n")

    assert (found.allowed_tools, found.allowed_patterns) == (("a.x",), ("b.*",))
    assert spec("tools: '*'\nruntime: {allowed_tool_patterns: ['b.*']}\n").allowed_patterns == ("b.*",)


def test_deny_lists_add_up() -> None:
    found = spec(
        "disallowedTools: a, x*\nexcluded_tools: [b]\nruntime: {excluded_tools: [c], excluded_tool_patterns: ['y*']}\n"
    )

    assert found.excluded_tools == ("c", "a", "b")
    assert found.excluded_tool_patterns == ("y*", "x*")


@pytest.mark.parametrize(
    ("entry", "names", "patterns"),
    [
        # Nothing here tells one call of a tool from another, so that all of it is shut.
        ("Bash(rm *)", ("Bash",), None),
        ("mcp__notes__delete", ("mcp__notes__delete", "notes.delete"), None),
        ("mcp__notes__*", None, ("mcp__notes__*", "notes.*")),
        ("mcp__notes", ("mcp__notes",), ("notes.*",)),
        ("a\\\\*", None, ("a\\\\*",)),
    ],
)
def test_a_rule_of_another_tool_shuts_no_less_than_it_says(
    entry: str, names: tuple[str, ...] | None, patterns: tuple[str, ...] | None
) -> None:
    found = spec(f'disallowedTools: ["{entry}"]\n')

    assert (found.excluded_tools, found.excluded_tool_patterns) == (names, patterns)


@pytest.mark.parametrize(
    ("front_matter", "expected"),
    [
        ("tols: [a]\n", ["3:1 tols: Unknown key (did you mean `tools`?)"]),
        ("Tools: [a]\ntools: [b]\n", ["3:1 Tools: Unknown key (did you mean `tools`?)"]),
        ("denied_tools: [a]\n", ["3:1 denied_tools: Unknown key (did you mean `disallowedTools`?)"]),
        ("tools: a\ntools: b\n", ["3:1 tools: Duplicate key", "4:1 tools: Duplicate key"]),
        (
            "tools: {write: false}\n",
            [
                "3:8 tools: Expected a list of tools, received object (list the names of the tools)"
            ],
        ),
        ("excluded_tools: [[a]]\n", ["3:18 excluded_tools.0: Expected the name of a tool, received array"]),
        # The repair of the catalog makes a text of a list that is not closed.
        (
            "excluded_tools: [Bash, Write\ncolor: red\n",
            ["3:1 excluded_tools.0: `[Bash` cannot be the name of a tool (list the names of the tools)"],
        ),
        ("max_rounds: 3\n", ["3:1 max_rounds: Has no effect here (write it as `runtime.max_rounds`)"]),
        (
            "permission: {bash: deny}\n",
            ["3:1 permission: Has no effect here (write it as `runtime.sections.permission`)"],
        ),
        (
            "constraints: {forbid: [x]}\n",
            ["3:15 constraints.forbid: Has no effect here (write it as `constraints.actions.forbid`)"],
        ),
        ("trust: {signed: true}\n", ["3:9 trust.signed: Unknown key (did you mean `requireSigned`?)"]),
        (
            "trust: {requireSigned: true}\nconstraints: {trust: {requireSigned: false}}\n",
            [
                "3:24 trust.requireSigned: It is true here, and false in `constraints` (keep one of the two)"
            ],
        ),
    ],
)  # fmt: skip
def test_a_list_or_limit_that_would_be_overlooked_is_refused(front_matter: str, expected: list[str]) -> None:
    assert faults(front_matter) == expected


def test_trust_at_the_top_is_a_limit_of_the_agent() -> None:
    assert spec("trust: {requireSigned: true}\n").limits == Limits(require_signed=True)


def test_without_tools_every_tool_is_allowed() -> None:
    assert spec("model: x\n").allowed_patterns == ("*",)


@pytest.mark.parametrize(
    ("front_matter", "expected"),
    [
        ("", "default"),
        ("model:\n", "default"),
        ("model: inherit\n", "default"),
        ('model: ""\n', "default"),
        ("model: sonnet\n", "sonnet"),
        ("model: 4.10\n", "4.10"),
        ("model: claude-opus-4 # the large one\n", "claude-opus-4"),
    ],
)
def test_a_model_that_is_not_named_is_the_default_one(front_matter: str, expected: str) -> None:
    assert spec(front_matter).model_id == expected


def test_an_agent_may_be_called_by_its_address() -> None:
    assert spec_of(definition("---\nname: a\n---\n"), "team/a").id == "team/a"


def test_a_prompt_may_hold_anything() -> None:
    assert spec("", "\x07 bell\u200b \ufeff\n").system_prompt == "\x07 bell\u200b \ufeff"


def test_front_matter_that_had_to_be_repaired_is_read_like_any_other() -> None:
    found = spec("description: Use when: always\nruntime: {max_rounds: 2}\n")

    assert (found.description, found.max_rounds) == ("Use when: always", 2)


@pytest.mark.parametrize(
    ("front_matter", "expected"),
    [
        ("runtime: 5\n", ["3:1 runtime: Expected object"]),
        ("runtime:\n", ["3:1 runtime: Expected object"]),
        (
            "runtime:\n  max_rouns: 3\n  plugin_ids: notes\n",
            [
                "4:3 runtime.max_rouns: Unknown key (did you mean `max_rounds`?)",
                "5:3 runtime.plugin_ids: Expected array, received string",
            ],
        ),
        (
            "runtime:\n  id: b\n  limits: {}\n  requires_lock: false\n  registry: x\n",
            [
                "4:3 runtime.id: Unknown key: `name` says it",
                "5:3 runtime.limits: Unknown key: `constraints` says it",
                "6:3 runtime.requires_lock: Unknown key: `requires` says it",
                "7:3 runtime.registry: Unknown key: the file says it",
            ],
        ),
        (
            "runtime:\n  context_policy: {max_context_tokens: 1, max_output_tokens: 1, enable_prompt_cache: true}\n",
            ["4:3 runtime.context_policy.min_recent_messages: Required"],
        ),
        (
            "runtime: {excluded_tool_patterns: ['x\\']}\n",
            ["3:36 runtime.excluded_tool_patterns.0: `x\\` is not a pattern: dangling escape"],
        ),
        (
            "tools: [re\u200bad]\n",
            ["3:1 tools.0: Contains the invisible character U+200B (ZERO WIDTH SPACE) (remove it)"],
        ),
        # What governs an agent is never left out because of a slip.
        ("constraint:\n  data: {}\n", ["3:1 constraint: Unknown key (did you mean `constraints`?)"]),
        ("Requires: {}\n", ["3:1 Requires: Unknown key (did you mean `requires`?)"]),
        ("run-time: {}\n", ["3:1 run-time: Unknown key (did you mean `runtime`?)"]),
        (
            "constraints:\n  data: {residency: eu, sensitivty: public}\n  action: {forbid: [x]}\n",
            [
                f"4:10 constraints.data.residency: {PLACES}, received 'eu'",
                "4:25 constraints.data.sensitivty: Unknown key (did you mean `sensitivity`?)",
                "5:3 constraints.action: Unknown key (did you mean `actions`?)",
            ],
        ),
        ("constraints: eu-only\n", ["3:14 constraints: Expected object, received string"]),
        (
            "constraints: {data: {residency: eu-only}}\nconstraints: {}\n",
            ["3:1 constraints: Duplicate key", "4:1 constraints: Duplicate key"],
        ),
        (
            "constraints:\n  data: {residency: eu-only}\n  data: {residency: any}\n",
            ["5:3 constraints.data: Duplicate key, first given on line 4"],
        ),
        (
            "constraint: {}\nconstraints: 5\nruntime: {x: 1}\n",
            [
                "3:1 constraint: Unknown key (did you mean `constraints`?)",
                "4:14 constraints: Expected object, received number",
                "5:11 runtime.x: Unknown key",
            ],
        ),
    ],
)  # fmt: skip
def test_every_fault_is_told_with_its_place(front_matter: str, expected: list[str]) -> None:
    assert faults(front_matter) == expected


@pytest.mark.parametrize(
    "key", ["color", "categories", "dependencies", "requirements", "constrained", "constant", "run"]
)
def test_keys_of_other_tools_are_none_of_our_business(key: str) -> None:
    assert spec(f"{key}: x\n").id == "a"


@pytest.mark.parametrize("key", ["constraint", "contraints", "Constraints", "require", "requiers", "run_time"])
def test_a_key_that_nearly_governs_the_agent_is_refused(key: str) -> None:
    assert "Unknown key (did you mean `" in faults(f"{key}: x\n")[0]


# Files as people have published them ----------------------------------------------------------------------------------


def planned(text: str) -> list[str]:
    """The warnings of the plan of a file, with a model that has every usual name."""
    found = spec_of(definition(text))
    snapshot = builder().build().snapshot
    made = RegistrySet(
        agents=MapAgents([found]), models={"default": MODEL, "sonnet": MODEL}, providers=snapshot.providers
    )
    return [f"{warning.code} {warning.subject}" for warning in resolve_local(made, found.id).warnings]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("---\nname: plain\ndescription: d\nmodel: sonnet\n---\nYou help.\n", []),
        (
            "---\nname: with-tools\ntools: Read, Grep, mcp__acme__read\n---\n",
            ["UNKNOWN_TOOL Read", "UNKNOWN_TOOL Grep", "UNKNOWN_TOOL mcp__acme__read"],
        ),
        ("---\nname: listed\ntools:\n  - Bash(git *)\n---\n", ["PERMISSION_SHAPED_ENTRY Bash(git *)"]),
        ('---\nname: star\ntools: "*"\n---\n', []),
        ("---\nname: inherits\nmodel: inherit\ncolor: red\n---\n", []),
        ("---\nname: empty\ntools: []\n---\n", []),
    ],
)
def test_a_file_of_another_tool_has_a_plan(text: str, expected: list[str]) -> None:
    assert planned(text) == expected


@pytest.mark.skipif(not DATA.is_dir(), reason="the published agent files are not at hand")
def test_every_published_agent_file_gives_a_spec() -> None:
    paths = sorted(DATA.rglob("*.md"))
    found = [spec_of(definition(path.read_text(encoding="utf-8"), path.stem)) for path in paths]

    assert len(found) == 273
    assert {spec.model_id for spec in found} == {"default", "sonnet", "opus", "haiku", "fable"}
    assert all(spec.system_prompt and not spec.requires_lock for spec in found)
