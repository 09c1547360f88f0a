"""CycloneDX 1.6, as JSON."""

from cyclonedx.model import ExternalReference, ExternalReferenceType, Property, XsUri
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL

from agent_resolver.exchange.bill import Bill, BillServer


def cyclonedx_text(bill: Bill) -> str:
    """The bill as CycloneDX: the agent is the root component, and depends on each server."""
    root = Component(
        name=bill.name,
        version=bill.version or None,
        type=ComponentType.APPLICATION,
        bom_ref=f"agent:{bill.name}",
    )
    parts = [_component_of(server) for server in bill.servers]
    bom = Bom(
        serial_number=bill.serial,
        metadata=BomMetaData(component=root, timestamp=bill.time),
        components=parts,
        version=1,
    )
    bom.register_dependency(root, parts)
    written = make_outputter(
        bom, OutputFormat.JSON, SchemaVersion.V1_6
    ).output_as_string(indent=2)
    return f"{written}\n"


def _component_of(server: BillServer) -> Component:
    references = []
    if server.address:
        references = [
            ExternalReference(
                type=ExternalReferenceType.OTHER,
                url=XsUri(server.address),
                comment="endpoint",
            )
        ]
    return Component(
        name=server.name,
        version=server.version,
        type=ComponentType.APPLICATION,
        bom_ref=f"server:{server.name}@{server.version}",
        purl=PackageURL.from_string(server.package_url) if server.package_url else None,
        external_references=references,
        properties=[
            Property(name=name, value=value) for name, value in server.properties
        ],
    )
