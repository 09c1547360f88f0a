"""SPDX 2.3, as JSON."""

from collections.abc import Iterator
from typing import Final

from spdx_tools.spdx.jsonschema.document_converter import DocumentConverter
from spdx_tools.spdx.model import (
    Actor,
    ActorType,
    Annotation,
    AnnotationType,
    CreationInfo,
    Document,
    ExternalPackageRef,
    ExternalPackageRefCategory,
    Package,
    Relationship,
    RelationshipType,
    SpdxNoAssertion,
)

from agent_resolver._version import __version__
from agent_resolver.exchange.bill import Bill, BillServer
from agent_resolver.exchange.jsonc_edit import json_text

_DOCUMENT: Final = "SPDXRef-DOCUMENT"
_AGENT: Final = "SPDXRef-Agent"


def spdx_text(bill: Bill) -> str:
    """The bill as SPDX: the document describes the agent, which depends on each server."""
    written = DocumentConverter().convert(spdx_document(bill))  # type: ignore[no-untyped-call]  # the library's
    return f"{json_text(written, '  ')}\n"


def spdx_document(bill: Bill) -> Document:
    """The bill as the library has it, which can check it."""
    tool = Actor(ActorType.TOOL, f"agent-resolver-{__version__}")
    named = {
        f"SPDXRef-Server-{place}": server
        for place, server in enumerate(bill.servers, 1)
    }
    creation = CreationInfo(
        spdx_version="SPDX-2.3",
        spdx_id=_DOCUMENT,
        name=bill.name,
        document_namespace=f"urn:uuid:{bill.serial}",
        creators=[tool],
        created=bill.time,
    )
    root = Package(
        _AGENT,
        bill.name,
        SpdxNoAssertion(),
        version=bill.version or None,
        files_analyzed=False,
    )
    return Document(
        creation,
        packages=[
            root,
            *(_package_of(place, server) for place, server in named.items()),
        ],
        relationships=[
            Relationship(_DOCUMENT, RelationshipType.DESCRIBES, _AGENT),
            *(
                Relationship(_AGENT, RelationshipType.DEPENDS_ON, place)
                for place in named
            ),
        ],
        annotations=[
            note
            for place, server in named.items()
            for note in _annotations_of(place, server, bill, tool)
        ],
    )


def _package_of(place: str, server: BillServer) -> Package:
    references = []
    if server.package_url:
        category = ExternalPackageRefCategory.PACKAGE_MANAGER
        references = [ExternalPackageRef(category, "purl", server.package_url)]
    return Package(
        place,
        server.name,
        SpdxNoAssertion(),
        version=server.version,
        files_analyzed=False,
        external_references=references,
    )


def _annotations_of(
    place: str,
    server: BillServer,
    bill: Bill,
    tool: Actor,
) -> Iterator[Annotation]:
    for name, value in server.properties:
        yield Annotation(
            place, AnnotationType.OTHER, tool, bill.time, f"{name}={value}"
        )
