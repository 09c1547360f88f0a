"""Settings of a project whose models answer on loopback."""


def two_models(base_url: str) -> str:
    """An `agent.toml` with a model that keeps its data in the EU and has prices, and one that keeps them elsewhere."""
    return f"""\
[providers.loopback]
adapter = "openai"
base_url = "{base_url}"
[models.default]
provider = "loopback"
data = {{ residency = ["eu-only"], maxSensitivity = "confidential" }}
prices = {{ input = 1.0, output = 2.0 }}
[models.elsewhere]
provider = "loopback"
data = {{ residency = ["us-only"], maxSensitivity = "confidential" }}
"""
