import pytest

from agent_resolver.telemetry import SAMPLERS, InvalidVariable, Settings, read_settings

BASE = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}


def settings(**environment: str) -> Settings:
    found = read_settings(environment)
    assert found is not None
    return found


def exporters(**environment: str) -> tuple[tuple[str, ...], ...]:
    found = settings(**environment)
    return found.traces.exporters, found.metrics.exporters, found.logs.exporters


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"OTEL_SERVICE_NAME": "tickets", "OTEL_TRACES_SAMPLER": "always_on"},
        {"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"},
        {"OTEL_TRACES_EXPORTER": "", "OTEL_EXPORTER_OTLP_ENDPOINT": " "},
        {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_EXPORTER_OTLP_HEADERS": "a=b"},
        {**BASE, "OTEL_SDK_DISABLED": "true"},
        {"OTEL_TRACES_EXPORTER": "zipkin", "OTEL_SDK_DISABLED": " TRUE "},
        {**BASE, "OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"},
    ],
)
def test_there_is_none_unless_a_variable_asks_for_it(environment: dict[str, str]) -> None:
    assert read_settings(environment) is None


@pytest.mark.parametrize("text", ["false", "1", "yes", ""])
def test_only_the_word_true_switches_it_off(text: str) -> None:
    assert read_settings({**BASE, "OTEL_SDK_DISABLED": text}) is not None


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        (BASE, (("otlp",), ("otlp",), ("otlp",))),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c/t"}, (("otlp",), (), ())),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c/m"}, ((), ("otlp",), ())),
        ({"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://c/l"}, ((), (), ("otlp",))),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, (("otlp",), (), ())),
        ({"OTEL_METRICS_EXPORTER": "console"}, ((), ("console",), ())),
        ({"OTEL_LOGS_EXPORTER": "console"}, ((), (), ("console",))),
        ({"OTEL_LOGS_EXPORTER": "otlp, console,otlp"}, ((), (), ("otlp", "console"))),
        ({**BASE, "OTEL_METRICS_EXPORTER": "none"}, (("otlp",), (), ("otlp",))),
        ({**BASE, "OTEL_LOGS_EXPORTER": "console"}, (("otlp",), ("otlp",), ("console",))),
    ],
)
def test_each_signal_goes_where_the_variables_say(
    environment: dict[str, str], expected: tuple[tuple[str, ...], ...]
) -> None:
    assert exporters(**environment) == expected


@pytest.mark.parametrize(
    ("environment", "endpoints"),
    [
        ({"OTEL_TRACES_EXPORTER": "otlp"}, ("http://localhost:4318/v1/traces", "", "")),
        (BASE, tuple(f"http://collector:4318/v1/{signal}" for signal in ("traces", "metrics", "logs"))),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "https://c/otel/", "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://l:1/in"},
            ("https://c/otel/v1/traces", "https://c/otel/v1/metrics", "http://l:1/in"),
        ),
    ],
)
def test_a_general_endpoint_gets_signal_paths_and_a_specific_one_is_whole(
    environment: dict[str, str], endpoints: tuple[str, ...]
) -> None:
    found = settings(**environment)

    assert (found.traces.endpoint, found.metrics.endpoint, found.logs.endpoint) == endpoints


def test_headers_of_a_signal_replace_those_of_all() -> None:
    found = settings(
        **BASE,
        OTEL_EXPORTER_OTLP_HEADERS="Authorization=Bearer%20abc, X-Team = a",
        OTEL_EXPORTER_OTLP_LOGS_HEADERS="x-only=1==",
    )

    assert found.traces.headers == {"authorization": "Bearer abc", "x-team": "a"}
    assert found.logs.headers == {"x-only": "1=="}


