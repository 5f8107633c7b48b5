"""Errors as the OpenAI API answers them: `{"error": {"message", "type", "param", "code"}}`.

And the refusal of web pages of other sites by a server without an API key. A browser runs the
scripts of any page that its user opens, and lets them send requests to this machine. `Origin` says
whose page is asking. A site may also give its own domain the address of this machine (DNS
rebinding); then `Host` names that domain. Clients that are no browsers send no `Origin`, and name
an address or this machine.
"""

import ipaddress
import socket
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec
from starlette.responses import Response

from nanogpt.validate import show


class ApiError(Exception):
    """A request that is answered by an error; `param` is the field that is wrong."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code
        self.headers = dict(headers or {})

    def body(self) -> bytes:
        """As JSON."""
        usual = "server_error" if self.status >= 500 else "invalid_request_error"
        kind = "rate_limit_error" if self.status == 429 else usual
        error = {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        return msgspec.json.encode({"error": error})

    def response(self) -> Response:
        """As an answer."""
        return Response(self.body(), self.status, self.headers, "application/json")


def bad_request(param: str | None, message: str, code: str | None = None) -> ApiError:
    """A 400, naming the field that is wrong."""
    return ApiError(400, message, param=param, code=code)


def not_admitted(status: int, retry_after_s: int | None, max_requests: int) -> ApiError:
    """The answer to a request that is not admitted, by its status."""
    if status == 503:
        return unavailable()
    if status == 400:
        said = "the prompt and the tokens that are wanted can never fit"
        return bad_request(None, said, "context_length_exceeded")
    return ApiError(
        429,
        f"as many requests are unfinished as this server takes ({max_requests}); try again in "
        f"{retry_after_s} s",
        code="rate_limit_exceeded",
        headers={"retry-after": str(retry_after_s)},
    )


def unavailable(message: str = "the server is shutting down") -> ApiError:
    """The answer when the engine no longer serves."""
    return ApiError(503, message, code="service_unavailable")


def check_page(headers: Mapping[str, str], listening_host: str) -> None:
    """Raises: ApiError for a request that a page of another site has sent."""
    host, origin = headers.get("host", "").lower(), headers.get("origin")
    if not _is_own(host, listening_host):
        said = f"Host is {show(host)}; without an API key it must be this machine's name or an IP"
        raise ApiError(403, f"{said} address", param="Host", code="forbidden")
    if origin is not None and origin.lower() not in (f"http://{host}", f"https://{host}"):
        said = f"Origin is {show(origin)}; without an API key only this server's own pages may ask"
        raise ApiError(403, said, param="Origin", code="forbidden")


def _is_own(host: str, listening_host: str) -> bool:
    """Whether no other site can have this name: an address, a name without a dot, or this machine.

    >>> _is_own("127.0.0.1:8000", ""), _is_own("localhost:8000", ""), _is_own("evil.com", "")
    (True, True, False)
    """
    try:
        name = urlsplit(f"//{host}").hostname or ""
        own = {listening_host.lower(), socket.gethostname().lower()}
        if "." not in name or name.endswith(".localhost") or name in own:
            return True
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
