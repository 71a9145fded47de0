"""What processes tell each other, in a real group of three, and alone."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from transformer_mt.system.processes.distributed import ALONE, joined_ranks
from transformer_mt.system.processes.environment import meeting_dir, place_variables

# Copies of a process that has loaded torch, since loading it takes most of their time.
SCRIPT = """
import json, os, sys, time
from pathlib import Path
import torch
from transformer_mt.system.processes.distributed import joined_ranks

directory, places = Path(sys.argv[1]), json.loads(sys.argv[2])
for place in places:
    if os.fork() == 0:
        os.environ.update(place)
        break
else:
    sys.exit(any([os.wait()[1] for _ in places]))
with joined_ranks() as ranks:
    me = ranks.rank
    torch.optim.AdamW([torch.nn.Parameter(torch.ones(1))])  # loads functions that keep a group
    later, copied = torch.full((5,), float(me + 1)), torch.tensor([float(me + 7)])
    ranks.start_sum(later)()
    ranks.copy_from_main(copied)
    share = ranks.share(range(10))
    found = {
        "size": ranks.size,
        "is_main": ranks.is_main,
        "sum": ranks.sum(torch.tensor([1.0, float(me)])).tolist(),
        "start_sum": later.tolist(),
        "copy_from_main": copied.tolist(),
        "told_by_main": ranks.told_by_main({"rank": me}),
        "gather": ranks.gather(["x" * me, 0.1 * me, None, float("inf")]),
        "share": list(share),
        "join_shares": ranks.join_shares([10 * item for item in share]),
    }

    def work():
        before = sorted(path.name for path in directory.glob("turn*"))
        time.sleep(0.2)
        (directory / f"turn{me}").touch()
        return before

    found["in_turn"] = ranks.in_turn(work)
    if me != 1:  # which has gone, once it has left the group
        try:
            ranks.sum(torch.zeros(1))
        except Exception as error:
            found["error"] = [type(error).__name__, str(error)]
found["threads"] = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
(directory / f"{me}.json").write_text(json.dumps(found))
"""


def test_three_processes_of_which_one_goes(tmp_path: Path) -> None:
    with meeting_dir() as folder:
        places = json.dumps([place_variables(rank, 3, folder) for rank in range(3)])
        subprocess.run([sys.executable, "-c", SCRIPT, tmp_path, places], check=True, timeout=300)
    found = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(3)]
    for rank, told in enumerate(found):
        assert (told["size"], told["is_main"]) == (3, rank == 0)
        assert told["sum"] == [3.0, 3.0]
        assert told["start_sum"] == [6.0] * 5
        assert told["copy_from_main"] == [7.0]
        assert told["told_by_main"] == {"rank": 0}
        assert told["gather"] == [["x" * me, 0.1 * me, None, float("inf")] for me in range(3)]
        assert told["share"] == list(range(10))[rank::3]
        assert told["join_shares"] == [10 * item for item in range(10)]
        threads = [name for name in told["threads"] if "gloo_runloop" in name]
        assert not threads, "they would let go of tensors while Python ends, which aborts"
    assert found[0]["in_turn"] == [], "the first one of all comes first"
    assert all("turn0" in told["in_turn"] for told in found[1:])
    for name, message in (found[0]["error"], found[2]["error"]):
        assert name == "LostProcess", "whoever is left is not the cause"
        assert message.startswith("another process of this training has ended")


def test_one_process_is_a_group_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with joined_ranks() as ranks:
        assert ranks is ALONE
    assert not torch.distributed.is_initialized()
    tensor = torch.tensor([2.0])
    assert ALONE.sum(tensor) is tensor and tensor.item() == 2
    ALONE.start_sum(tensor)()
    ALONE.copy_from_main(tensor)
    assert tensor.item() == 2
    assert ALONE.gather("x") == ["x"] and ALONE.told_by_main("x") == "x"
    assert ALONE.in_turn(lambda: 3) == 3
    assert ALONE.join_shares(ALONE.share("abc")) == ["a", "b", "c"]
