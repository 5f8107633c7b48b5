"""The routes: from a request's bytes to the engine's thread, and its answer back.

POST /v1/completions, /v1/chat/completions      GET /v1/models, /v1/models/{model}
GET /health, /metrics, /live and the state that it reads
"""

import hmac
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from nanogpt.server.answers import Answer
from nanogpt.server.api_errors import ApiError, not_admitted
from nanogpt.server.door import RefusedError
from nanogpt.server.engine_thread import EngineThread
from nanogpt.server.live_page import live_state, page_routes
from nanogpt.server.openai_api import Limits, parse
from nanogpt.validate import PartError

Endpoint = Callable[[Request], Awaitable[Response | Answer]]


class App:
    """The HTTP face of an engine's thread."""

    def __init__(self, thread: EngineThread) -> None:
        self.thread = thread
        self.settings = thread.settings
        self.limits = Limits.of(thread.engine, thread.settings, thread.tokenizer)
        self._created = int(time.time())

    def starlette(self) -> Starlette:
        """The ASGI application; its lifespan is the engine's thread's."""
        routes = [
            Route("/v1/completions", self._for_clients(self.completions), methods=["POST"]),
            Route("/v1/chat/completions", self._for_clients(self.chat), methods=["POST"]),
            Route("/v1/models", self._for_clients(self.models)),
            Route("/v1/models/{model:path}", self._for_clients(self.model)),
            Route("/health", self.health),
            Route("/metrics", self.metrics),
            Route("/live/state", self._for_clients(live_state(self.thread))),
            *page_routes(),
        ]
        handlers = {ApiError: self.refuse, HTTPException: self.refuse, Exception: self.refuse}
        return Starlette(routes=routes, exception_handlers=handlers, lifespan=self._lifespan)

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncGenerator[None]:
        self.thread.start()
        yield
        await self.thread.close()

    # --- what clients may call --------------------------------------------------------------------

    async def completions(self, request: Request) -> Answer:
        """Continue a prompt."""
        return await self._generate(request, is_chat=False)

    async def chat(self, request: Request) -> Answer:
        """Answer a conversation."""
        return await self._generate(request, is_chat=True)

    async def _generate(self, request: Request, *, is_chat: bool) -> Answer:
        body = await self._body(request)
        call = parse(body, request.headers, self.limits, is_chat=is_chat)
        try:
            stream = self.thread.submit(call.asked)
        except RefusedError as refused:
            most = self.settings.max_requests
            raise not_admitted(refused.status, refused.retry_after_s, most) from None
        except PartError as error:
            raise ApiError(500, str(error)) from None
        return Answer(self.thread, stream, call, self.limits.model_name)

    async def models(self, request: Request) -> Response:
        """The one model."""
        return _json({"object": "list", "data": [self._card()]})

    async def model(self, request: Request) -> Response:
        """The one model, by its name. Raises: ApiError for another."""
        name = request.path_params["model"]
        if name != self.limits.model_name:
            raise ApiError(
                404, f"there is no model {name!r}; this server has {self.limits.model_name!r}",
                param="model", code="model_not_found",
            )  # fmt: skip
        return _json(self._card())

    async def health(self, request: Request) -> Response:
        """200 while requests are taken, else 503."""
        return Response(status_code=200 if self._serves() else 503)

    async def metrics(self, request: Request) -> Response:
        """For Prometheus."""
        return Response(self.thread.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    async def refuse(self, request: Request, error: Exception) -> Response:
        """The answer to whatever was raised."""
        if isinstance(error, HTTPException):
            error = ApiError(
                error.status_code, f"{request.method} {request.url.path}: {error.detail}",
                headers=error.headers,
            )  # fmt: skip
        if not isinstance(error, ApiError):
            error = ApiError(500, "an error of the server's own; its log has more")
        self.thread.metrics.refused(error.status)
        return error.response()

    # --- what they share --------------------------------------------------------------------------

    def _serves(self) -> bool:
        return self.thread.is_alive and not self.thread.closing

    def _for_clients(self, endpoint: Endpoint) -> Endpoint:
        """The endpoint, for those that have the key, if there is one."""

        async def guarded(request: Request) -> Response | Answer:
            scheme, _, key = request.headers.get("authorization", "").partition(" ")
            wanted = self.settings.api_key
            # Compared in constant time: how long it takes says nothing of the key.
            right = wanted is None or hmac.compare_digest(key.encode(), wanted.encode())
            if not right or (wanted is not None and scheme.lower() != "bearer"):
                raise ApiError(
                    401, "no API key was sent, or a wrong one; send it as 'Authorization: Bearer'",
                    code="invalid_api_key", headers={"www-authenticate": "Bearer"},
                )  # fmt: skip
            return await endpoint(request)

        return guarded

    async def _body(self, request: Request) -> bytes:
        """The body, no larger than allowed. Raises: ApiError."""
        most, body = self.settings.max_body_bytes, bytearray()
        try:
            async for chunk in request.stream():
                body += chunk
                if len(body) > most:
                    raise ApiError(
                        413,
                        f"the body is larger than {most} bytes",
                        headers={"connection": "close"},
                    )
        except ClientDisconnect:
            raise ApiError(400, "the client left before its body was whole") from None
        return bytes(body)

    def _card(self) -> dict[str, object]:
        return {
            "id": self.limits.model_name,
            "object": "model",
            "created": self._created,
            "owned_by": "serving-nanogpt",
            "max_model_len": self.limits.max_tokens - 1,
        }


def _json(value: object) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")
