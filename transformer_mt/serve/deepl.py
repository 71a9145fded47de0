"""The interface of DeepL, version 2: texts, languages, usage, glossaries.

Source: its documentation (developers.deepl.com/docs) and its Python client.
"""

import csv
import io
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from transformer_mt.messages.catalogue import tr
from transformer_mt.serve.access import Access, key_of_header
from transformer_mt.serve.detection import code_of
from transformer_mt.serve.fields import ListOf, described, read_fields
from transformer_mt.serve.glossaries import Glossaries, StoredGlossary
from transformer_mt.serve.jobs import Terms
from transformer_mt.serve.limits import Refused
from transformer_mt.serve.service import AUTO, Direction, Service
from transformer_mt.text.languages import language_name
from transformer_mt.text.normalise import well_formed
from transformer_mt.translation.documents.spans import parted
from transformer_mt.translation.documents.tags import markup_spans, tag_name

LEAST_DETECTED = 50.0  # percent, of the language of one text among others
UNLIMITED = 10**12  # characters, as DeepL tells accounts without a limit
_TARGETS = {"zh": "ZH-HANS", "zh-Hant": "ZH-HANT", "en": "EN-US", "pt": "PT-BR"}
_TSV = "text/tab-separated-values"
_KEPT = " translate=no data-tmt-kept"


class TranslateFields(BaseModel):
    text: str | ListOf[str] = Field(examples=[["你好。"]])
    target_lang: str = Field(examples=["EN-US"])
    source_lang: str | None = None
    glossary_id: str | None = None
    tag_handling: Literal["html", "xml"] | None = None
    ignore_tags: str | ListOf[str] | None = None  # elements that stay as they are


class LanguagesFields(BaseModel):
    type: Literal["source", "target"] = "source"


class GlossaryFields(BaseModel):
    name: str = Field(min_length=1, max_length=1024)
    source_lang: str
    target_lang: str = Field(examples=["EN-US"])
    entries: str
    entries_format: Literal["tsv", "csv"] = "tsv"


def deepl_router(service: Service, access: Access, glossaries: Glossaries) -> APIRouter:
    router = APIRouter(prefix="/v2")
    n_characters = Counter[str]()  # translated here, by the name of the client

    def admitted(request: Request, texts: list[str] | None = None) -> str:
        return access.admit(request, key_of_header(request), texts)

    @router.post("/translate", openapi_extra=described(TranslateFields))
    async def translate(request: Request) -> dict[str, Any]:
        fields = await read_fields(request, TranslateFields)
        texts = [fields.text] if isinstance(fields.text, str) else fields.text
        owner = admitted(request, texts)
        service.limits.check(texts)
        source = fields.source_lang or AUTO
        directions = await _directions(service, texts, source, fields.target_lang)
        terms: Terms = ()
        if fields.glossary_id is not None:
            stored = await glossaries.ask(glossaries.get, owner, fields.glossary_id)
            pair = _short(stored.src), _short(stored.tgt)
            if any(pair != (_short(one.src), _short(one.tgt)) for one in directions):
                raise Refused(400, tr("this glossary is for {}", f"{stored.src} → {stored.tgt}"))
            terms = stored.terms

        async def translated(texts: list[str], direction: Direction) -> list[str]:
            if form := fields.tag_handling:
                marked = [_marked_as_kept(text, fields.ignore_tags, form) for text in texts]
                found = await service.documents(marked, form, direction, terms=terms)
                return [translation.replace(_KEPT, "") for translation in found]
            return [one.text for one in await service.translate(texts, direction, terms=terms)]

        found = {}
        async with service.in_time(time.monotonic()):
            for direction in dict.fromkeys(directions):
                part = [t for t, one in zip(texts, directions, strict=True) if one == direction]
                found[direction] = iter(await translated(part, direction))
        n_characters[owner] += sum(map(len, texts))
        answers = [
            {
                "detected_source_language": _short(one.src).upper(), "text": next(found[one]),
                "billed_characters": len(text),
            }
            for text, one in zip(texts, directions, strict=True)
        ]  # fmt: skip
        return {"translations": answers}

    _add_account(router, service, n_characters, admitted)
    _add_glossaries(router, service, glossaries, admitted)
    return router


async def _directions(
    service: Service, texts: list[str], source: str, target: str
) -> list[Direction]:
    """Of each text; one that tells little of its language is in that of all together."""
    found: list[Direction] = []
    whole: Direction | None = None
    for text in texts:
        with suppress(Refused):
            own = await service.direction([text], source, target)
            if own.certainty is None or own.certainty >= LEAST_DETECTED:
                found.append(replace(own, certainty=None))
                continue
        whole = whole or await service.direction(texts, source, target)
        found.append(replace(whole, certainty=None))
    return found


