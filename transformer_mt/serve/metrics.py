"""Counters for Prometheus, at `/metrics`."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from transformer_mt.serve.pool import WorkerPool
from transformer_mt.serve.service import Service

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_TEXTS = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """What happens in one server."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "tmt_requests", "answered requests", ["path", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "tmt_request_seconds", "from request to answer", ["path"], buckets=_SECONDS,
            registry=self._registry,
        )  # fmt: skip
        self._batches = Histogram(
            "tmt_batch_texts", "texts in a batch", buckets=_TEXTS, registry=self._registry
        )
        self._busy = Counter(
            "tmt_busy_seconds", "seconds that workers had a batch", registry=self._registry
        )
        self._deaths = Counter(
            "tmt_worker_deaths", "workers that have died", registry=self._registry
        )

    def watch(self, service: Service, pool: WorkerPool) -> None:
        """Count what workers do, and add what can be read at any time."""
        pool.on_death, pool.on_batch = self._deaths.inc, self._batch
        for name, text, value in (
            ("tmt_waiting_texts", "texts in the queue", lambda: len(pool.queue)),
            ("tmt_workers", "workers that are there", lambda: len(pool.pids)),
            ("tmt_characters_total", "characters translated", lambda: service.n_characters),
            ("tmt_cached_total", "texts found in the cache", lambda: service.n_cached),
        ):
            Gauge(name, text, registry=self._registry).set_function(value)

    def request(self, path: str, status: int, seconds: float) -> None:
        self._requests.labels(path, status).inc()
        self._seconds.labels(path).observe(seconds)

    def _batch(self, n_texts: int, seconds: float) -> None:
        self._batches.observe(n_texts)
        self._busy.inc(seconds)

    def text(self) -> bytes:
        return generate_latest(self._registry)
