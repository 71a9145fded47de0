"""What one client may ask for, and who may ask."""

import hashlib
import secrets
import time
from dataclasses import dataclass
from pathlib import Path

from transformer_mt.errors import TmtError
from transformer_mt.messages.catalogue import tr

LONGEST_NAME = 200  # of a key, in characters


@dataclass(frozen=True)
class Limits:
    """
    Attributes:
        characters: of all texts of a request that is no file.
        texts: of a request.
        body_bytes, file_bytes: of a request's body, and of one with a file.
        request_s: seconds in which the head of a request must have come, and its body.
        answer_s: seconds in which the answer must be there.
        alternatives: that may be asked for.
    """

    characters: int = 5000
    texts: int = 128
    body_bytes: int = 1 << 20
    file_bytes: int = 16 << 20
    request_s: float = 30.0
    answer_s: float = 60.0
    alternatives: int = 5

    def check(self, texts: list[str], alternatives: int = 0) -> None:
        """Raises: Refused."""
        if alternatives > self.alternatives:
            raise Refused(400, tr("alternatives: at most {}", self.alternatives))
        if len(texts) > self.texts:
            raise Refused(413, tr("{} texts; at most {} at once", len(texts), self.texts))
        if (length := sum(map(len, texts))) > self.characters:
            raise Refused(
                413, tr("{:,} characters; at most {:,} at once", length, self.characters)
            )  # fmt: skip


class Refused(Exception):
    """An answer other than what was asked for.

    Attributes:
        status: of HTTP.
        retry_after: seconds; None: trying again is of no use.
    """

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.retry_after = status, retry_after


class ApiKeys:
    """Who may ask, and how often: a file with a line for each key.

    A line has the SHA-256 of the key, requests per minute, and a name. `add` writes such a line and
    tells the key, which is kept nowhere.
    """

    def __init__(self, path: Path) -> None:
        """
        Raises:
            TmtError: a line that makes no sense; OSError: the file cannot be read.
        """
        self._names: dict[str, tuple[str, float]] = {}  # digest → name, requests per minute
        self._left: dict[str, tuple[float, float]] = {}  # digest → requests left, when that was
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if not line.strip() or line.startswith("#"):
                continue
            try:
                digest, per_minute, name = line.split(maxsplit=2)
                self._names[digest] = (name, float(per_minute))
                if not float(per_minute) >= 1:
                    raise ValueError(per_minute)
            except ValueError as error:
                raise TmtError(
                    tr("{}: line {}: expected SHA-256, requests per minute, name", path, number)
                ) from error

    @staticmethod
    def add(path: Path, name: str, per_minute: int) -> str:
        """A new key.

        Raises:
            TmtError: the name is blank, or has a line end.
        """
        if not name.strip() or len(name.splitlines()) > 1 or len(name) > LONGEST_NAME:
            raise TmtError(tr("the name of a key is a word or some, on one line"))
        key = secrets.token_urlsafe(24)
        is_new = not path.exists()
        with path.open("a+", encoding="utf-8") as file:
            if is_new:
                path.chmod(0o600)
            file.seek(0)
            text = file.read()
            before = "" if text.endswith("\n") or not text else "\n"
            file.write(f"{before}{_digest(key)} {per_minute} {name}\n")
        return key

    def admit(self, key: str | None) -> str:
        """The name of the client.

        Raises:
            Refused: no such key, or it has asked too often.
        """
        digest = _digest(key or "")
        if digest not in self._names:
            raise Refused(403, tr("this server wants an API key, and not this one"))
        name, per_minute = self._names[digest]
        now = time.monotonic()
        left, when = self._left.get(digest, (per_minute, now))
        left = min(per_minute, left + (now - when) * per_minute / 60)
        admitted = left >= 1  # a refused request costs nothing
        self._left[digest] = (left - admitted, now)
        if not admitted:
            wait = 1 + int((1 - left) * 60 / per_minute)
            raise Refused(429, tr("more than {:g} requests a minute", per_minute), wait)
        return name


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()
