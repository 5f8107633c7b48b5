"""The routes: from a request's bytes to the engine's thread, and its answer back.

POST /v1/completions, /v1/chat/completions      GET /v1/models, /v1/models/{model}
POST /tokenize, /detokenize                     GET /tokenizer_info
GET /health, /metrics, and the live page: /live, its files, and the state that it polls
"""

import asyncio
import hmac
import re
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nanogpt.server.answers import Answer
from nanogpt.server.api_errors import ApiError, bad_request, check_page, unavailable
from nanogpt.server.continuation import TokenStream
from nanogpt.server.engine_thread import STOPPED, EngineThread
from nanogpt.server.logprobs import Scorer
from nanogpt.server.openai_api import Call, Limits, parse
from nanogpt.server.tokenizer_api import detokenize, tokenize, tokenizer_info
from nanogpt.validate import PolicyError

Endpoint = Callable[[Request], Awaitable[Response | Answer]]

STALLED_S = 5.0
"""After this time, `/health` reports a running step as stalled."""
SHORT_BODY = 4096
"""Bytes that are parsed at once; longer bodies are parsed in a thread, to hold up no stream."""

_STATIC = Path(__file__).parent / "static"
PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
LIVE_PAGE = _STATIC / "live.html"
LIVE_FILES = ("live.js", "live_layout.js", "live.css")
"""The live page is shown to anyone who reaches the server; its state needs the API key."""


class RequestIds:
    """ASGI middleware: each answer has the `x-request-id` of its request, or a new one."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on, with one more header."""
        sent = dict(scope.get("headers", ())).get(b"x-request-id", b"")
        is_usable = re.fullmatch(rb"[!-~]{1,128}", sent)
        request_id = sent if is_usable else secrets.token_hex(16).encode()

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [*message.get("headers", ()), (b"x-request-id", request_id)]
                message = {**message, "headers": headers}
            await send(message)

        with suppress(asyncio.CancelledError):  # by uvicorn: the time for clients to read is over
            await self.app(scope, receive, named)


