"""The interface of LibreTranslate: what its clients send, and what they expect.

Source: its documentation (docs.libretranslate.com). Chinese is zh-Hans and zh-Hant there.
"""

import asyncio
import secrets
from collections import OrderedDict
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.datastructures import UploadFile
from starlette.responses import Response

from transformer_mt.messages.catalogue import tr
from transformer_mt.serve.access import Access
from transformer_mt.serve.detection import detect
from transformer_mt.serve.fields import ListOf, described, fields_of, read_fields, validated
from transformer_mt.serve.limits import Refused
from transformer_mt.serve.service import AUTO, Service
from transformer_mt.text.languages import language_name
from transformer_mt.text.normalise import well_formed
from transformer_mt.translation.documents.forms import SUFFIXES, form_of

MOST_FILE_BYTES = 256 << 20  # of translated files that wait to be fetched
FILE_S = 600.0  # seconds that they wait

Texts = Annotated[str | ListOf[str], Field(examples=["你好。"])]


class TranslateFields(BaseModel):
    q: Texts
    source: str = AUTO
    target: str = Field(examples=["en"])
    format: Literal["text", "html"] = "text"
    alternatives: int = Field(0, ge=0)
    api_key: str | None = None


class DetectFields(BaseModel):
    q: Texts
    api_key: str | None = None


class FileFields(BaseModel):
    source: str = AUTO
    target: str = Field(examples=["en"])
    api_key: str | None = None


def code_outside(code: str) -> str:
    return "zh-Hans" if code == "zh" else code


def libretranslate_router(service: Service, access: Access) -> APIRouter:
    router = APIRouter()
    _add_languages(router, service, access)
    _add_texts(router, service, access)
    _add_files(router, service, access)
    return router


def _add_languages(router: APIRouter, service: Service, access: Access) -> None:
    """Which languages there are, and which a text is in."""

    @router.get("/health")
    async def health() -> Response:
        if service.pool.pids:
            return Response('{"status":"ok"}', media_type="application/json")
        raise Refused(503, tr("the models are being loaded"), 1)

    @router.get("/languages")
    async def languages() -> list[dict[str, Any]]:
        await service.ready()
        targets: dict[str, list[str]] = {}
        for one in service.directions():
            targets.setdefault(one.src, []).append(code_outside(one.tgt))
        return [
            {"code": code_outside(src), "name": language_name(src), "targets": tgts}
            for src, tgts in targets.items()
        ]

    @router.get("/frontend/settings")
    async def settings() -> dict[str, Any]:
        await service.ready()
        target = service.directions()[0].tgt
        return {
            "apiKeys": access.needs_key, "keyRequired": access.needs_key, "suggestions": False,
            "charLimit": service.limits.characters, "frontendTimeout": 500,
            "filesTranslation": True, "supportedFilesFormat": list(SUFFIXES),
            "language": {
                "source": {"code": AUTO, "name": tr("Detect the language")},
                "target": {"code": code_outside(target), "name": language_name(target)},
            },
        }  # fmt: skip

    @router.post("/detect", openapi_extra=described(DetectFields))
    async def detected(request: Request) -> list[dict[str, Any]]:
        fields = await read_fields(request, DetectFields)
        texts = _as_list(fields.q)
        access.admit(request, fields.api_key, texts)
        service.limits.check(texts)
        code, certainty = await asyncio.to_thread(detect, texts)
        if code is None:  # its clients take the first, whatever it is
            await service.ready()
            sources = [one.src for one in service.directions()]
            code, certainty = await asyncio.to_thread(detect, texts, sources)
            code = code or sources[0]
        return [{"language": code_outside(code), "confidence": certainty}]


def _add_texts(router: APIRouter, service: Service, access: Access) -> None:
    @router.post("/translate", openapi_extra=described(TranslateFields))
    async def translate(request: Request) -> dict[str, Any]:
        fields = await read_fields(request, TranslateFields)
        texts = _as_list(fields.q)
        access.admit(request, fields.api_key, texts)
        service.limits.check(texts, fields.alternatives)
        direction = await service.direction(texts, fields.source, fields.target)
        n_best = 1 + fields.alternatives
        if fields.format == "html":
            found = await service.documents(texts, "html", direction)
            others: list[list[str]] = [[] for _ in found]
        else:
            answers = await service.translate(texts, direction, n_best=n_best)
            found = [one.text for one in answers]
            others = [list(one.alternatives) for one in answers]
        one_text = isinstance(fields.q, str)
        answer: dict[str, Any] = {"translatedText": found[0] if one_text else found}
        if direction.certainty is not None:
            told = {"language": code_outside(direction.src), "confidence": direction.certainty}
            answer["detectedLanguage"] = told if one_text else [told] * len(texts)
        if fields.alternatives:
            answer["alternatives"] = others[0] if one_text else others
        return answer


def _add_files(router: APIRouter, service: Service, access: Access) -> None:
    files = _Files()

    @router.post("/translate_file", openapi_extra=described(FileFields, file=True))
    async def translate_file(request: Request) -> dict[str, str]:
        given = await fields_of(request)
        fields = validated(FileFields, given)
        access.admit(request, fields.api_key)
        file = given.get("file")
        if not isinstance(file, UploadFile) or not file.filename:
            raise Refused(400, tr("file: a file with a name is missing"))
        name = Path(well_formed(file.filename).replace("\\", "/"))  # only its end is looked at
        if name.suffix.lower() not in SUFFIXES:
            known = " ".join(SUFFIXES)
            raise Refused(400, tr("{}: files of these kinds are translated: {}", name.name, known))
        content = await file.read()
        form = form_of(name)
        direction = await service.direction_of_document(content, form, fields.source, fields.target)
        result = await service.document(content, form, direction)
        id_ = files.keep(f"{name.stem}.{direction.tgt}{name.suffix}", result)
        return {"translatedFileUrl": str(request.url_for("download_file", id_=id_))}

    @router.get("/download_file/{id_}")
    async def download_file(id_: str) -> Response:
        name, content = files.take(id_)
        disposition = f"attachment; filename*=UTF-8''{quote(name)}"
        headers = {"Content-Disposition": disposition}
        return Response(content, headers=headers, media_type="application/octet-stream")


def _as_list(texts: str | list[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else texts


class _Files:
    """Translated files, in memory until they are fetched; the oldest go first."""

    def __init__(self) -> None:
        self._files: OrderedDict[str, tuple[str, bytes]] = OrderedDict()

    def keep(self, name: str, content: bytes) -> str:
        """What it is fetched by, which nobody can guess."""
        id_ = secrets.token_urlsafe(16)
        self._files[id_] = name, content
        asyncio.get_running_loop().call_later(FILE_S, self._files.pop, id_, None)
        size = sum(len(one) for _, one in self._files.values())
        while len(self._files) > 1 and size > MOST_FILE_BYTES:
            _, (_, oldest) = self._files.popitem(last=False)
            size -= len(oldest)
        return id_

    def take(self, id_: str) -> tuple[str, bytes]:
        if id_ not in self._files:
            raise Refused(404, tr("there is no such file, or not any more"))
        return self._files[id_]
