"""Who asks, and what for: admission of a request, told to its line of the log."""

from typing import Any

from fastapi import Request

from transformer_mt.serve.limits import ApiKeys


class Access:
    """Admits requests by their keys; without keys, all."""

    def __init__(self, keys: ApiKeys | None, *, log_texts: bool = False) -> None:
        self._keys, self._log_texts = keys, log_texts

    @property
    def needs_key(self) -> bool:
        return self._keys is not None

    def admit(self, request: Request, key: str | None, texts: list[str] | None = None) -> str:
        """The name of the client, empty without keys.

        Args:
            key: that the request has in the way of its interface.
        Raises:
            Refused: see `ApiKeys.admit`.
        """
        name = "" if self._keys is None else self._keys.admit(key)
        noted: dict[str, Any] = {"key": name} if name else {}
        if texts is not None:
            noted |= {"texts": len(texts), "characters": sum(map(len, texts))}
            noted |= {"text": texts} if self._log_texts else {}
        request.state.log = noted
        return name


def key_of_header(request: Request) -> str | None:
    """The key in `Authorization: SCHEME KEY`."""
    return request.headers.get("authorization", "").partition(" ")[2].strip() or None
