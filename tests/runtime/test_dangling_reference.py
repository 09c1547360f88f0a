"""References that lead nowhere, all of them at once."""

from agent_resolver.runtime import (
    AgentSpec,
    CompositeAgents,
    Dangling,
    DanglingCode,
    InvalidSpec,
    MapAgents,
    ModelPool,
    ModelSpec,
    PoolMember,
    RegistrySet,
    RemoteEndpoint,
    dangling,
)
from agent_resolver.schema import Issue, IssueCode
from tests.runtime.sample import AGENT, MemoryPlugin, registries


class Broken:
    """Agents of which one cannot be read, and one is gone."""

    def get(self, agent_id: str) -> AgentSpec | None:
        if agent_id != "broken":
            return None
        raise InvalidSpec([Issue(at=("runtime",), code=IssueCode.INVALID_TYPE, message="Expected object")])

    def ids(self) -> list[str]:
        return ["broken", "gone"]


LOST = RegistrySet(
    agents=CompositeAgents(
        MapAgents(
            [
                AgentSpec(
                    id="lost",
                    model_id="x",
                    plugin_ids=("notes", "y"),
                    delegates=("z", "fine", "other/broken"),
                    active_hook_filter=("notes", "w"),
                ),
                AgentSpec(id="fine", model_id="both"),
                AgentSpec(id="remote", model_id="x", endpoint=RemoteEndpoint(base_url="https://agents.example")),
            ]
        ),
        [("other", Broken())],
    ),
    models={
        "m": (model := ModelSpec(id="m", provider_id="v", upstream_model="u", aliases=("n",))),
        "n": model,
    },
    pools={"both": ModelPool(id="both", members=(PoolMember(model_id="n"), PoolMember(model_id="u")))},
    plugins={"notes": MemoryPlugin("notes")},
)


def test_every_code_is_told_at_once_in_order() -> None:
    found = dangling(LOST)

    assert found == [
        Dangling(DanglingCode.AGENT_MISSING_DELEGATE, "agent lost", "z"),
        Dangling(DanglingCode.AGENT_MISSING_MODEL, "agent lost", "x"),
        Dangling(DanglingCode.AGENT_MISSING_PLUGIN, "agent lost", "y"),
        Dangling(DanglingCode.HOOK_FILTER_NOT_LOADED, "agent lost", "w"),
        Dangling(DanglingCode.AGENT_INVALID, "agent other/broken", "runtime: Expected object"),
        Dangling(DanglingCode.MODEL_MISSING_PROVIDER, "model m", "v"),
        Dangling(DanglingCode.POOL_MISSING_MODEL, "pool both", "u"),
    ]
    assert {each.code for each in found} == set(DanglingCode)


def test_each_is_told_in_a_sentence() -> None:
    assert list(map(str, dangling(LOST))) == [
        "agent lost: there is no agent z",
        "agent lost: there is no model x",
        "agent lost: there is no plugin y",
        "agent lost: its hook filter names a plugin that it does not load: w",
        "agent other/broken: it is invalid: runtime: Expected object",
        "model m: there is no provider v",
        "pool both: there is no model u",
    ]


def test_what_leads_somewhere_is_not_told() -> None:
    assert dangling(registries(AGENT)) == []
    assert dangling(RegistrySet()) == []
