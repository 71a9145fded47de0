"""What every interface of the server is made of: languages, detection, translation of texts and
documents, through the queue to the workers.
"""

import asyncio
import io
import threading
import time
import zipfile
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from transformer_mt.errors import DataError, TmtError
from transformer_mt.messages.catalogue import tr
from transformer_mt.serve.detection import code_of, detect, near
from transformer_mt.serve.jobs import Call, Terms, Translated, Waiting
from transformer_mt.serve.limits import Limits, Refused
from transformer_mt.serve.pool import Broken, WorkerPool
from transformer_mt.serve.text_queue import QueueFull
from transformer_mt.system.zip_damage import ZIP_DAMAGE
from transformer_mt.text.normalise import well_formed
from transformer_mt.translation.documents.forms import PACKAGE_FORMS, Form, PackageForm
from transformer_mt.translation.documents.translate import texts_of, translate_content

Result = TypeVar("Result")

AUTO = "auto"
_LONGEST_CACHED = 1000  # characters of a text and its glossary, both of which the cache keeps
_SEGMENTS_AT_ONCE = 1024  # of a document, so that the server answers others between them
_BUSY_S = 0.5  # between two attempts of a document that is begun
_POLL_S = 0.02  # while the models are loaded
_SURE = 90.0  # percent, of a language that no model here has
_LONGEST_SEGMENT = 20_000  # characters; or four times those of a request
_FOR_MARKS = 0.75  # of the time of an answer; later, places of marks are guessed
_HEAVY = 4 << 20  # bytes of XML: in memory they take many times as much
_MOST_HEAVY = 2  # documents at once
_HEAVY_WAIT_S = 5.0
_MOST_DOCUMENTS = 64  # that are translated at once; each has a thread, which waits


@dataclass(frozen=True)
class Direction:
    """
    Attributes:
        model: index.
        certainty: of the detection, in percent; None: the source was named.
    """

    model: int
    src: str
    tgt: str
    certainty: float | None = None


