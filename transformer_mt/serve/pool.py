"""The server's side of its workers: a free worker takes a batch, a dead worker is replaced.

A thread for each worker hands batches over and answers back. A text that was accepted is answered
once: the texts of a worker that dies go to the front of the queue.
"""

import logging
import os
import secrets
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, Listener
from pathlib import Path

from transformer_mt.errors import TmtError
from transformer_mt.messages.catalogue import tr
from transformer_mt.serve.jobs import Failed, ModelInfo, Waiting, WorkerSettings
from transformer_mt.serve.text_queue import TextQueue
from transformer_mt.system.failures import reason_of
from transformer_mt.system.processes.child_python import TMT, child_environment, python_command
from transformer_mt.system.processes.environment import DEFAULTS

MOST_DEATHS = 3  # of workers that had one text, until it is given up
BATCH_S = 120.0  # the longest that a batch may take
LOOK_S = 1.0  # until somebody looks whether an idle worker is still there
END_S = 10.0  # in which the process ends that is asked to
_PAUSE_S = 1.0  # before the first process is started anew

_log = logging.getLogger(__name__)


class Broken(Exception):
    """A text that cannot be translated, by a fault that is not its client's."""


class WorkerPool:
    """Use with `with`. The workers are there when `models` is."""

    def __init__(
        self,
        queue: TextQueue,
        models: Sequence[Path],
        *,
        n_workers: int,
        engine: str = "native",
        precision: str = "auto",
    ) -> None:
        """Args: engine: native or ctranslate2. precision: as for `Translator.load`."""
        self.queue, self._models = queue, models
        self._n_workers, self._engine, self._precision = n_workers, engine, precision
        # A worker has ended, though nobody had asked it to; texts and seconds of a batch.
        self.on_death: Callable[[], None] = lambda: None
        self.on_batch: Callable[[int, float], None] = lambda n_texts, seconds: None
        self.batch_s = BATCH_S
        self.models: tuple[ModelInfo, ...] = ()
        self.failed = False  # there will be no workers; the first process has said why
        self.pids: set[int] = set()
        self.started = threading.Event()  # the first worker is there, or there will be none
        self._closing = False
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> "WorkerPool":
        self._folder = tempfile.TemporaryDirectory(prefix="tmt-")  # only this user may look
        self._key = secrets.token_bytes(32)
        address = str(Path(self._folder.name, "workers"))
        self._listener = Listener(address, "AF_UNIX", backlog=64, authkey=self._key)
        self._start(self._accept)
        self._start(self._keep_running)
        return self

    def __exit__(self, *_: object) -> None:
        """Let workers finish what they have; the queue must be empty, or what waits is lost."""
        self._closing = True
        self.queue.close()
        if self._process is not None:
            with suppress(OSError):
                try:
                    self._process.communicate(timeout=END_S)  # its input ends, and so does it
                except subprocess.TimeoutExpired:
                    self._process.kill()  # it loads a model, and does not look
        self._listener.close()
        self._folder.cleanup()

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        threading.Thread(target=target, args=arguments, daemon=True).start()

    def _keep_running(self) -> None:
        """Start the process that loads the models, and again if it dies."""
        models = [str(path) for path in self._models]
        address, key = str(self._listener.address), self._key.hex()
        settings = WorkerSettings(
            address, key, models, self._engine, self._precision, self._n_workers
        )  # fmt: skip
        while not self._closing:
            try:
                self._process = subprocess.Popen(
                    python_command(TMT, "serve-workers"),
                    env=DEFAULTS | child_environment(),
                    stdin=subprocess.PIPE,
                    text=True,
                    start_new_session=True,  # Ctrl-C is for the server, which lets it finish
                )
            except OSError as error:  # no memory or no process left, perhaps for a moment
                _log.error("%s", tr("no worker can be started: {}", reason_of(error.errno)))
                time.sleep(_PAUSE_S)
                continue
            with suppress(OSError):
                assert self._process.stdin is not None
                print(settings.to_json(), file=self._process.stdin, flush=True)
            code = self._process.wait()
            for pid in list(self.pids):  # copies of it, whose place others take
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            if not self.models:
                if code < 0 and not self._closing:
                    text = tr("signal {} ended the loading of models (9: lack of memory?)", -code)
                    _log.error("%s", text)
                self.failed = not self._closing  # it has said why
                self.started.set()
                return
            if not self._closing:
                _log.error("%s", tr("the workers have ended (status {}); starting others", code))
                time.sleep(_PAUSE_S)

    def _accept(self) -> None:
        while not self._closing:
            try:
                connection = self._listener.accept()
            except (OSError, EOFError, AuthenticationError):
                continue  # not a worker, or one that has died
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        """Hand batches to one worker until it dies or the queue is closed."""
        batch: list[Waiting] = []
        pid = 0
        try:
            started = connection.recv()
            pid, self.models = started.pid, started.models
            # Before the question: `_keep_running` kills what is there when its process ends later.
            self.pids.add(pid)
            if self._has_ended(started.parent):
                raise EOFError  # a copy that came too late; it ends with its connection
            self.started.set()
            while not self.queue.closed:
                batch = self.queue.take(LOOK_S)
                if connection.poll():  # an idle worker says nothing: it has died
                    self.queue.put_back(batch)
                    batch = []
                    raise EOFError
                if batch:
                    self._have_done(batch, connection, pid)
                    batch = []
            connection.send(None)
        except (EOFError, OSError):
            if not self._closing:
                _log.warning("%s", tr("worker {} has died; another one takes its place", pid))
                self.on_death()
            self._again(batch)
        finally:
            self.pids.discard(pid)
            connection.close()

    def _has_ended(self, parent: int) -> bool:
        """Whether the process that a worker comes from is not the present one, or has ended."""
        process = self._process
        return process is None or process.pid != parent or process.returncode is not None

    def _have_done(self, batch: Sequence[Waiting], connection: Connection, pid: int) -> None:
        start = time.monotonic()
        connection.send((batch[0].call, [text.text for text in batch]))
        if not connection.poll(self.batch_s):
            os.kill(pid, signal.SIGKILL)  # and `recv` says that it has died
        answers = connection.recv()
        seconds = time.monotonic() - start
        self.queue.done(batch, seconds)
        self.on_batch(len(batch), seconds)
        if isinstance(answers, Failed) and len(batch) > 1:
            for text in batch:  # one of them is to blame: each by itself
                self._have_done([text], connection, pid)
        elif isinstance(answers, Failed):
            error = TmtError(answers.message) if answers.message else Broken()
            batch[0].answer.set_exception(error)
        else:
            for text, answer in zip(batch, answers, strict=True):
                text.answer.set_result(answer)

    def _again(self, batch: Sequence[Waiting]) -> None:
        """Put back what a dead worker has not answered, but for texts that end every worker."""
        unanswered = [text for text in batch if not (text.answer.done() or text.dropped)]
        for text in unanswered:
            text.deaths += 1
            if text.deaths >= MOST_DEATHS:
                text.answer.set_exception(Broken())
        self.queue.put_back([text for text in unanswered if text.deaths < MOST_DEATHS])
