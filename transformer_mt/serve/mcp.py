"""`tmt mcp`: a model as tools of an assistant, over standard input and output.

Source: modelcontextprotocol.io; the official SDK speaks the protocol.
"""

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

from transformer_mt.errors import TmtError
from transformer_mt.explain.value_zeroing import deciding_words, word_shares
from transformer_mt.messages.catalogue import tr
from transformer_mt.serve.limits import Limits
from transformer_mt.translation.direction import both_directions, direction_of
from transformer_mt.translation.pair_scores import PairScore
from transformer_mt.translation.translator import Translator


def mcp_server(model_dir: Path) -> Any:
    """The server, ready to run. Raises: TmtError: the model cannot be loaded."""
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError

    model, limits, lock = Translator.load(model_dir), Limits(), threading.Lock()
    languages = model.cfg.languages
    pairs = ", ".join(f"{one.src} → {one.tgt}" for one in both_directions(languages))
    server = MCPServer("tmt", instructions=tr("Machine translation: {}", pairs))

    def tool(function: Callable[..., Any]) -> Callable[..., Any]:
        @server.tool()
        @wraps(function)
        def safe(*args: Any, **kwargs: Any) -> Any:
            with lock, _told_as(ToolError):
                return function(*args, **kwargs)

        return safe

    def check(texts: list[str]) -> None:
        if sum(map(len, texts)) > limits.characters:
            raise TmtError(tr("at most {:,} characters at once", limits.characters))

    @tool
    def translate(texts: list[str], to: str | None = None) -> list[dict[str, Any]]:
        """Translate texts. `to`: language code, for a model of both directions. The confidence is
        the chrF to expect, from 0 to 1; faults and notes say what looks wrong."""
        check(texts)
        return [
            {
                "translation": one.text, "confidence": one.confidence,
                "faults": list(one.faults), "notes": list(one.input.notes),
            }
            for one in model.translate(texts, to=to, retry=True)
        ]  # fmt: skip

    @tool
    def score(
        sources: list[str], translations: list[str], to: str | None = None
    ) -> list[float | None]:
        """Mean log-probability per token, in nats, of each translation given its source; null: one
        of both is too long."""
        check([*sources, *translations])
        if len(sources) != len(translations):
            counts = len(sources), len(translations)
            raise TmtError(tr("{} sources, but {} translations", *counts))
        return list(map(_per_token, model.score_pairs(sources, translations, to=to)))

    @tool
    def explain(text: str, translation: str | None = None, to: str | None = None) -> dict[str, Any]:
        """Which source word decided each word of a translation: by value zeroing, and by the raw
        attention, with their shares. Without a translation, the model's own."""
        check([text, translation or ""])
        maps = model.attention(text, translation, to=to)
        ids = model.forced_ids(text, translation, to=to)
        shares = word_shares(model, maps, ids, direction_of(text, languages, to))
        words = deciding_words(*shares)
        return {"translation": maps.translation, "words": [vars(word) for word in words]}

    return server


def _per_token(score: PairScore) -> float | None:
    return None if math.isnan(score.log_prob) else score.log_prob / score.n_tokens


@contextmanager
def _told_as(kind: type[Exception]) -> Iterator[None]:
    """Mistakes of the client, in the same words as everywhere else, but for options."""
    try:
        yield
    except TmtError as error:
        raise kind(str(error).replace("--to ", "to: ")) from error