@pytest.mark.parametrize(
    ("environment", "variable"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER"),
        ({"OTEL_METRICS_EXPORTER": "prometheus"}, "OTEL_METRICS_EXPORTER"),
        ({"OTEL_LOGS_EXPORTER": "otlp,none"}, "OTEL_LOGS_EXPORTER"),
        ({"OTEL_LOGS_EXPORTER": "otlp,"}, "OTEL_LOGS_EXPORTER"),
        ({**BASE, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "OTEL_EXPORTER_OTLP_PROTOCOL"),
        ({**BASE, "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL": "http/json"}, "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4317"}, "OTEL_EXPORTER_OTLP_ENDPOINT"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://"}, "OTEL_EXPORTER_OTLP_ENDPOINT"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://[::1"}, "OTEL_EXPORTER_OTLP_ENDPOINT"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:99999"}, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
        ({**BASE, "OTEL_EXPORTER_OTLP_HEADERS": "hidden"}, "OTEL_EXPORTER_OTLP_HEADERS"),
        ({**BASE, "OTEL_EXPORTER_OTLP_HEADERS": "a b=hidden"}, "OTEL_EXPORTER_OTLP_HEADERS"),
        ({**BASE, "OTEL_EXPORTER_OTLP_HEADERS": "a=hid%0Aden"}, "OTEL_EXPORTER_OTLP_HEADERS"),
        ({**BASE, "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "a=hidden%C3%A9"}, "OTEL_EXPORTER_OTLP_TRACES_HEADERS"),
        ({**BASE, "OTEL_EXPORTER_OTLP_HEADERS": "a=" + "h" * 9_000}, "OTEL_EXPORTER_OTLP_HEADERS"),
        ({**BASE, "OTEL_RESOURCE_ATTRIBUTES": "hidden"}, "OTEL_RESOURCE_ATTRIBUTES"),
        ({**BASE, "OTEL_RESOURCE_ATTRIBUTES": "=hidden"}, "OTEL_RESOURCE_ATTRIBUTES"),
        (
            {**BASE, "OTEL_RESOURCE_ATTRIBUTES": ",".join(f"k{number}=hidden" for number in range(129))},
            "OTEL_RESOURCE_ATTRIBUTES",
        ),
        ({**BASE, "OTEL_TRACES_SAMPLER": "jaeger_remote"}, "OTEL_TRACES_SAMPLER"),
        (
            {**BASE, "OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "most"},
            "OTEL_TRACES_SAMPLER_ARG",
        ),
        (
            {**BASE, "OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "1.5"},
            "OTEL_TRACES_SAMPLER_ARG",
        ),
        (
            {**BASE, "OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "nan"},
            "OTEL_TRACES_SAMPLER_ARG",
        ),
    ],
)
def test_an_unsupported_setting_is_an_error_that_names_only_the_variable(
    environment: dict[str, str], variable: str
) -> None:
    with pytest.raises(InvalidVariable) as caught:
        read_settings(environment)

    assert caught.value.variable == variable
    assert f"`{variable}`" in str(caught.value)
    assert caught.value.hint
    assert "hid" not in str(caught.value) + caught.value.hint


def test_the_protocol_does_not_matter_where_nothing_is_sent_by_it() -> None:
    assert exporters(OTEL_LOGS_EXPORTER="console", OTEL_EXPORTER_OTLP_PROTOCOL="grpc") == ((), (), ("console",))


def test_an_error_about_the_protocol_says_which_there_is() -> None:
    with pytest.raises(InvalidVariable) as caught:
        read_settings({**BASE, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"})

    assert caught.value.hint == "set it to `http/protobuf`"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, {"service.name": "agent-resolver"}),
        ({"OTEL_SERVICE_NAME": "tickets"}, {"service.name": "tickets"}),
        (
            {"OTEL_RESOURCE_ATTRIBUTES": "service.name=a,team=b%2Cc", "OTEL_SERVICE_NAME": "tickets"},
            {"service.name": "tickets", "team": "b,c"},
        ),
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=a"}, {"service.name": "a"}),
    ],
)
def test_the_resource_is_named_by_the_variables(environment: dict[str, str], expected: dict[str, str]) -> None:
    assert settings(**BASE, **environment).resource == expected


def test_traces_are_kept_unless_a_sampler_says_otherwise() -> None:
    assert (settings(**BASE).sampler, settings(**BASE).ratio) == ("parentbased_always_on", 1.0)


@pytest.mark.parametrize("name", SAMPLERS)
def test_every_standard_sampler_is_known(name: str) -> None:
    found = settings(**BASE, OTEL_TRACES_SAMPLER=name.upper(), OTEL_TRACES_SAMPLER_ARG="0.25")

    assert found.sampler == name
    assert found.ratio == (0.25 if "ratio" in name else 1.0)


def test_a_ratio_that_is_not_said_is_everything() -> None:
    assert settings(**BASE, OTEL_TRACES_SAMPLER="traceidratio").ratio == 1.0


@pytest.mark.parametrize(
    ("environment", "variable"),
    [
        ({"OTEL_LOGS_EXPORTER": "console"}, "OTEL_LOGS_EXPORTER"),
        (BASE, "OTEL_EXPORTER_OTLP_ENDPOINT"),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c"}, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"),
    ],
)
def test_the_variable_that_asks_for_telemetry_is_known(environment: dict[str, str], variable: str) -> None:
    assert settings(**environment).variable == variable
