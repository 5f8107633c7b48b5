"""Errors as the OpenAI API answers them: `{"error": {"message", "type", "param", "code"}}`."""

from collections.abc import Mapping

import msgspec
from starlette.responses import Response


class ApiError(Exception):
    """A request that is answered by an error.

    `param` is the field that is wrong, `code` a word for programs.
    """

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
        error = {
            "message": self.message,
            "type": "rate_limit_error" if self.status == 429 else usual,
            "param": self.param,
            "code": self.code,
        }
        return msgspec.json.encode({"error": error})

    def response(self) -> Response:
        """As an answer."""
        return Response(self.body(), self.status, self.headers, "application/json")


def not_admitted(status: int, retry_after_s: int | None, max_requests: int) -> ApiError:
    """The answer to a request that does not come in, by its status."""
    if status == 503:
        return unavailable()
    if status == 400:
        return ApiError(
            400, "the prompt and the tokens that are wanted can never fit",
            code="context_length_exceeded",
        )  # fmt: skip
    return ApiError(
        429,
        f"as many requests are unfinished as this server takes ({max_requests}); try again in "
        f"{retry_after_s} s",
        code="rate_limit_exceeded",
        headers={"retry-after": str(retry_after_s)},
    )


def unavailable(message: str = "the server is shutting down") -> ApiError:
    """The answer when the engine serves no more."""
    return ApiError(503, message, code="service_unavailable")
