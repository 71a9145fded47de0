"""The interface of OpenAI's chat: the last message of the user is the text to translate.

Source: platform.openai.com/docs/api-reference/chat. A model is `NAME/SOURCE-TARGET`.
"""

import json
import time
import uuid
from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import Response, StreamingResponse

from transformer_mt.messages.catalogue import tr
from transformer_mt.serve.access import Access, key_of_header
from transformer_mt.serve.fields import ListOf
from transformer_mt.serve.limits import Refused
from transformer_mt.serve.service import Direction, Service


class Part(BaseModel):
    type: str = "text"
    text: str = ""


class Message(BaseModel):
    role: str
    content: str | ListOf[Part] | None = None

    def text(self) -> str:
        if isinstance(self.content, list):
            return "".join(part.text for part in self.content if part.type == "text")
        return self.content or ""


class StreamOptions(BaseModel):
    include_usage: bool | None = None


class ChatFields(BaseModel):
    model: str
    messages: ListOf[Message] = Field(min_length=1)
    stream: bool | None = None
    stream_options: StreamOptions | None = None


def openai_router(service: Service, access: Access) -> APIRouter:
    router = APIRouter(prefix="/v1")
    started = int(time.time())

    def names() -> dict[str, Direction]:
        models = service.pool.models
        return {
            f"{models[one.model].name}/{one.src}-{one.tgt}": one for one in service.directions()
        }

    def described_model(name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": started, "owned_by": "tmt"}

    @router.get("/models")
    async def models(request: Request) -> dict[str, Any]:
        access.admit(request, key_of_header(request))
        await service.ready()
        return {"object": "list", "data": list(map(described_model, names()))}

    @router.get("/models/{name:path}")
    async def model(request: Request, name: str) -> dict[str, Any]:
        access.admit(request, key_of_header(request))
        await service.ready()
        return described_model(_known(name, names()))

    @router.post("/chat/completions", response_model=None)
    async def chat(request: Request, fields: ChatFields) -> dict[str, Any] | Response:
        asked = [message.text() for message in fields.messages if message.role == "user"]
        if not asked:
            raise Refused(400, tr("messages: none is of the role user"))
        text = asked[-1]
        access.admit(request, key_of_header(request), [text])
        service.limits.check([text])
        await service.ready()
        direction = names()[_known(fields.model, names())]
        head = {
            "id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()),
            "model": fields.model,
        }  # fmt: skip
        if fields.stream:
            with_usage = bool(fields.stream_options and fields.stream_options.include_usage)
            chunks = _chunks(service, direction, text, head, with_usage=with_usage)
            lines = text.split("\n")
            n_blank = next((n for n, line in enumerate(lines) if line.strip()), 0)
            # The role, and the lines up to the first with words: until then a status can be told.
            begun = [await anext(chunks) for _ in range(n_blank + 2)]
            return StreamingResponse(_after(begun, chunks), media_type="text/event-stream")
        (found,) = await service.translate([text], direction)
        message = {"role": "assistant", "content": found.text}
        choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
        usage = _usage(len(text), len(found.text))
        return {**head, "object": "chat.completion", "choices": [choice], "usage": usage}

    return router


def _known(name: str, names: dict[str, Direction]) -> str:
    """Raises: Refused: there is no such model."""
    if name not in names:
        raise Refused(404, tr("no model {}; there are {}", name[:80], ", ".join(names)))
    return name


def _usage(n_read: int, n_written: int) -> dict[str, int]:
    """In characters: what a token is, depends on the model."""
    counts = {"prompt_tokens": n_read, "completion_tokens": n_written}
    return {**counts, "total_tokens": sum(counts.values())}


async def _after(begun: list[str], chunks: AsyncIterator[str]) -> AsyncIterator[str]:
    for chunk in begun:
        yield chunk
    async for chunk in chunks:
        yield chunk


async def _chunks(
    service: Service, direction: Direction, text: str, head: dict[str, Any], *, with_usage: bool
) -> AsyncIterator[str]:
    """Events: the translation line by line, as lines are done.

    Raises:
        Refused: the first line cannot be translated now; of a later one an event tells that.
    """

    def event(choices: list[dict[str, Any]], **others: Any) -> str:
        content = {**head, "object": "chat.completion.chunk", "choices": choices, **others}
        return f"data: {json.dumps(content, ensure_ascii=False)}\n\n"

    def of(delta: dict[str, str], reason: str | None = None) -> str:
        return event([{"index": 0, "delta": delta, "finish_reason": reason}])

    yield of({"role": "assistant", "content": ""})
    lines, n_written, since = text.split("\n"), 0, time.monotonic()
    for number, line in enumerate(lines):
        try:
            async with service.in_time(since):
                if len(lines) > 1:  # as a document: indents, and lines without words, stay
                    (translation,) = await service.documents([line], "text", direction)
                else:
                    translation = (await service.translate([line], direction))[0].text
        except Refused as error:
            if not "".join(lines[:number]).strip():
                raise
            yield f"data: {json.dumps({'error': {'message': str(error)}})}\n\n"
            return
        written = "\n" * bool(number) + translation
        n_written += len(written)
        yield of({"content": written})
    yield of({}, "stop")
    if with_usage:
        yield event([], usage=_usage(len(text), n_written))
    yield "data: [DONE]\n\n"
