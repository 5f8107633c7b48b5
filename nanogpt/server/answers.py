"""The answer to a client: one JSON object, or server-sent events while the text comes.

When the client leaves, its requests are aborted.
Source: the API reference of OpenAI, the completion object and the chat completion chunk.
"""

import asyncio
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from starlette.types import Receive, Scope, Send

from nanogpt.server.api_errors import ApiError, unavailable
from nanogpt.server.continuation import End, TokenStream
from nanogpt.server.engine_thread import EngineThread
from nanogpt.server.logprobs import Scorer
from nanogpt.server.openai_api import Call

DONE = b"data: [DONE]\n\n"
_STREAM_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),  # a proxy must not buffer events
]


@dataclass(slots=True)
class Answer:
    """The answer to one call, as an ASGI application. Its requests have been submitted."""

    thread: EngineThread
    scorer: Scorer
    streams: Sequence[TokenStream]
    call: Call
    model_name: str
    _has_left: bool = False
    _head: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        kind, prefix = "text_completion", "cmpl"
        if self.call.is_chat:
            chunk = ".chunk" if self.call.streams else ""
            kind, prefix = f"chat.completion{chunk}", "chatcmpl"
        self._head = {
            "id": f"{prefix}-{self.streams[0].request_id}-{secrets.token_hex(6)}",
            "object": kind,
            "created": int(time.time()),
            "model": self.model_name,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer; however this ends, its unfinished requests are aborted."""
        watching = asyncio.create_task(self._watch(receive))
        try:
            for stream in self.streams:
                await stream.accepted.wait()
            if (lost := self._lost()) is not None:
                await self._error(lost).response()(scope, receive, send)
            elif self.call.streams:
                await self._send_events(send)
            else:
                await self._send_whole(scope, receive, send)
        finally:
            watching.cancel()
            self._let_go()

    async def _watch(self, receive: Receive) -> None:
        """Abort the requests when their client has left."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self._has_left = True
        self._let_go()

    def _let_go(self) -> None:
        for stream in self.streams:
            self.thread.abort(stream)

    def _lost(self) -> End | None:
        """The end of the first request that has ended without an answer."""
        ends = (stream.end for stream in self.streams)
        return next((end for end in ends if end and end.reason not in ("stop", "length")), None)

    async def _send_whole(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer as one JSON object.

        It is encoded and sent choice by choice: with log probabilities, all of them together would
        stop the event loop.
        """
        texts = ["".join([text async for text in stream.pieces()]) for stream in self.streams]
        if (lost := self._lost()) is not None:
            await self._error(lost).response()(scope, receive, send)
            return
        pieces = [msgspec.json.encode(self._head)[:-1] + b',"choices":[']
        async with self.thread.until_shutdown():
            for index, text in enumerate(texts):
                choice = msgspec.json.encode(await self._finished(index, text))
                pieces.append(b"," + choice if index else pieces.pop() + choice)
        pieces[-1] += b'],"usage":' + msgspec.json.encode(self._usage()) + b"}"
        length = str(sum(map(len, pieces))).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", length)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for piece in pieces:
            await self._send(send, piece, more=piece is not pieces[-1])

    async def _finished(self, index: int, text: str) -> dict[str, Any]:
        """A choice of the answer in one piece."""
        call, prompt, end = self.call, self.call.asked[index].prompt_tokens, self.streams[index].end
        assert end is not None
        text, answer = (text, end.token_ids) if call.keeps_text else ("", ())
        if call.is_chat:
            said = {"message": {"role": "assistant", "content": text, "refusal": None}}
            return self._choice(index, said, end)
        piece = self.thread.tokenizer.piece
        echo = b"".join(map(piece, prompt)).decode(errors="replace") if call.echoes else ""
        choice = self._choice(index, {"text": echo + text}, end)
        if call.num_logprobs is not None and not self._has_left:
            tokens, first = [*prompt, *answer], 0 if call.echoes else len(prompt)
            choice["logprobs"] = await self.scorer.logprobs(tokens, first, call.num_logprobs)
        return choice

    async def _send_events(self, send: Send) -> None:
        """Send events with the texts, the reasons of their ends, and the usage."""
        await send({"type": "http.response.start", "status": 200, "headers": _STREAM_HEADERS})
        everyone = range(len(self.streams))
        if self.call.is_chat:
            first = {"delta": {"role": "assistant", "content": ""}}
            await self._send(send, b"".join(self._event(index, first) for index in everyone))
        await asyncio.gather(*(self._send_text(send, index) for index in everyone))
        await self._send(send, self._ending() + DONE, more=False)

    async def _send_text(self, send: Send, index: int) -> None:
        """The events of one text, to its end."""
        stream = self.streams[index]
        async for text in stream.pieces():
            if self.call.keeps_text:
                said = {"delta": {"content": text}} if self.call.is_chat else {"text": text}
                await self._send(send, self._event(index, said))
        if stream.end and stream.end.reason in ("stop", "length"):
            said = {"delta": {}} if self.call.is_chat else {"text": ""}
            await self._send(send, self._event(index, said, stream.end))

    def _ending(self) -> bytes:
        """The last event: the usage if wanted, or the error."""
        if (lost := self._lost()) is not None:
            return b"data: " + self._error(lost).body() + b"\n\n"
        if self.call.includes_usage:
            return _event({**self._head, "choices": [], "usage": self._usage()})
        return b""

    def _event(self, index: int, said: dict[str, Any], end: End | None = None) -> bytes:
        usage = {"usage": None} if self.call.includes_usage else {}
        return _event({**self._head, "choices": [self._choice(index, said, end)], **usage})

    def _choice(self, index: int, said: dict[str, Any], end: End | None) -> dict[str, Any]:
        reason = "length" if end and not self.call.keeps_text else end and end.reason
        return {"index": index, **said, "logprobs": None, "finish_reason": reason}

    def _usage(self) -> dict[str, Any]:
        """Tokens of all prompts, each counted once, and of all answers."""
        call = self.call
        ends = [stream.end for stream in self.streams if stream.end]
        num_prompt = sum(len(each.prompt_tokens) for each in call.asked[:: call.num_answers])
        num_answer = sum(end.num_tokens for end in ends) if call.keeps_text else 0
        num_cached = sum(end.num_cached for end in ends[:: call.num_answers])
        return {
            "prompt_tokens": num_prompt,
            "completion_tokens": num_answer,
            "total_tokens": num_prompt + num_answer,
            "prompt_tokens_details": {"cached_tokens": num_cached},
        }

    def _error(self, end: End) -> ApiError:
        """The error for such an end, counted unless the client has left."""
        status = {"refused": 400, "error": 500}.get(end.reason, 503)
        if not self._has_left:
            self.thread.metrics.refused(status)
        return ApiError(status, end.message) if status < 503 else unavailable(end.message)

    async def _send(self, send: Send, data: bytes, *, more: bool = True) -> None:
        if data or not more:
            await send({"type": "http.response.body", "body": data, "more_body": more})


def _event(value: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(value) + b"\n\n"
