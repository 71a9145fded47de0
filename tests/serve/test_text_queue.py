"""No text is lost or answered twice; batches are alike, of few sizes, and nobody waits for ever."""

import threading
import time
from collections import Counter
from types import SimpleNamespace

import pytest
from served import until

from transformer_mt.serve import text_queue
from transformer_mt.serve.jobs import Call, Waiting
from transformer_mt.serve.text_queue import SIZES, QueueFull, TextQueue

EN, DE = Call("translate", 0, "en"), Call("translate", 1, "de")


def waiting(text: str, call: Call = EN, age: float = 0.0) -> Waiting:
    return Waiting(call, text, time.monotonic() - age)


def queue_of(*texts: Waiting, wait_s: float = 0.0, most: int = 10**9) -> TextQueue:
    queue = TextQueue(most_characters=most, wait_s=wait_s)
    queue.put(texts)
    return queue


def test_many_clients_and_workers() -> None:
    """Each text comes out once, in batches of one call and of the allowed sizes."""
    queue = TextQueue(most_characters=10**9, wait_s=0.001)
    batches: list[list[Waiting]] = []

    def work() -> None:
        while batch := queue.take(60):
            batches.append(batch)

    def ask(client: int) -> None:
        for i in range(50):
            queue.put([waiting(f"{client}.{i}" * (i % 7 + 1), (EN, DE)[(client + i) % 2])])

    workers = [threading.Thread(target=work) for _ in range(3)]
    clients = [threading.Thread(target=ask, args=(client,)) for client in range(8)]
    for thread in (*workers, *clients):
        thread.start()
    for client in clients:
        client.join()
    until(lambda: len(queue) == 0)
    queue.close()
    for worker in workers:
        worker.join(5)
    texts = Counter(text.text for batch in batches for text in batch)
    assert len(texts) == 400 and set(texts.values()) == {1}
    assert all(len({text.call for text in batch}) == 1 for batch in batches)
    assert {len(batch) for batch in batches} <= set(SIZES)


def test_the_shortest_go_first_but_who_has_waited_for_long_goes_before() -> None:
    long = "x" * text_queue.MOST_CHARACTERS
    queue = queue_of(waiting(long), *(waiting("short") for _ in range(40)))
    assert {text.text for text in queue.take(60)} == {"short"}
    queue = queue_of(
        waiting(long, age=2 * text_queue.FAIR_S), *(waiting("short") for _ in range(40))
    )
    assert [text.text for text in queue.take(60)] == [long]


def test_a_text_waits_for_others_only_if_it_would_take_the_last_free_worker() -> None:
    queue = TextQueue(most_characters=10**9, wait_s=60.0)
    batches: list[list[Waiting]] = []
    workers = [
        threading.Thread(target=lambda: batches.append(queue.take(120)), daemon=True)
        for _ in range(2)
    ]
    for worker in workers:
        worker.start()
    until(lambda: queue._n_free == 2)
    queue.put([waiting("alone")])
    until(lambda: len(batches) == 1)
    assert [text.text for text in batches[0]] == ["alone"]
    queue.put([waiting("first")])
    time.sleep(0.2)
    assert len(batches) == 1
    queue.put([waiting(str(i)) for i in range(SIZES[-1] - 1)])
    for worker in workers:
        worker.join(30)
    assert len(batches[1]) == SIZES[-1]


def test_a_lonely_text_waits_as_long_as_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that goes on only while somebody waits, however slow the machine is."""
    now, queue = 0.0, queue_of(Waiting(EN, "one", 0.0), wait_s=0.1)

    def wait(longest: float) -> None:
        nonlocal now
        if len(queue) == 1:
            queue.put([Waiting(EN, "two", now)])
            longest = 0.03
        now += longest

    monkeypatch.setattr(text_queue, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(queue._changed, "wait", wait)
    assert [text.text for text in queue.take(60)] == ["one", "two"]
    assert now == pytest.approx(0.1)


def test_a_full_batch_does_not_wait() -> None:
    queue = queue_of(*(waiting(str(i)) for i in range(SIZES[-1])), wait_s=60.0)
    assert len(queue.take(60)) == SIZES[-1]


def test_it_is_bounded() -> None:
    queue = queue_of(waiting("x" * 60), most=100)
    with pytest.raises(QueueFull) as full:
        queue.put([waiting("y" * 50)])
    assert full.value.retry_after >= 1 and len(queue) == 1
    queue.put([waiting("y" * 40)])
    TextQueue(most_characters=10, wait_s=0).put([waiting("alone, it always has room")])


def test_the_texts_of_a_dead_worker_come_first_each_alone() -> None:
    queue = queue_of(waiting("later"))
    lost = [waiting("a"), waiting("b")]
    for text in lost:
        assert text.is_wanted()
        text.deaths = 1
    queue.put_back(lost)
    assert [[text.text for text in queue.take(60)] for _ in range(3)] == [["a"], ["b"], ["later"]]


def test_nobody_translates_for_a_client_that_has_gone() -> None:
    gone = waiting("gone")
    queue = queue_of(gone, waiting("here"))
    gone.answer.cancel()
    assert [text.text for text in queue.take(60)] == ["here"]


def test_nobody_translates_for_who_has_gone_while_a_worker_had_the_text() -> None:
    """The worker has died of it: it is neither given to another one, nor does it take room."""
    gone = waiting("x" * 60)
    assert gone.is_wanted(), "a worker takes it"
    gone.dropped = True
    queue = queue_of(waiting("here"), most=100)
    queue.put_back([gone])
    assert [text.text for text in queue.take(60)] == ["here"]
    queue.put_back([gone])
    queue.put([waiting("y" * 50)])
    assert len(queue) == 1


def test_who_has_gone_takes_no_room() -> None:
    gone = waiting("x" * 60)
    queue = queue_of(gone, most=100)
    gone.answer.cancel()
    queue.put([waiting("y" * 50)])
    assert len(queue) == 1
