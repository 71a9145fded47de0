"""The part of the Hugging Face Hub that `tmt push` and `tmt pull` talk to, on loopback.

Models are kept in memory. Weights go the way of large files (LFS, basic transfer), other files
travel in the commit. The token `own-token` may do everything; no other one may write, or see what
is private.
"""

import base64
import hashlib
import json
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

import yaml

TOKEN = "own-token"


@dataclass
class Repository:
    """Its newest commit, and all commits before."""

    private: bool = False
    files: dict[str, bytes] = field(default_factory=lambda: {".gitattributes": b"*.safetensors\n"})
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    revisions: dict[str, str] = field(default_factory=dict)

    def commit(self) -> str:
        parts = [self.private, len(self.commits), *sorted(self.files.items())]
        sha = hashlib.sha1(repr(parts).encode()).hexdigest()
        self.commits[sha] = dict(self.files)
        self.revisions["main"] = sha
        return sha


class Hub(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.models: dict[str, Repository] = {}
        self.large: dict[str, bytes] = {}  # by SHA-256
        self.sent: dict[str, bytes] = {}  # a file name → other bytes to send in its place
        self.requests: list[str] = []
        self.base = f"http://127.0.0.1:{self.server_port}"

    def put(self, name: str, files: dict[str, bytes], *, private: bool = False) -> str:
        """Give a repository files without the client; its commit."""
        repository = self.models.setdefault(name, Repository(private))
        repository.files.update(files)
        return repository.commit()

    def fetched(self) -> set[str]:
        """Names of files that clients have asked for."""
        found = (re.fullmatch(r"GET /.+?/resolve/\w+/(.+)", line) for line in self.requests)
        return {match[1] for match in found if match}

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client that has gone is no news here


class _Refused(Exception):
    """With the status, and the code that the client tells errors apart by."""


class _Handler(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = unquote(self.path.partition("?")[0])
        self.server.requests.append(f"{self.command} {path}")
        try:
            for pattern, method in _ROUTES:
                if match := re.fullmatch(pattern, f"{self.command} {path}"):
                    return self._send(*method(self, body, **match.groupdict()))
            raise _Refused(404, "")
        except _Refused as refused:
            status, code = refused.args
            self._send(b"{}", {"X-Error-Code": code} if code else {}, status)

    do_GET = do_HEAD = do_POST = do_PUT = _answer

    def _send(self, body: bytes, headers: dict[str, str], status: int = 200) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass

    def _model(self, name: str, *, write: bool = False) -> Repository:
        known = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        found = self.server.models.get(name)
        if found is None or (found.private and not known):
            raise _Refused(404 if known else 401, "RepoNotFound")
        if write and not known:
            raise _Refused(403, "")
        return found

    def create(self, body: bytes) -> "Answer":
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            raise _Refused(401, "")
        asked = json.loads(body)
        name = "/".join(filter(None, (asked.get("organization"), asked["name"])))
        private = asked.get("visibility") == "private" or bool(asked.get("private"))
        exists = name in self.server.models
        if not exists:
            self.server.models[name] = Repository(private)
            self.server.models[name].commit()
        return as_json({"url": f"{self.server.base}/{name}"}, 409 if exists else 200)

    def check_card(self, body: bytes) -> "Answer":
        content = json.loads(body)["content"]
        head = yaml.safe_load(content.split("---\n")[1])
        wrong = head["license"] not in ("apache-2.0", "mit", "unknown")
        errors = [{"message": '"license" must be one of …'}] if wrong else []
        return as_json({"errors": errors, "warnings": []}, 400 if wrong else 200)

    def info(self, _: bytes, name: str, revision: str | None = None) -> "Answer":
        model = self._model(name)
        sha = model.revisions.get(revision or "main", revision or "")
        if sha not in model.commits:
            raise _Refused(404, "RevisionNotFound")
        names = [{"rfilename": file} for file in model.commits[sha]]
        return as_json({"id": name, "sha": sha, "private": model.private, "siblings": names})

    def preupload(self, body: bytes, name: str) -> "Answer":
        self._model(name, write=True)
        return as_json({"files": [
            {"path": file["path"], "shouldIgnore": False,
             "uploadMode": "lfs" if file["path"].endswith(".safetensors") else "regular"}
            for file in json.loads(body)["files"]
        ]})  # fmt: skip

    def batch(self, body: bytes, name: str) -> "Answer":
        self._model(name, write=True)
        return as_json({"transfer": "basic", "objects": [
            {**one, "actions": {"upload": {"href": f"{self.server.base}/large/{one['oid']}"}}}
            for one in json.loads(body)["objects"]
        ]})  # fmt: skip

    def store(self, body: bytes, digest: str) -> "Answer":
        assert hashlib.sha256(body).hexdigest() == digest
        self.server.large[digest] = body
        return b"", {}

    def commit(self, body: bytes, name: str) -> "Answer":
        model = self._model(name, write=True)
        header, *operations = map(json.loads, body.splitlines())
        if header["value"].get("parentCommit") not in (None, model.revisions["main"]):
            raise _Refused(412, "")
        for operation in operations:
            value = operation["value"]
            match operation["key"]:
                case "file":
                    model.files[value["path"]] = base64.b64decode(value["content"])
                case "lfsFile":
                    model.files[value["path"]] = self.server.large[value["oid"]]
                case "deletedFile":
                    del model.files[value["path"]]
        sha = model.commit()
        return as_json({"commitUrl": f"{self.server.base}/{name}/commit/{sha}", "commitOid": sha})

    def file(self, _: bytes, name: str, sha: str, file: str) -> "Answer":
        content = self._model(name).commits[sha].get(file)
        if content is None:
            raise _Refused(404, "EntryNotFound")
        etag = hashlib.sha256(content).hexdigest()
        sent = self.server.sent.get(file, content)
        return sent, {"ETag": f'"{etag}"', "X-Repo-Commit": sha}


Answer = tuple[bytes, dict[str, str]] | tuple[bytes, dict[str, str], int]


def as_json(value: Any, status: int = 200) -> Answer:
    return json.dumps(value).encode(), {"Content-Type": "application/json"}, status


_ID = r"(?P<name>[^/]+/[^/]+?)"
_ROUTES: list[tuple[str, Any]] = [
    ("POST /api/repos/create", _Handler.create),
    ("POST /api/validate-yaml", _Handler.check_card),
    (rf"GET /api/models/{_ID}(?:/revision/(?P<revision>.+))?", _Handler.info),
    (rf"POST /api/models/{_ID}/preupload/main", _Handler.preupload),
    (rf"POST /{_ID}\.git/info/lfs/objects/batch", _Handler.batch),
    (r"PUT /large/(?P<digest>\w+)", _Handler.store),
    (rf"POST /api/models/{_ID}/commit/main", _Handler.commit),
    (rf"(?:GET|HEAD) /{_ID}/resolve/(?P<sha>\w+)/(?P<file>.+)", _Handler.file),
]


@contextmanager
def running() -> Iterator[Hub]:
    with Hub() as hub:
        thread = threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield hub
        finally:
            hub.shutdown()
            thread.join()


def environment(hub: Hub, home: str, token: str = TOKEN) -> dict[str, str]:
    """The variables with which a process uses this Hub, and a cache below `home`."""
    return {
        **os.environ,
        "HF_ENDPOINT": hub.base, "HF_HOME": f"{home}/hf", "HF_TOKEN": token,
        "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "TMT_CACHE": f"{home}/cache",
    }  # fmt: skip
