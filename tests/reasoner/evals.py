"""The requests of `examples/evals`, which tests of the planner share."""

from pathlib import Path

from agent_resolver.schema import EvalSet, parse_eval_set

FOLDER = Path(__file__).parents[2] / "examples" / "evals"


def _read() -> EvalSet:
    found = parse_eval_set((FOLDER / "requests.yaml").read_bytes(), is_json=False).value
    assert found is not None
    return found


EVALS = _read()
