"""Hosts that only this machine can reach."""

from ipaddress import IPv4Network, IPv6Address, ip_address
from typing import Final

_IPV4: Final = IPv4Network("127.0.0.0/8")
_IPV6: Final = IPv6Address("::1")


def is_loopback(host: str) -> bool:
    """True for `localhost`, `::1` and every address from 127.0.0.0 to 127.255.255.255; IPv6 without brackets."""
    try:
        address = ip_address(host)
    except ValueError:
        return host.lower() == "localhost"
    return address in _IPV4 or address == _IPV6
