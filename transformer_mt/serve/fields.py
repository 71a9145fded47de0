"""The fields of a request, from JSON or from a form, checked."""

import json
from collections.abc import Iterable
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qsl

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field, ValidationError
from starlette.exceptions import HTTPException

from transformer_mt.messages.catalogue import tr
from transformer_mt.serve.limits import Refused

Item = TypeVar("Item")
Model = TypeVar("Model", bound=BaseModel)
# One wrong item is told: a body has room for half a million of them.
ListOf = Annotated[list[Item], Field(fail_fast=True)]


async def fields_of(request: Request) -> dict[str, Any]:
    """JSON object, form or query; what stands twice in a form is a list.

    Raises:
        Refused: it is none of them.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        try:
            form = await request.form(max_files=1, max_fields=1000)
        except (HTTPException, ValueError) as error:  # ValueError: of odd character sets
            raise Refused(400, str(getattr(error, "detail", error))) from error
        return _with_lists(form.multi_items())
    body = await request.body()
    if not body:
        return dict(request.query_params)
    if kind == "application/x-www-form-urlencoded":
        # Not by `request.form`: UTF-8 as it is, without percent signs, is usual with curl.
        return _with_lists(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
    try:
        content = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refused(400, tr("the body is neither JSON nor a form")) from error
    if not isinstance(content, dict):
        raise Refused(400, tr("the body is no JSON object"))
    return content


def _with_lists(items: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, list[Any]] = {}
    for name, value in items:
        found.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


async def read_fields(request: Request, model: type[Model]) -> Model:
    """Raises: Refused: fields are missing or have a wrong type; all are named."""
    return validated(model, await fields_of(request))


def validated(model: type[Model], fields: dict[str, Any]) -> Model:
    """Raises: Refused: as `read_fields`."""
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise Refused(400, problems_of(error)) from error


def problems_of(error: ValidationError | RequestValidationError) -> str:
    lines = [(".".join(map(str, one["loc"])), one["msg"]) for one in error.errors()[:20]]
    return "; ".join(dict.fromkeys(f"{place}: {text}" for place, text in lines))


def described(model: type[BaseModel], *, file: bool = False) -> dict[str, Any]:
    """`openapi_extra` of a route that reads such fields, or such a form with a file."""
    schema = model.model_json_schema()
    kinds = ["application/json", "application/x-www-form-urlencoded"]
    if file:
        kinds = ["multipart/form-data"]
        schema["properties"]["file"] = {"type": "string", "format": "binary"}
    content = {kind: {"schema": schema} for kind in kinds}
    return {"requestBody": {"required": True, "content": content}}