def _add_account(
    router: APIRouter, service: Service, n_characters: Mapping[str, int], admitted: Any
) -> None:
    """Args: n_characters: translated, by the name of the client."""

    @router.get("/languages")
    async def languages(request: Request) -> list[dict[str, Any]]:
        kind = (await read_fields(request, LanguagesFields)).type  # also in a body, as its client
        admitted(request)
        await service.ready()
        sources = dict.fromkeys(one.src for one in service.directions())
        targets = dict.fromkeys(one.tgt for one in service.directions())
        if kind == "source":
            return [
                {"language": _short(src).upper(), "name": language_name(src)} for src in sources
            ]
        return [
            {
                "language": _TARGETS.get(tgt, tgt.upper()), "name": language_name(tgt),
                "supports_formality": False,
            }
            for tgt in targets
        ]  # fmt: skip

    @router.get("/usage")
    async def usage(request: Request) -> dict[str, int]:
        return {"character_count": n_characters[admitted(request)], "character_limit": UNLIMITED}


def _add_glossaries(
    router: APIRouter, service: Service, glossaries: Glossaries, admitted: Any
) -> None:
    @router.get("/glossary-language-pairs")
    async def pairs(request: Request) -> dict[str, Any]:
        admitted(request)
        await service.ready()
        found = [
            {"source_lang": _short(one.src), "target_lang": _short(one.tgt)}
            for one in service.directions()
        ]
        return {"supported_languages": found}

    @router.post("/glossaries", status_code=201, openapi_extra=described(GlossaryFields))
    async def create(request: Request) -> dict[str, Any]:
        fields = await read_fields(request, GlossaryFields)
        owner = admitted(request)
        terms = read_entries(well_formed(fields.entries), fields.entries_format)
        pair = code_of(fields.source_lang), code_of(fields.target_lang)
        work = glossaries.ask(glossaries.add, owner, fields.name, *pair, terms)
        return _described(await work)

    @router.get("/glossaries")
    async def all_of_them(request: Request) -> dict[str, Any]:
        found = await glossaries.ask(glossaries.all, admitted(request))
        return {"glossaries": list(map(_described, found))}

    @router.get("/glossaries/{id_}")
    async def one(request: Request, id_: str) -> dict[str, Any]:
        return _described(await glossaries.ask(glossaries.get, admitted(request), id_))

    @router.get("/glossaries/{id_}/entries")
    async def entries(request: Request, id_: str) -> Response:
        stored = await glossaries.ask(glossaries.get, admitted(request), id_)
        return Response("\n".join("\t".join(term) for term in stored.terms), media_type=_TSV)

    @router.delete("/glossaries/{id_}", status_code=204)
    async def delete(request: Request, id_: str) -> None:
        await glossaries.ask(glossaries.delete, admitted(request), id_)


def _marked_as_kept(text: str, names: str | list[str] | None, form: Literal["html", "xml"]) -> str:
    """A text whose elements of these names (apart by commas) say that they are not translated."""
    every = ",".join(names if isinstance(names, list) else [names or ""]).split(",")
    wanted = {name.strip() if form == "xml" else name.strip().lower() for name in every} - {""}
    if not wanted:
        return text
    marked = []
    is_xml = form == "xml"
    for piece, is_markup in parted(text, markup_spans(text, keep=False, is_xml=is_xml)):
        name = tag_name(piece, is_xml=is_xml) if is_markup and piece[1:2] != "/" else ""
        end = 1 + len(name)
        marked.append(piece[:end] + _KEPT + piece[end:] if name in wanted else piece)
    return "".join(marked)


def read_entries(text: str, form: Literal["tsv", "csv"]) -> Terms:
    """Source and target of each line that is not empty.

    Raises:
        Refused: a line has not two columns.
    """
    rows = csv.reader(
        io.StringIO(text),
        delimiter="\t" if form == "tsv" else ",",
        quoting=csv.QUOTE_NONE if form == "tsv" else csv.QUOTE_MINIMAL,
    )
    terms: list[tuple[str, str]] = []
    try:
        for row in rows:
            cells = [" ".join(cell.split()) for cell in row]
            if any(cells):
                if len(cells) < 2 or not all(cells[:2]):
                    raise Refused(400, tr("entry {}: expected source and target", rows.line_num))
                terms.append((cells[0], cells[1]))
    except csv.Error as error:
        raise Refused(400, tr("entry {}: {}", rows.line_num, error)) from error
    return tuple(terms)


def _short(code: str) -> str:
    return code.partition("-")[0]


def _described(stored: StoredGlossary) -> dict[str, Any]:
    created = datetime.fromtimestamp(stored.created, UTC)
    return {
        "glossary_id": stored.id, "ready": True, "name": stored.name,
        "source_lang": _short(stored.src), "target_lang": _short(stored.tgt),
        "creation_time": created.isoformat(timespec="microseconds"),
        "entry_count": len(stored.terms),
    }  # fmt: skip
