"""The page at `/`, its files, and what it asks for."""

import time
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from fastapi.requests import Request
from pydantic import BaseModel, Field
from starlette.responses import FileResponse

from transformer_mt.rendering.pages import SHARED_PAGE
from transformer_mt.serve.access import Access
from transformer_mt.serve.fields import described, read_fields
from transformer_mt.serve.glossaries import check_terms
from transformer_mt.serve.jobs import Call, Terms
from transformer_mt.serve.service import AUTO, Service
from transformer_mt.text.languages import is_unspaced, language_name
from transformer_mt.text.normalise import well_formed
from transformer_mt.translation.documents.forms import SUFFIXES

_HERE = Path(__file__).parent / "page"
LEAST_DETECTED = 10  # percent, below which nothing is called detected
MOST_TERMS = 500  # of the glossary in a request


class PageFields(BaseModel):
    text: str = Field(examples=["你好。"])
    source: str = AUTO
    target: str = Field(examples=["en"])
    alternatives: int = Field(0, ge=0)
    glossary: list[tuple[str, str]] = Field(default=[], max_length=MOST_TERMS)
    key: str | None = None


def _plain_terms(glossary: list[tuple[str, str]]) -> Terms:
    """Without the white space that a keyboard leaves at the end of a word."""
    terms = ((" ".join(src.split()), " ".join(tgt.split())) for src, tgt in glossary)
    return tuple(term for term in terms if term[0])


class ExplainFields(BaseModel):
    text: str = Field(examples=["你好。"])
    translation: str
    source: str = AUTO
    target: str = Field(examples=["en"])
    key: str | None = None


def page_router(service: Service, access: Access) -> APIRouter:
    router = APIRouter()
    serve_file(router, "/", _HERE / "index.html")
    for folder in (_HERE, SHARED_PAGE):
        for path in folder.glob("*.*"):
            if path.suffix in (".js", ".css"):
                serve_file(router, f"/page/{path.name}", path)

    @router.get("/api/languages")
    async def languages() -> dict[str, Any]:
        await service.ready()
        directions = [
            {
                "source": one.src, "sourceName": language_name(one.src),
                "target": one.tgt, "targetName": language_name(one.tgt),
                "sourceUnspaced": is_unspaced(one.src), "targetUnspaced": is_unspaced(one.tgt),
                "model": service.pool.models[one.model].name,
            }
            for one in service.directions()
        ]  # fmt: skip
        return {
            "directions": directions, "maxCharacters": service.limits.characters,
            "keyRequired": access.needs_key, "forms": list(SUFFIXES),
        }  # fmt: skip

    @router.post("/api/translate", openapi_extra=described(PageFields))
    async def translate(request: Request) -> dict[str, Any]:
        start = time.monotonic()
        fields = await read_fields(request, PageFields)
        access.admit(request, fields.key, [fields.text])
        service.limits.check([fields.text], fields.alternatives)
        terms = _plain_terms(fields.glossary)
        check_terms(terms)
        direction = await service.direction([fields.text], fields.source, fields.target)
        (found,) = await service.translate(
            [fields.text], direction, n_best=1 + fields.alternatives, terms=terms, words=True
        )
        return {
            "translation": found.text, "alternatives": found.alternatives,
            "words": [vars(word) for word in found.words],
            "source": direction.src, "target": direction.tgt,
            "detected": (direction.certainty or 0) >= LEAST_DETECTED,
            "confidence": found.confidence, "notes": found.notes, "faults": found.faults,
            "milliseconds": round(1000 * (time.monotonic() - start)),
        }  # fmt: skip

    @router.post("/api/explain", openapi_extra=described(ExplainFields))
    async def explain(request: Request) -> dict[str, Any]:
        fields = await read_fields(request, ExplainFields)
        texts = [well_formed(fields.text), well_formed(fields.translation)]
        access.admit(request, fields.key, texts)
        service.limits.check(texts)
        direction = await service.direction(texts[:1], fields.source, fields.target)
        call = Call("explain", direction.model, direction.tgt, against=texts[1])
        (found,) = await service.ask(call, texts[:1])
        answer: dict[str, Any] = found
        return answer

    return router


def serve_file(router: APIRouter, address: str, path: Path) -> None:
    @router.get(address, include_in_schema=False)
    async def file() -> FileResponse:
        return FileResponse(path)
