"""Certificates that tests make for servers on this machine; they hold for an hour."""

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_PEM = serialization.Encoding.PEM


def authority(name: str, *addresses: x509.GeneralName) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """A certificate that signs itself, and others; with addresses it is that of a server as well."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    constraints = x509.BasicConstraints(ca=True, path_length=None)
    builder = unsigned(name, subject, key).add_extension(constraints, critical=True)
    if addresses:
        builder = builder.add_extension(x509.SubjectAlternativeName(addresses), critical=False)
    return builder.sign(key, hashes.SHA256()), key


def unsigned(name: str, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    """A certificate to which extensions can be added before an authority signs it."""
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
    )


def pem_of_certificate(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(_PEM)


def pem_of_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
