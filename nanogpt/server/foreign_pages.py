"""Keeps web pages of other sites out of a server that asks for no API key.

A browser runs the scripts of any page that its user opens, and lets them send requests to this
machine. It says in `Origin` whose page is asking. A site may also give its own domain the address
of this machine (DNS rebinding); then `Host` names that domain. No other client is kept out: one
that is no browser sends no `Origin`, and names an address or this machine.
"""

import ipaddress
import socket
from collections.abc import Mapping
from urllib.parse import urlsplit

from nanogpt.server.api_errors import ApiError
from nanogpt.validate import show


def check_page(headers: Mapping[str, str], listening_host: str) -> None:
    """Raises: ApiError for a request that a page of another site has sent."""
    host, origin = headers.get("host", "").lower(), headers.get("origin")
    if not _is_own(host, listening_host):
        raise ApiError(
            403, f"Host is {show(host)}; without an API key it must be this machine's name or an "
            "IP address", param="Host", code="forbidden",
        )  # fmt: skip
    if origin is not None and origin.lower() not in (f"http://{host}", f"https://{host}"):
        raise ApiError(
            403, f"Origin is {show(origin)}; without an API key only this server's own pages may "
            "ask", param="Origin", code="forbidden",
        )  # fmt: skip


def _is_own(host: str, listening_host: str) -> bool:
    """Whether no other site can have this name: an address, a name without a dot, or this machine.

    >>> _is_own("127.0.0.1:8000", ""), _is_own("localhost:8000", ""), _is_own("evil.com", "")
    (True, True, False)
    """
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    own = {listening_host.lower(), socket.gethostname().lower()}
    if "." not in name or name.endswith(".localhost") or name in own:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
