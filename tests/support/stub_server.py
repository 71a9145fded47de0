"""A server with the interface that the page asks, whose answers follow from simple rules.

A translation is its text with the order of the words turned round. A text with `slow`, `busy` or
`loading` in it is answered late, refused with 429 at first, or with 503.
"""

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import transformer_mt

PACKAGE = Path(transformer_mt.__file__).parent
FOLDERS = PACKAGE / "serve/page", PACKAGE / "rendering/page"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
NAMES = {"zh": "Chinese", "en": "English", "de": "German"}
HOSTILE = "<img src=x onerror=alert(1)>"
MOST = 400  # characters of a text
SLOW_S = 0.7


class StubServer(ThreadingHTTPServer):
    """Attributes: asked: path and fields of every question; key: the one that is wanted."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.times: Counter[str] = Counter()
        self.key = ""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"

    def texts(self) -> list[str]:
        return [fields["text"] for path, fields in self.asked if path == "/api/translate"]


@contextmanager
def stub_server() -> Iterator[StubServer]:
    server = StubServer()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


class _Answers(BaseHTTPRequestHandler):
    server: StubServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/":
            return self._file(FOLDERS[0] / "index.html")
        if self.path.startswith("/page/"):
            name = self.path.removeprefix("/page/")
            return self._file(next(d / name for d in FOLDERS if (d / name).is_file()))
        if self.path.startswith("/download_file/"):
            return self._send(200, b"translated", "application/octet-stream")
        pairs = [("zh", "en"), ("en", "zh"), ("en", "de")]
        directions = [
            {"source": a, "target": b, "sourceName": NAMES[a], "targetName": NAMES[b], "model": "m"}
            for a, b in pairs
        ]
        self._json(
            200,
            {
                "directions": directions, "maxCharacters": MOST,
                "keyRequired": bool(self.server.key), "forms": [".txt", ".md"],
            },
        )  # fmt: skip

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/translate_file":
            self.server.asked.append((self.path, {"body": body}))
            return self._json(200, {"translatedFileUrl": f"http://x/download_file/{len(body)}-a"})
        fields = json.loads(body)
        self.server.asked.append((self.path, fields))
        if self.server.key and fields.get("key") != self.server.key:
            return self._json(403, {"error": "no such key"})
        self.server.times[fields["text"]] += 1
        is_first = self.server.times[fields["text"]] == 1
        if "slow" in fields["text"]:
            time.sleep(SLOW_S)
        if "busy" in fields["text"] and is_first:
            return self._json(429, {"error": "too much waits"}, {"Retry-After": "1"})
        if "loading" in fields["text"] and is_first:
            return self._json(503, {"error": "the models are being loaded"}, {"Retry-After": "1"})
        if "refuse" in fields["text"]:
            return self._json(400, {"error": f"no model does that {HOSTILE}"})
        answer = _explained if self.path == "/api/explain" else _translated
        self._json(200, answer(fields))

    def _file(self, path: Path) -> None:
        self._send(200, path.read_bytes(), KINDS[path.suffix] + "; charset=utf-8")

    def _json(self, status: int, content: Any, headers: dict[str, str] | None = None) -> None:
        self._send(status, json.dumps(content).encode(), "application/json", headers or {})

    def _send(
        self, status: int, body: bytes, kind: str, headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        told = {"Content-Type": kind, "Content-Length": str(len(body)), **(headers or {})}
        for name, value in {**told, "Content-Security-Policy": POLICY}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Tests read the questions instead."""


def _translated(fields: dict[str, Any]) -> dict[str, Any]:
    terms = dict(fields["glossary"])
    words = [terms.get(word, word) for word in reversed(fields["text"].split())]
    probabilities = [0.97, 0.62, 0.31, 0.08]
    return {
        "translation": " ".join(words), "detected": fields["source"] == "auto",
        "source": "en" if fields["source"] == "auto" else fields["source"],
        "target": fields["target"], "confidence": 0.83, "milliseconds": 41,
        "notes": [f"strange: {HOSTILE}"] if "<" in fields["text"] else [],
        "faults": ["loop"] if "loop" in fields["text"] else [],
        "words": [
            {"text": word, "space": True, "probability": probabilities[i % 4]}
            for i, word in enumerate(words)
        ],
        "alternatives": [" ".join(words).upper(), " ".join(sorted(words))],
    }  # fmt: skip


def _explained(fields: dict[str, Any]) -> dict[str, Any]:
    words, tgt = (["▁" + word for word in fields[name].split()] for name in ("text", "translation"))
    pieces = [part for word in words for part in re.findall("[^-]+|-.*", word)]
    src, written, read = [*pieces, "</s>"], [*tgt, "</s>"], ["<s>", *tgt]
    n, m, n_words = len(src), len(written), len(words)

    def maps(rows: int, columns: int, causal: bool = False) -> Any:
        """2 layers and 3 heads, each row one column."""
        head = [[float(c == min(r, columns - 1)) for c in range(columns)] for r in range(rows)]
        return [[head] * 3] * 2

    turned = [
        [float(s == (n_words - 1 - t if t < m - 1 else n_words)) for s in range(n_words + 1)]
        for t in range(m)
    ]
    return {
        "sourcePieces": src, "inputPieces": read, "outputPieces": written, "cross": maps(m, n),
        "encoder": maps(n, n), "decoder": maps(m, m), "zeroing": turned,
    }  # fmt: skip
