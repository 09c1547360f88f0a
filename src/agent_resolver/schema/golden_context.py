"""Who asks for a task, where it acts, and what it costs whom: travels beside the state of a task, and is not kept."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from agent_resolver.schema.classification import Classification
from agent_resolver.schema.pending import Priority

Environment = Literal["dev", "stg", "prd"]
Name = Annotated[str, Meta(max_length=255)]
Service = Annotated[str, Meta(min_length=1, max_length=255)]


class Incident(
    Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """The incident that a task belongs to; every field is empty where it belongs to none."""

    incident_id: Name = ""
    incident_severity: Priority | Literal[""] = ""
    incident_title: Annotated[str, Meta(max_length=500)] = ""
    incident_channel: Name = ""
    pagerduty_incident_id: Name = ""
    statuspage_incident_id: Name = ""
    incident_started_at: Name = ""
    """When it began, as ISO 8601."""
    impacted_services: Annotated[tuple[Service, ...], Meta(max_length=100)] = ()


class GoldenContext(Struct, frozen=True, kw_only=True):
    """What every stage knows of the person who asks and of the place where the plan acts."""

    app_id: Service
    """The project."""
    environment: Environment
    initiator_id: Service
    trace_id: Annotated[str, Meta(pattern="^[0-9a-f]{32}$", max_length=32)]
    division: Name = ""
    clearance_level: Classification = "PUBLIC"
    cost_center: Name = ""
    data_classification: Classification = "INTERNAL"
    incident: Incident = Incident()
    is_verified: bool = False
    """False for the local user of a project without an issuer: nothing here is proven."""
