"""Texts of all clients in one queue; batches of it for free workers.

The texts of a batch have the same options and similar lengths: the shortest texts first, unless
others have waited for long. This file knows neither the network nor models.
"""

import threading
import time
from collections.abc import Sequence

from transformer_mt.serve.jobs import Waiting

# Texts in a batch. Matrix products are prepared for each shape that occurs, which takes time and
# memory: with few sizes there are few shapes.
SIZES = (1, 2, 4, 8, 16, 32)
MOST_CHARACTERS = 8192  # in a batch, the length of the longest text counted for each
FAIR_S = 0.5  # a text that has waited for longer goes first, however long it is


class QueueFull(Exception):
    """Too much waits.

    Attributes:
        retry_after: seconds until about half of it is done.
    """

    def __init__(self, retry_after: int) -> None:
        super().__init__(retry_after)
        self.retry_after = retry_after


class TextQueue:
    """Bounded; threads may share it."""

    def __init__(self, *, most_characters: int, wait_s: float) -> None:
        """
        Args:
            most_characters: of all texts that wait.
            wait_s: the longest that a text waits for others to be translated with: for the last
                free worker; while others are free too, no text waits.
        """
        self._most, self._wait_s = most_characters, wait_s
        self._texts: list[Waiting] = []
        self._changed = threading.Condition()
        self._n_free = 0  # threads that wait for a batch
        self.closed = False
        self._speed = 1000.0  # characters per second, lately

    def __len__(self) -> int:
        return len(self._texts)

    def put(self, texts: Sequence[Waiting]) -> None:
        """All of them or none.

        Raises:
            QueueFull: there is no room; a request that is alone always has room.
        """
        with self._changed:
            self._texts = [t for t in self._texts if not (t.answer.cancelled() or t.dropped)]
            waiting = sum(text.size for text in self._texts)
            if waiting and waiting + sum(text.size for text in texts) > self._most:
                raise QueueFull(1 + min(59, int(waiting / self._speed / 2)))
            self._texts += texts
            self._changed.notify_all()

    def put_back(self, texts: Sequence[Waiting]) -> None:
        """Before all others: they were accepted, and their worker has died."""
        with self._changed:
            self._texts[:0] = texts
            self._changed.notify_all()

    def take(self, patience_s: float) -> list[Waiting]:
        """Wait for a batch; empty: the queue is closed, or none came for so long."""
        end = time.monotonic() + patience_s
        with self._changed:
            self._n_free += 1
            try:
                while not self.closed and (left := end - time.monotonic()) > 0:
                    batch = self._next_batch()
                    if batch and (early := self._early(batch)) <= 0:
                        taken = set(map(id, batch))
                        self._texts = [text for text in self._texts if id(text) not in taken]
                        # Nobody waits for the text of a client that has gone.
                        if batch := [text for text in batch if text.is_wanted()]:
                            return batch
                    else:
                        self._changed.wait(min(early, left) if batch else left)
            finally:
                self._n_free -= 1
        return []

    def done(self, batch: Sequence[Waiting], seconds: float) -> None:
        """Tell how long a batch has taken."""
        speed = sum(text.size for text in batch) / max(seconds, 1e-3)
        with self._changed:
            self._speed += 0.1 * (speed - self._speed)

    def close(self) -> None:
        """End the waiting of `take`; what is in the queue is not taken any more."""
        with self._changed:
            self.closed = True
            self._changed.notify_all()

    def _next_batch(self) -> list[Waiting]:
        """What a free worker would take: its share of the texts that go with the oldest one."""
        if not self._texts:
            return []
        head = self._texts[0]
        if head.deaths:  # it may be what ends workers: alone, others are safe from it
            return [head]
        alike = [text for text in self._texts if text.call == head.call and not text.deaths]
        share = -(-len(alike) // self._n_free)
        late = time.monotonic() - FAIR_S
        alike.sort(key=lambda text: (text.since > late and text.size, text.since))
        batch: list[Waiting] = []
        longest = 0
        for text in alike[: min(share, SIZES[-1])]:
            longest = max(longest, text.size)
            if batch and longest * (len(batch) + 1) > MOST_CHARACTERS:
                break
            batch.append(text)
        return batch[: max(size for size in SIZES if size <= len(batch))]

    def _early(self, batch: Sequence[Waiting]) -> float:
        """Seconds to wait for more texts; 0: full, waited for, or others are free for the next."""
        if len(batch) == SIZES[-1] or self._n_free > 1:
            return 0.0
        return min(text.since for text in batch) + self._wait_s - time.monotonic()
