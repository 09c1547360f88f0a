"""The bounds of every input, in one place."""

MAX_AGENT_FILE_BYTES = 4 * 1024 * 1024
MAX_FRONT_MATTER_CHARACTERS = 256 * 1024
MAX_INDEX_BYTES = 1024 * 1024 * 1024
MAX_DEFINITIONS_BYTES = 64 * 1024 * 1024
MAX_OVERLAY_BYTES = 4 * 1024 * 1024
MAX_LOCKFILE_BYTES = 64 * 1024 * 1024
MAX_MANIFEST_BYTES = 64 * 1024 * 1024
MAX_CLIENT_SETTINGS_BYTES = 4 * 1024 * 1024

MAX_DEPTH = 64
"""How deep lists and mappings may nest."""

MAX_INTEGER_DIGITS = 250
"""Longer integers are no longer exact: every shorter one, hexadecimal too, fits a float."""

MAX_YAML_NODES = 50_000
"""How many values a YAML document may hold once its aliases are expanded."""

MAX_SOURCE_BYTES = 32 * 1024 * 1024
"""The size of a file that an index is imported from."""

MAX_SOURCE_NODES = 2_000_000
"""How many values such a file may hold."""

MAX_SOURCE_FILES = 20_000
"""How many such files may be below a folder."""

MAX_SOURCE_ENTRIES = 100_000
"""How many servers all of them may have together."""

MAX_SOURCE_LIST = 1_000
"""How many elements a list of an entry may have."""

MAX_SOURCE_TEXT = 4_096
"""How many characters a text of an entry may have."""

MAX_FORBID_PATTERNS = 100
"""How many patterns an agent file may forbid: each is held against every scope and tool."""

MAX_WORKSPACE_FILES = 100_000
"""How many Markdown files a workspace may have below its folder."""

MAX_BLUEPRINT_BYTES = 256 * 1024

MAX_EXACT_INTEGER = 2**63 - 1
"""Larger whole numbers are not exact in every program that reads JSON."""

MAX_EVIDENCE_BYTES = 16 * 1024 * 1024
"""The size of an exported task that can be verified."""

MAX_WORKFLOW_BYTES = 1024 * 1024

MAX_WORKFLOW_STEPS = 100
"""The most steps that a workflow may have: each asks a model at least once."""

MAX_WORKFLOW_HEADING = 200
"""The most characters that a heading of a workflow may have."""

MAX_WORKFLOW_TEXT = 100_000
"""The most characters below one heading: each agent that it mentions is given them."""

MAX_EVAL_SET_BYTES = 4 * 1024 * 1024

MAX_EVAL_CASES = 1_000
"""The most requests of one eval set: each is planned once for every planner."""

MAX_EVAL_REPORT_BYTES = 64 * 1024 * 1024
