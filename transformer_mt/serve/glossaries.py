"""Glossaries that clients have made: kept in a database, so that several servers share them."""

import asyncio
import logging
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Double, Select, String, Text, create_engine, delete, func, make_url, select
from sqlalchemy.exc import InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.pool import StaticPool

from transformer_mt.errors import DataError, TmtError
from transformer_mt.messages.catalogue import tr
from transformer_mt.serve.jobs import Terms
from transformer_mt.serve.limits import Refused
from transformer_mt.text.normalise import well_formed
from transformer_mt.translation.glossary import Glossary, Term

Result = TypeVar("Result")
_MOST_AT_ONCE, _PATIENCE_S = 4, 30.0  # questions to the database
_log = logging.getLogger(__name__)

MOST_ENTRIES = 5000  # of a glossary
MOST_GLOSSARIES, MOST_CHARACTERS = 1000, 16 << 20  # of an owner


class _Table(DeclarativeBase):
    pass


class _Row(_Table):
    __tablename__ = "glossaries"
    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    owner: Mapped[str] = mapped_column(String(200), index=True)
    name: Mapped[str] = mapped_column(Text)
    src: Mapped[str] = mapped_column(String(20))
    tgt: Mapped[str] = mapped_column(String(20))
    created: Mapped[float] = mapped_column(Double)
    entries: Mapped[str] = mapped_column(Text)  # source, tab, target; a line each


@dataclass(frozen=True)
class StoredGlossary:
    id: str
    name: str
    src: str
    tgt: str
    created: float  # seconds since 1970
    terms: Terms


class Glossaries:
    """A table of a database; an owner sees only his own. Threads may share it.

    Every method may raise `Refused`: the database cannot be reached.
    """

    def __init__(self, url: str = "sqlite://") -> None:
        """
        Args:
            url: as SQLAlchemy takes it; `sqlite://` is memory alone.
        Raises:
            TmtError: no such database can be had.
        """
        alone: dict[str, Any] = {
            "poolclass": StaticPool, "connect_args": {"check_same_thread": False}
        }  # fmt: skip
        try:
            parsed = make_url(url)
            is_sqlite = parsed.get_backend_name() == "sqlite"
            in_memory = is_sqlite and parsed.database in (None, "", ":memory:")
            self._engine = create_engine(url, **(alone if in_memory else {"pool_pre_ping": True}))
            try:
                _Table.metadata.create_all(self._engine)
            except SQLAlchemyError:  # another server may have made the table at this moment
                _Table.metadata.create_all(self._engine)
        except (SQLAlchemyError, ImportError) as error:
            reason = str(error).partition("\n")[0]
            shown = re.sub("(//[^/@]*:)[^/@]*@", r"\1***@", url)  # without the password
            raise TmtError(tr("--glossaries {}: {}", shown, reason)) from error
        self._one_at_a_time = threading.Lock() if in_memory else nullcontext()
        self._threads = ThreadPoolExecutor(_MOST_AT_ONCE)  # others do not wait for the database

    @contextmanager
    def _session(self) -> Iterator[Session]:
        try:
            with (
                self._one_at_a_time,
                Session(self._engine, expire_on_commit=False) as session,
                session.begin(),
            ):
                yield session
        except (OperationalError, InterfaceError, PoolTimeout) as error:
            _log.error("glossaries: %s", str(error).partition("\n")[0])
            raise Refused(503, tr("the glossaries cannot be reached"), 5) from error

    async def ask(self, method: Callable[..., Result], *arguments: Any) -> Result:
        """Call a method of this object, in a thread."""
        work = partial(method, *arguments)
        try:
            loop = asyncio.get_running_loop()
            return await asyncio.wait_for(loop.run_in_executor(self._threads, work), _PATIENCE_S)
        except TimeoutError as error:
            raise Refused(503, tr("the glossaries cannot be reached"), 5) from error

    def add(self, owner: str, name: str, src: str, tgt: str, terms: Terms) -> StoredGlossary:
        """Raises: Refused: too many entries, or a term with two translations."""
        if not terms or len(terms) > MOST_ENTRIES:
            raise Refused(400, tr("a glossary has 1 to {:,} entries", MOST_ENTRIES))
        check_terms(terms)
        entries = _storable("\n".join("\t".join(term) for term in terms))
        row = _Row(
            id=str(uuid.uuid4()), owner=owner, name=_storable(name), src=src, tgt=tgt,
            created=time.time(), entries=entries,
        )  # fmt: skip
        with self._session() as session:
            size = func.coalesce(func.sum(func.char_length(_Row.entries)), 0)
            found = session.execute(select(func.count(), size).where(_Row.owner == owner)).one()
            if found[0] >= MOST_GLOSSARIES:
                raise Refused(400, tr("{:,} glossaries are the most", MOST_GLOSSARIES))
            if found[1] + len(entries) > MOST_CHARACTERS:
                raise Refused(
                    400, tr("glossaries of {:,} characters are the most", MOST_CHARACTERS)
                )
            session.add(row)
        return _stored(row)

    def all(self, owner: str) -> list[StoredGlossary]:
        with self._session() as session:
            return list(map(_stored, session.scalars(_of(owner).order_by(_Row.created))))

    def get(self, owner: str, id_: str) -> StoredGlossary:
        """Raises: Refused: there is none."""
        with self._session() as session:
            row = session.scalars(_of(owner).where(_Row.id == _storable(id_))).one_or_none()
        if row is None:
            raise Refused(404, tr("there is no glossary {}", id_[:40]))
        return _stored(row)

    def delete(self, owner: str, id_: str) -> None:
        """Raises: Refused: there is none."""
        self.get(owner, id_)
        with self._session() as session:
            session.execute(delete(_Row).where(_Row.owner == owner, _Row.id == id_))


def _storable(text: str) -> str:
    """As every database takes it: PostgreSQL knows no NUL."""
    return well_formed(text).replace("\0", "\ufffd")


def check_terms(terms: Terms) -> None:
    """Raises: Refused: what `Glossary` does not take."""
    try:
        Glossary(Term(src, tgt or None, line) for line, (src, tgt) in enumerate(terms, start=1))
    except DataError as error:
        raise Refused(400, str(error)) from error


def _of(owner: str) -> Select[_Row]:
    return select(_Row).where(_Row.owner == owner)


def _stored(row: _Row) -> StoredGlossary:
    terms = tuple(
        (src, tgt) for src, _, tgt in (e.partition("\t") for e in row.entries.split("\n"))
    )
    return StoredGlossary(row.id, row.name, row.src, row.tgt, row.created, terms)