class App:
    """The HTTP interface of an engine's thread that listens at `host`."""

    def __init__(self, thread: EngineThread, host: str) -> None:
        self.thread = thread
        self.host = host
        self.scorer = Scorer(thread.engine, thread.tokenizer)
        self.settings = thread.settings
        self.limits = Limits.of(thread.engine, thread.settings, thread.tokenizer)
        self._created = int(time.time())

    def starlette(self) -> Starlette:
        """The ASGI application; its lifespan runs the engine's thread."""
        routes = [
            Route("/v1/completions", self._for_clients(self.completions), methods=["POST"]),
            Route("/v1/chat/completions", self._for_clients(self.chat), methods=["POST"]),
            Route("/tokenize", self._for_clients(self.tokenizer), methods=["POST"]),
            Route("/detokenize", self._for_clients(self.tokenizer), methods=["POST"]),
            Route("/tokenizer_info", self._for_clients(self.tokenizer_info)),
            Route("/v1/models", self._for_clients(self.models)),
            Route("/v1/models/{model:path}", self._for_clients(self.model)),
            Route("/health", self.health),
            Route("/metrics", self.metrics),
            Route("/live", self.live_page),
        ]
        return self.starlette_with([*routes, *self.live_routes()])

    def live_routes(self) -> list[Route]:
        """The live page's state and files, without the page itself."""
        state = Route("/live/state", self._for_clients(self.live_state))
        return [state, *(Route(f"/live/{name}", self.live_file) for name in LIVE_FILES)]

    def starlette_with(self, routes: Sequence[BaseRoute]) -> Starlette:
        """An application with other routes, which runs the engine's thread all the same."""
        handlers = {
            ApiError: self.refuse, PolicyError: self.refuse, HTTPException: self.refuse,
            Exception: self.refuse,
            ClientDisconnect: self.left,
        }  # fmt: skip
        return Starlette(routes=routes, exception_handlers=handlers, lifespan=self._lifespan)

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncGenerator[None]:
        self.thread.start()
        yield
        await self.thread.close()

    async def completions(self, request: Request) -> Answer:
        """Continue a prompt."""
        return await self._generate(request, is_chat=False)

    async def chat(self, request: Request) -> Answer:
        """Answer a conversation."""
        return await self._generate(request, is_chat=True)

    async def _generate(self, request: Request, *, is_chat: bool) -> Answer:
        body, headers = await self.body(request), request.headers
        if len(body) > SHORT_BODY:
            call = await asyncio.to_thread(parse, body, headers, self.limits, is_chat=is_chat)
        else:
            call = parse(body, headers, self.limits, is_chat=is_chat)
        streams = self._submit(call)
        return Answer(self.thread, self.scorer, streams, call, self.limits.model_name)

    async def tokenizer(self, request: Request) -> Response:
        """A text's tokens, or the text of tokens."""
        body = await self.body(request)
        work = tokenize if request.url.path == "/tokenize" else detokenize

        def answer() -> bytes:
            return msgspec.json.encode(work(body, self.limits))

        data = answer() if len(body) <= SHORT_BODY else await asyncio.to_thread(answer)
        return Response(data, media_type="application/json")

    async def tokenizer_info(self, request: Request) -> Response:
        """The tokenizer's kind and special tokens."""
        return JSONResponse(tokenizer_info(self.limits))

    def _submit(self, call: Call) -> list[TokenStream]:
        """Submit all requests of a call, or none. Raises: ApiError; PolicyError."""
        if not self.thread.is_alive:
            raise unavailable(STOPPED)
        streams: list[TokenStream] = []
        try:
            for asked in call.asked:
                streams.append(self.thread.submit(asked))
        except (ApiError, PolicyError):
            for stream in streams:
                self.thread.abort(stream)
            raise
        return streams

    async def models(self, request: Request) -> Response:
        """The one model."""
        return JSONResponse({"object": "list", "data": [self._card()]})

    async def model(self, request: Request) -> Response:
        """The one model, by its name. Raises: ApiError for another."""
        name = request.path_params["model"]
        self.limits.check_model(name)
        return JSONResponse(self._card())

    async def health(self, request: Request) -> Response:
        """200 while requests are taken and steps end, otherwise 503 with the reason."""
        if not self.thread.is_alive:
            return unavailable(STOPPED).response()
        if (seconds := self.thread.admission.step_s) > STALLED_S:
            return unavailable(f"no step has ended for {seconds:.0f} s").response()
        return Response()

    async def metrics(self, request: Request) -> Response:
        """For Prometheus."""
        return Response(self.thread.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    async def live_page(self, request: Request) -> Response:
        """The live page."""
        return FileResponse(LIVE_PAGE, headers=PAGE_HEADERS)

    async def live_file(self, request: Request) -> Response:
        """A script or style of the live page."""
        return FileResponse(_STATIC / Path(request.url.path).name, headers=PAGE_HEADERS)

    async def live_state(self, request: Request) -> Response:
        """`GET /live/state?after=N`: the steps after number N, and the current state, as JSON."""
        after = request.query_params.get("after", "-1")
        if not after.removeprefix("-").isdecimal() or len(after) > 18:
            wanted = "a whole number of at most 18 characters"
            raise bad_request(None, f"after is {after[:40]!r}; it must be {wanted}")
        state = {
            "model": self.settings.model_name,
            "at_s": time.perf_counter(),
            "closing": self.thread.closing,
            **self.thread.live.state(int(after)),
            **self.thread.metrics.numbers(),
        }
        return JSONResponse(state, headers={"Cache-Control": "no-store"})

    async def refuse(self, request: Request, error: Exception) -> Response:
        """The answer to whatever was raised."""
        if isinstance(error, HTTPException):
            said = f"{request.method} {request.url.path}: {error.detail}"
            error = ApiError(error.status_code, said, headers=error.headers)
        if isinstance(error, PolicyError):
            error = ApiError(500, str(error))
        if not isinstance(error, ApiError):
            error = ApiError(500, "an error of the server's own; its log has more")
        self.thread.metrics.refused(error.status)
        return error.response()

    async def left(self, request: Request, error: Exception) -> Response:
        """A client that left before its whole body came is not counted."""
        return Response(status_code=400)

    def _for_clients(self, endpoint: Endpoint) -> Endpoint:
        """The endpoint, for clients with the key; if none is set, for all but foreign pages."""

        async def guarded(request: Request) -> Response | Answer:
            wanted = self.settings.api_key
            if wanted is None:
                check_page(request.headers, self.host)
                return await endpoint(request)
            scheme, _, key = request.headers.get("authorization", "").partition(" ")
            # In constant time: the duration tells nothing about the key.
            right = hmac.compare_digest(key.encode(), wanted.encode())
            if not right or scheme.lower() != "bearer":
                raise ApiError(
                    401, "no API key was sent, or a wrong one; send it as 'Authorization: Bearer'",
                    code="invalid_api_key", headers={"www-authenticate": "Bearer"},
                )  # fmt: skip
            return await endpoint(request)

        return guarded

    async def body(self, request: Request) -> bytes:
        """The body, no larger than allowed. Raises: ApiError; ClientDisconnect."""
        most, body = self.settings.max_body_bytes, bytearray()
        async with self.thread.until_shutdown():
            async for chunk in request.stream():
                body += chunk
                if len(body) > most:
                    said = f"the body is larger than {most} bytes"
                    raise ApiError(413, said, headers={"connection": "close"})
        return bytes(body)

    def _card(self) -> dict[str, object]:
        return {
            "id": self.limits.model_name,
            "object": "model",
            "created": self._created,
            "owned_by": "serving-nanogpt",
            "max_model_len": self.limits.max_tokens - 1,
        }
