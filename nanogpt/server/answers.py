"""What clients are sent: one JSON answer, or server-sent events while the text comes.

Both read one request's stream, and let the request go as soon as its client has left.
Source: the API reference of OpenAI, the completion object and the chat completion chunk.
"""

import asyncio
import secrets
import time
from typing import Any

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from nanogpt.server.api_errors import ApiError, unavailable
from nanogpt.server.engine_thread import EngineThread
from nanogpt.server.openai_api import Call
from nanogpt.server.token_stream import End, TokenStream

DONE = b"data: [DONE]\n\n"
_STREAM_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),  # a proxy is not to gather events
]


class Answer:
    """The answer to one call, as an ASGI application. The request has been submitted."""

    def __init__(
        self, thread: EngineThread, stream: TokenStream, call: Call, model_name: str
    ) -> None:
        self.thread = thread
        self.stream = stream
        self.call = call
        kind = "chat.completion" if call.is_chat else "text_completion"
        chunk = "chat.completion.chunk" if call.is_chat else kind
        prefix = "chatcmpl" if call.is_chat else "cmpl"
        self._head: dict[str, Any] = {
            "id": f"{prefix}-{stream.request_id}-{secrets.token_hex(6)}",
            "object": chunk if call.streams else kind,
            "created": int(time.time()),
            "model": model_name,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer; whatever ends this, the request is in the engine no longer than it."""
        watching = asyncio.create_task(self._watch(receive))
        try:
            await self.stream.accepted.wait()
            if self.stream.end is not None and self.stream.end.reason not in ("stop", "length"):
                await self._error(self.stream.end).response()(scope, receive, send)
            elif self.call.streams:
                await self._send_events(send)
            else:
                await (await self._whole())(scope, receive, send)
        finally:
            watching.cancel()
            self.thread.cancel(self.stream)

    async def _watch(self, receive: Receive) -> None:
        """Let the request go when its client has left."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self.thread.cancel(self.stream)

    async def _whole(self) -> Response:
        """The answer in one piece."""
        text = ""
        while self.stream.end is None:
            text += await self.stream.read()
        text, end = text + await self.stream.read(), self.stream.end
        if end.reason not in ("stop", "length"):
            return self._error(end).response()
        message = {"role": "assistant", "content": text, "refusal": None}
        said = {"message": message} if self.call.is_chat else {"text": text}
        body = {**self._head, "choices": [self._choice(said, end)], "usage": self._usage(end)}
        return Response(msgspec.json.encode(body), media_type="application/json")

    async def _send_events(self, send: Send) -> None:
        """Events with the text as it comes, the reason it ended, and what it came to."""
        await send({"type": "http.response.start", "status": 200, "headers": _STREAM_HEADERS})
        if self.call.is_chat:
            await self._send(send, self._event({"delta": {"role": "assistant", "content": ""}}))
        while self.stream.end is None:
            await self._send_text(send, await self.stream.read())
        await self._send_text(send, await self.stream.read())
        await self._send(send, self._ending(self.stream.end) + DONE, more=False)

    async def _send_text(self, send: Send, text: str) -> None:
        if text:
            said = {"delta": {"content": text}} if self.call.is_chat else {"text": text}
            await self._send(send, self._event(said))

    def _ending(self, end: End) -> bytes:
        """The last events: why it ended and the usage, or the error."""
        if end.reason not in ("stop", "length"):
            return b"data: " + self._error(end).body() + b"\n\n"
        events = self._event({"delta": {}} if self.call.is_chat else {"text": ""}, end)
        if self.call.includes_usage:
            events += _event({**self._head, "choices": [], "usage": self._usage(end)})
        return events

    def _event(self, said: dict[str, Any], end: End | None = None) -> bytes:
        usage = {"usage": None} if self.call.includes_usage else {}
        return _event({**self._head, "choices": [self._choice(said, end)], **usage})

    def _choice(self, said: dict[str, Any], end: End | None) -> dict[str, Any]:
        reason = None if end is None else end.reason
        return {"index": 0, **said, "logprobs": None, "finish_reason": reason}

    def _usage(self, end: End) -> dict[str, int]:
        num_prompt = len(self.call.asked.prompt_tokens)
        return {
            "prompt_tokens": num_prompt,
            "completion_tokens": end.num_tokens,
            "total_tokens": num_prompt + end.num_tokens,
        }

    def _error(self, end: End) -> ApiError:
        """What went wrong, and whose fault it was."""
        self.thread.metrics.refused(status := {"refused": 400, "failed": 500}.get(end.reason, 503))
        return ApiError(status, end.message) if status < 503 else unavailable(end.message)

    async def _send(self, send: Send, data: bytes, *, more: bool = True) -> None:
        await send({"type": "http.response.body", "body": data, "more_body": more})


def _event(value: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(value) + b"\n\n"
