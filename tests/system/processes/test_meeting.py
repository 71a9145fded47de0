"""How processes of several machines meet: on a store that may hold what earlier starts left."""

import os
import subprocess
import sys
import threading
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist

from transformer_mt.errors import TrainingError, TrainingStopped
from transformer_mt.system.processes import distributed
from transformer_mt.system.processes.distributed import Ranks, _name_of_start, joined_ranks
from transformer_mt.system.processes.environment import Place

RANK = """
from transformer_mt.system.processes.distributed import joined_ranks
import torch
with joined_ranks() as ranks:
    print(ranks.sum(torch.ones(1)).item())
"""


def meeting(store: dist.Store, size: int) -> list[str]:
    """The name that each of the ranks has for their start."""
    names: dict[int, str] = {}

    def meet(rank: int) -> None:
        names[rank] = _name_of_start(Place(rank, size, rank, size, None), store)

    threads = [threading.Thread(target=meet, args=[rank], daemon=True) for rank in range(size)]
    for thread in reversed(threads):  # the first comes last
        thread.start()
    for thread in threads:
        thread.join(30)
    return [names[rank] for rank in range(size)]


def test_each_start_has_a_name_of_its_own() -> None:
    store = dist.HashStore()
    store.set_timeout(timedelta(seconds=30))
    store.set("comes/1", "left by one that died before it was answered")
    first, second, smaller = (meeting(store, size) for size in (3, 3, 2))
    assert len({*first}) == len({*second}) == len({*smaller}) == 1
    assert len({first[0], second[0], smaller[0]}) == 3


def test_machines_that_count_their_restarts_differently_meet() -> None:
    """As of torchrun: one has seen its process die, the other only that a machine came back."""
    server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    shared = {
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(server.port), "WORLD_SIZE": "2",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }  # fmt: skip
    for rank in range(2):  # of an earlier start
        server.set(f"comes/{rank}", f"left by {rank}")
        server.set(f"answer/left by {rank}", "an earlier name")
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RANK],
            env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": "0",
                 "TORCHELASTIC_RESTART_COUNT": str(1 - rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    assert [rank.communicate(timeout=120)[0] for rank in ranks] == ["2.0\n", "2.0\n"]


def test_a_machine_without_its_gpu_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def gather(_: Ranks, own: Any) -> list[Any]:
        return [own, ["other", "GPU"]]

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(Ranks, "gather", gather)
    with pytest.raises(TrainingError, match=r"see a GPU.*: CPU, other: GPU|other: GPU.*: CPU"):
        distributed._refuse_differing_devices(Ranks(0, 2))
    monkeypatch.setattr(Ranks, "gather", lambda _, own: [own, own])
    distributed._refuse_differing_devices(Ranks(0, 2))


@pytest.mark.parametrize(
    ("gpu", "error", "left"),
    [
        (True, None, 1), (True, TrainingStopped("stopped"), 1), (True, OSError("disk full"), 0),
        (False, OSError("disk full"), 1),
    ],
)  # fmt: skip
def test_an_error_does_not_wait_for_the_others_on_gpus(
    monkeypatch: pytest.MonkeyPatch, gpu: bool, error: Exception | None, left: int
) -> None:
    """NCCL's end of a group waits for processes that wait for this one."""
    calls: list[str] = []
    monkeypatch.setattr(distributed, "own_place", lambda: Place(0, 2, 0, 2, None))
    for name in ("_join", "end_silent_connections", "_refuse_differing_devices"):
        monkeypatch.setattr(distributed, name, lambda *_: None)
    monkeypatch.setattr(distributed, "_name_of_start", lambda *_: "name")
    store = iter([(dist.HashStore(), 0, 2)])
    monkeypatch.setattr(distributed, "rendezvous", lambda *_, **__: store)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", lambda _: None)
    monkeypatch.setattr(dist, "destroy_process_group", lambda: calls.append("left"))
    try:
        with joined_ranks():
            if error is not None:
                raise error
    except (OSError, TrainingStopped) as raised:
        assert raised is error
    assert len(calls) == left