class Service:
    """Everything that is asked of the models; one for all interfaces."""

    def __init__(self, pool: WorkerPool, limits: Limits, most_cached: int) -> None:
        self.pool, self.limits, self._most_cached = pool, limits, most_cached
        self._cache: OrderedDict[tuple[Call, str], Translated] = OrderedDict()
        self.n_characters = self.n_cached = 0  # translated; texts that were in the cache
        # Not the threads of the loop: detection would wait until a document is translated.
        self._threads = ThreadPoolExecutor(_MOST_DOCUMENTS)
        self._heavy = asyncio.Semaphore(_MOST_HEAVY)

    @asynccontextmanager
    async def in_time(self, since: float) -> AsyncIterator[None]:
        """Raises: Refused: it takes longer than an answer may, from `since` (monotonic) on."""
        try:
            async with asyncio.timeout(since + self.limits.answer_s - time.monotonic()):
                yield
        except TimeoutError as error:
            text = tr("it took longer than {:g} s", self.limits.answer_s)
            raise Refused(504, text) from error

    async def ready(self) -> None:
        """Until the models are loaded.

        Raises:
            Refused: they cannot be, or it takes too long.
        """
        end = time.monotonic() + self.limits.answer_s
        while not self.pool.models:
            if self.pool.failed or time.monotonic() > end:
                raise Refused(503, tr("the models are not loaded"), 1)
            await asyncio.sleep(_POLL_S)

    def directions(self) -> list[Direction]:
        """Each pair of languages once: of models that share one, the first has it."""
        found: dict[tuple[str, str], Direction] = {}
        for model, info in enumerate(self.pool.models):
            for pair in info.directions:
                found.setdefault(pair, Direction(model, *pair))
        return list(found.values())

    async def direction(self, texts: Sequence[str], source: str, target: str) -> Direction:
        """The direction from `source`, any spelling of a language or `auto`, to `target`.

        Raises:
            Refused: no model has it.
        """
        await self.ready()
        to = code_of(target)
        candidates = [one for one in self.directions() if one.tgt == to]
        if source.lower() != AUTO:
            return self._first(candidates, code_of(source), to)
        codes = [one.src for one in candidates]
        code, certainty = await asyncio.to_thread(detect, texts)
        if len(codes) == 1 and not near(code, codes):
            code, certainty = codes[0], 0.0  # nothing else can be translated, or was detected
        elif certainty < _SURE and not near(code, codes):
            code, certainty = await asyncio.to_thread(detect, texts, codes)
        return replace(self._first(candidates, code, to), certainty=certainty)

    def _first(self, candidates: Sequence[Direction], src: str | None, tgt: str) -> Direction:
        if (code := near(src, [one.src for one in candidates])) is not None:
            return next(one for one in candidates if one.src == code)
        there = ", ".join(f"{one.src} → {one.tgt}" for one in self.directions())
        text = tr("{} → {}: no model here does that; there are {}", src or "?", tgt, there)
        raise Refused(400, text)

    async def translate(
        self,
        texts: Sequence[str],
        direction: Direction,
        *,
        n_best: int = 1,
        terms: Terms = (),
        words: bool = False,
    ) -> list[Translated]:
        """Each text, its lines apart.

        Raises:
            Refused: too much waits, it takes too long, or it cannot be translated.
        """
        texts = list(map(well_formed, texts))
        call = Call("translate", direction.model, direction.tgt, n_best, terms, words)
        whole, *divided = await _all(
            self._translate_cached(call, [text for text in texts if "\n" not in text]),
            *(self._lines(text, direction, terms) for text in texts if "\n" in text),
        )
        answers, lines = iter(whole), chain.from_iterable(divided)
        return [next(lines if "\n" in text else answers) for text in texts]

    async def _lines(self, text: str, direction: Direction, terms: Terms) -> list[Translated]:
        lines: list[Translated] = []
        work = self.document(text.encode(), "text", direction, terms=terms, tell=lines.append)
        whole = (await work).decode()
        faults, notes = (
            tuple(dict.fromkeys(chain.from_iterable(of_each)))
            for of_each in ([one.faults for one in lines], [one.notes for one in lines])
        )
        return [Translated(whole, faults=faults, notes=notes)]

    async def _translate_cached(self, call: Call, texts: Sequence[str]) -> list[Translated]:
        known: dict[str, Translated] = {}
        for text in dict.fromkeys(texts):
            if (call, text) in self._cache:
                self._cache.move_to_end((call, text))
                known[text] = self._cache[call, text]
        missing = [text for text in dict.fromkeys(texts) if text not in known]
        n_terms = sum(map(len, chain.from_iterable(call.terms)))
        for text, answer in zip(missing, await self.ask(call, missing), strict=True):
            known[text] = answer
            if len(text) + n_terms <= _LONGEST_CACHED:
                self._cache[call, text] = answer
        while len(self._cache) > self._most_cached:
            self._cache.popitem(last=False)
        self.n_characters += sum(map(len, texts))
        self.n_cached += len(texts) - len(missing)
        return [known[text] for text in texts]

    async def ask(self, call: Call, texts: Sequence[str]) -> list[Any]:
        """The workers' answer to each text; see `Answerer.answer`, and `translate` for errors."""
        if not texts:
            return []
        since = time.monotonic()
        waiting = [Waiting(call, text, since) for text in texts]
        try:
            self.pool.queue.put(waiting)
            async with self.in_time(since):
                return await _all(*(asyncio.wrap_future(one.answer) for one in waiting))
        except QueueFull as error:
            text = tr("too many requests wait; try again in {} s", error.retry_after)
            raise Refused(429, text, error.retry_after) from error
        except Broken as error:
            raise Refused(500, tr("this text could not be translated")) from error
        except TmtError as error:
            raise Refused(400, str(error)) from error
        finally:
            for one in waiting:
                one.dropped = True  # or answered

    async def _insisting(
        self, ask: Callable[[], Awaitable[list[Result]]], *, is_begun: bool
    ) -> list[Result]:
        """Of a document; of one that is begun, also after a wait where others fill the queue."""
        while True:
            try:
                return await ask()
            except Refused as error:
                if error.status != 429 or not is_begun:
                    raise
            await asyncio.sleep(_BUSY_S)

    async def documents(
        self, texts: Sequence[str], form: Form, direction: Direction, *, terms: Terms = ()
    ) -> list[str]:
        """`document` for each of some texts."""
        works = (
            self.document(well_formed(text).encode(), form, direction, terms=terms)
            for text in texts
        )
        return [found.decode() for found in await _all(*works)]

    async def direction_of_document(
        self, content: bytes, form: Form | PackageForm, source: str, target: str
    ) -> Direction:
        """`direction`, by the text of a document where that must tell."""
        is_named = source.lower() != AUTO
        if is_named:
            return await self.direction((), source, target)
        texts = await self._in_thread(content, form, partial(_refusing()(texts_of), content, form))
        return await self.direction(texts, source, target)

    async def _in_thread(
        self, content: bytes, form: Form | PackageForm, work: Callable[[], Result]
    ) -> Result:
        """Of heavy documents few at once, also of those whose client has gone."""
        loop = asyncio.get_running_loop()
        run = partial(loop.run_in_executor, self._threads)
        async with self.in_time(time.monotonic()):
            if form not in PACKAGE_FORMS or await run(_weight, content) < _HEAVY:
                return await run(work)
            try:
                await asyncio.wait_for(self._heavy.acquire(), _HEAVY_WAIT_S)
            except TimeoutError as error:
                text = tr("too many requests wait; try again in {} s", 5)
                raise Refused(429, text, 5) from error
            future = self._threads.submit(work)
            future.add_done_callback(lambda _: loop.call_soon_threadsafe(self._heavy.release))
            return await asyncio.wrap_future(future)

    def _check_longest(self, texts: Sequence[str]) -> None:
        """A worker would have a text for minutes that is as long as many requests."""
        most = max(_LONGEST_SEGMENT, 4 * self.limits.characters)
        if (longest := max(map(len, texts), default=0)) > most:
            text = tr("a line or paragraph of {:,} characters; at most {:,}", longest, most)
            raise Refused(413, text)

    async def document(
        self,
        content: bytes,
        form: Form | PackageForm,
        direction: Direction,
        *,
        terms: Terms = (),
        tell: Callable[[Translated], object] = lambda _: None,
    ) -> bytes:
        """A translated document: only its text changes. `tell` gets the translation of each text.

        Raises:
            Refused: as `translate`, or it is not a document of that form.
        """
        loop, gone = asyncio.get_running_loop(), threading.Event()
        call = Call("translate", direction.model, direction.tgt, terms=terms)
        asked: list[Future[Any]] = []

        def wait_for(work: Coroutine[Any, Any, Any]) -> Any:
            asked[:] = [asyncio.run_coroutine_threadsafe(work, loop)]
            if gone.is_set():  # nobody waits for the document any more
                asked[0].cancel()
            return asked[0].result()

        end_of_marks = time.monotonic() + _FOR_MARKS * self.limits.answer_s

        def translated(texts: list[str]) -> list[str]:
            self._check_longest(texts)
            found: list[str] = []
            for start in range(0, len(texts), _SEGMENTS_AT_ONCE):
                part = texts[start : start + _SEGMENTS_AT_ONCE]
                ask = partial(self._translate_cached, call, part)
                answers = wait_for(self._insisting(ask, is_begun=start > 0))
                found += [one.text for one in answers]
                for one in answers:
                    tell(one)
            return found

        def aligned(text: str, translation: str) -> list[int] | None:
            ask = partial(self.ask, replace(call, does="align", against=translation), [text])
            work = self._insisting(ask, is_begun=True)
            try:
                return wait_for(asyncio.wait_for(work, end_of_marks - time.monotonic()))[0]
            except (Refused, TimeoutError):  # marks are placed by a guess, and nothing is lost
                return None

        work = partial(_refusing()(translate_content), content, form, translated, align=aligned)
        try:
            return await self._in_thread(content, form, work)
        finally:
            gone.set()
            for one in list(asked):
                one.cancel()


async def _all(*works: Awaitable[Result]) -> list[Result]:
    """The results; once a work fails, nobody waits for the others."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


@contextmanager
def _refusing() -> Iterator[None]:
    """What is no document of its form is the client's fault."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise Refused(400, tr("not UTF-8 text (byte {})", error.start + 1)) from error
    except DataError as error:
        raise Refused(400, str(error)) from error
    except RecursionError as error:
        raise Refused(400, tr("has elements in elements, too deep to be read")) from error


def _weight(content: bytes) -> int:
    """Bytes of XML in an archive, unpacked, and a sixteenth of others; 0: it is no archive."""
    with suppress(*ZIP_DAMAGE), zipfile.ZipFile(io.BytesIO(content)) as archive:
        files = archive.infolist()
        return sum(i.file_size // (1 if i.filename.endswith(".xml") else 16) for i in files)
    return 0
