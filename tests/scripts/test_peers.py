"""`scripts/peers/`: what is counted, how runs are watched, and the arithmetic of the table.

Nothing is installed here; the peers that need an environment of their own are not run.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import naive_driver
import pytest
import summary
import tools
import update_log
import watch
from places import ROOT

from transformer_mt.config.experiment import TrainConfig, load_config
from transformer_mt.encoding.tokenizer import Tokenizer
from transformer_mt.model_dir import tokenizer_paths


def updates(*pairs: tuple[float, float]) -> list[Any]:
    return [watch.Update(seconds, tgt) for seconds, tgt in pairs]


def run_of(label: str, tgt_tokens_per_s: float) -> Any:
    return summary.Rates(label, label.split()[1], 1.0, tgt_tokens_per_s, 5.0, 900.0)


def in_rounds(**speeds: list[float]) -> list[list[Any]]:
    """Rounds of runs; `hf_bf16=[1, 2]` is the run "hf bf16" in two rounds."""
    columns = [[run_of(name.replace("_", " "), s) for s in row] for name, row in speeds.items()]
    return [list(runs) for runs in zip(*columns, strict=True)]


# Reading updates


def test_drivers_and_tmt_tell_the_same_updates_in_their_own_ways(tmp_path: Path) -> None:
    ends, tokens = [100.0, 102.0, 102.5, 106.0], [300, 310, 290, 305]
    ours = [{"event": "train", "update": 1, "minutes": 0.1, "tgt_tokens_per_s": 7.0}]
    for before, end, n in zip(ends, ends[1:], tokens[1:], strict=False):
        minutes, speed = (end - 100) / 60 + 0.1, n / (end - before)
        ours.append({"event": "train", "minutes": minutes, "tgt_tokens_per_s": speed})
    ours.insert(2, {"event": "validation", "bleu": 1.0, "minutes": 0.2})
    log = update_log.UpdateLog(str(tmp_path / "updates.jsonl"))
    for n in tokens:
        log.count(n - 200, n - 100)  # an update of two batches
        log.count(150, 100)
        log.end_update()
    theirs = watch.read_updates(tmp_path / "updates.jsonl")
    assert [(u.src, u.tgt) for u in theirs] == [(n - 50, n) for n in tokens]
    read = list(watch.parse_updates(iter(ours)))
    expected = list(
        watch.parse_updates(
            {"time": end, "src": None, "tgt": n} for end, n in zip(ends, tokens, strict=True)
        )
    )
    assert [u.seconds for u in read] == pytest.approx([u.seconds for u in expected])
    assert [u.tgt for u in read[1:]] == pytest.approx(tokens[1:])


def test_a_line_that_is_still_being_written_waits(tmp_path: Path) -> None:
    path = tmp_path / "updates.jsonl"
    assert watch.read_updates(path) == []
    whole = json.dumps({"time": 5.0, "src": 1, "tgt": 2}) + "\n"
    path.write_text(whole + whole[: len(whole) // 2])
    assert len(watch.read_updates(path)) == 1


@pytest.mark.parametrize(
    ("made", "measured", "why"),
    [
        ([(0, 9)] * 2, None, "only the warm-up so far"),
        ([(0, 9), (9, 9), (9, 9)], None, "long enough, but one update only"),
        ([(0, 9), (9, 9), (1, 9), (1, 9)], None, "the warm-up's seconds do not count"),
        ([(0, 9), (9, 9), (2, 9), (4, 9)], [(2, 9), (4, 9)], "both are met"),
    ],
)
def test_window(made: list[Any], measured: list[Any] | None, why: str) -> None:
    found = watch.Window(warmup=2, seconds=5, updates=2).of(updates(*made))
    assert found == (None if measured is None else updates(*measured)), why


# Counting tokens


def test_real_tokens_are_those_of_the_text_with_eos(
    tokenizer_dir: Path, toy_pairs: list[tuple[str, str]], tmp_path: Path
) -> None:
    model_path = tokenizer_paths(tokenizer_dir, joint=True)[0]
    pieces = naive_driver.SentencePieceProcessor(model_file=str(model_path))
    sides = []
    for side in (0, 1):
        path = tmp_path / f"text.{side}"
        path.write_text("".join(pair[side] + "\n" for pair in toy_pairs[:9]), encoding="utf-8")
        sides.append(naive_driver.read_side(str(path), pieces, bos=side == 1))
    src, tgt = naive_driver.pad(list(zip(*sides, strict=True)))
    expected = [
        sum(len(ids) + 1 for ids in Tokenizer.load(model_path).encode(texts))
        for texts in zip(*toy_pairs[:9], strict=True)
    ]
    counted = [update_log.count_real(ids, naive_driver.PAD) for ids in (src, tgt[1:])]
    assert counted == expected
    assert src.numel() > counted[0]  # there was padding to leave out


# Arithmetic


def test_a_run_counts_as_the_median_of_its_updates() -> None:
    observed = watch.Observed(updates((1, 100), (10, 100), (0.5, 100)), 3.0, 50.0)
    rates = summary.rates("tmt fp32", "fp32", observed, 0.8)
    assert rates.tgt_tokens_per_s == 100
    assert rates.src_tokens_per_s == pytest.approx(80)
    told = watch.Observed([watch.Update(2.0, 100, 70)], 3.0, 50.0)
    assert summary.rates("hf fp32", "fp32", told, 0.8).src_tokens_per_s == 35


def test_ratios_are_taken_within_rounds() -> None:
    """The machine slowed down between the two tools of round two; medians of columns mislead."""
    rounds = in_rounds(tmt_fp32=[100, 50, 300], joeynmt_fp32=[10, 5, 30])
    assert summary.ratio(rounds, "tmt fp32", "joeynmt fp32") == 10
    rounds[1] = rounds[1][:1]  # the peer failed in this round
    rounds[2] = in_rounds(tmt_fp32=[300], joeynmt_fp32=[10])[0]
    assert summary.ratio(rounds, "tmt fp32", "joeynmt fp32") == 20


def test_verdicts_compare_our_fastest_with_each_peer_in_its_better_precision() -> None:
    rounds = in_rounds(tmt_bf16=[80], **{"tmt-2p_bf16": [100]}, hf_fp32=[10], hf_bf16=[20],
                       **{"hf-malloc_fp32": [50]})  # fmt: skip
    lines = summary.verdicts(rounds, {"fp32": 1.0, "bf16": 4.0}, flops=1e7)
    assert [line.partition(":")[0] for line in lines] == [
        "tmt-2p bf16 / hf bf16",
        "tmt-2p bf16 / hf-malloc fp32",
    ]
    # A peak of 4 GFLOP/s is 400 tokens/s of 10 MFLOP each.
    assert lines[0].endswith("5.00; at 100 % of the bf16 peak it would be 20.0")
    assert summary.verdicts(in_rounds(hf_fp32=[10]), {"fp32": 1.0}, 1e7) == []


def test_table_has_a_row_per_run_and_the_share_of_the_peak_in_its_own_precision() -> None:
    rounds = in_rounds(tmt_bf16=[80, 90, 70], naive_fp32=[20, 20, 10])
    head, _, ours, naive = summary.table(rounds, {"fp32": 1.0, "bf16": 4.0}, flops=1e7)
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in (head, ours, naive)]
    rows = [dict(zip(cells[0], row, strict=True)) for row in cells[1:]]
    assert [row["run"] for row in rows] == ["tmt bf16", "naive fp32"]
    assert [row["tgt tok/s"] for row in rows] == ["80", "20"]
    assert [row["of peak"] for row in rows] == ["20.0%", "20.0%"]
    assert [row["tmt bf16 ÷ it"] for row in rows] == ["1.00", "4.50"]


@pytest.mark.parametrize(
    ("tool", "bf16_pays", "expected"),
    [
        ("tmt-2p", True, ["bf16"]),
        ("joeynmt", True, ["fp32"]),
        ("hf-malloc", True, ["fp32", "bf16"]),
        ("naive", False, ["fp32"]),
    ],
)
def test_precisions(tool: str, bf16_pays: bool, expected: list[str]) -> None:
    assert tools.precisions(tool, "bf16", bf16_pays) == expected


# Starting and watching


@pytest.fixture
def bench(tmp_path: Path) -> Any:
    files = tmp_path / "train.en", tmp_path / "train.de"
    small = tools.Size(d_model=16, heads=2, ffn=16, layers=1, dropout=0.1)
    scale = replace(tools.SCALES["tiny"], model=small)
    return tools.Bench(tmp_path, tmp_path / "venvs", *files, None, scale)


def test_tmt_is_started_with_a_valid_configuration_of_the_same_size(bench: Any) -> None:
    command, updates_path = bench.start_of("tmt-2p", "fp32")
    assert command[-2:] == ["--processes", "2"]
    cfg = load_config(Path(command[command.index("train") + 1]))
    size = bench.scale.model
    assert (cfg.model.d_model, cfg.model.encoder_layers) == (size.d_model, size.layers)
    assert (cfg.model.norm, cfg.train.label_smoothing, cfg.tokenizer.joint) == ("post", 0.1, True)
    assert cfg.train.log_every == 1
    assert cfg.train.tokens_per_update == TrainConfig().tokens_per_update  # as it comes
    assert updates_path == bench.run_dir / "metrics.jsonl"
    command, _ = bench.start_of("tmt-short", "fp32")
    assert command[-2:] == ["--set", f"train.tokens_per_update={bench.scale.short_update}"]


def test_the_naive_driver_trains_until_its_window_is_full(
    bench: Any, tokenizer_dir: Path, toy_pairs: list[tuple[str, str]]
) -> None:
    clean_dir = bench.run_dir / "data" / "clean"
    clean_dir.mkdir(parents=True)
    for side, name in enumerate(("src", "tgt")):
        text = "".join(pair[side] + "\n" for pair in toy_pairs)
        (clean_dir / f"train.{name}").write_text(text, encoding="utf-8")
    bench.tokenizer_path.parent.mkdir()
    tokenizer = tokenizer_paths(tokenizer_dir, joint=True)[0]
    bench.tokenizer_path.write_bytes(tokenizer.read_bytes())
    command, updates_path = bench.start_of("naive", "fp32")
    observed = watch.observe(
        command,
        environment=tools.environment(),
        updates_path=updates_path,
        output_path=bench.work_dir / "naive.log",
        window=watch.Window(warmup=1, seconds=0, updates=2),
    )
    n_tokens = sum(
        len(ids) + 1 for ids in Tokenizer.load(tokenizer).encode([tgt for _, tgt in toy_pairs])
    )
    per_epoch = [u.tgt for u in watch.read_updates(updates_path)][:2]  # 128 + 72 sentences
    assert sum(per_epoch) == n_tokens
    assert all(update.seconds > 0 for update in observed.updates)
    assert observed.first_update_s > 0


def started_family(tmp_path: Path, body: str) -> Callable[[], Any]:
    """Watch a process that has a child; `body` is what the process does then."""
    child = "held = bytearray(96 << 20); import time; print('up', flush=True); time.sleep(60)"
    script = f"""
import json, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", {child!r}], stdout=subprocess.PIPE)
child.stdout.readline()
{body}
"""

    def observe() -> Any:
        return watch.observe(
            [sys.executable, "-c", script],
            environment=tools.environment(),
            updates_path=tmp_path / "updates.jsonl",
            output_path=tmp_path / "output.log",
            window=watch.Window(warmup=0, seconds=0, updates=1),
        )

    return observe


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="processes are read from /proc")
def test_memory_is_that_of_all_processes_and_none_is_left(tmp_path: Path) -> None:
    body = f"""
with open({str(tmp_path / "updates.jsonl")!r}, "w") as file:
    print(json.dumps(dict(time=time.time(), src=1, tgt=child.pid)), file=file)
time.sleep(60)
"""
    observed = started_family(tmp_path, body)()
    assert 96 < observed.peak_rss_mib < 400
    child = Path("/proc", str(int(observed.updates[0].tgt)), "cmdline")
    deadline = time.monotonic() + 5
    while child.exists() and child.read_bytes() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not child.exists() or not child.read_bytes()  # gone, or a zombie


def test_a_run_that_ends_by_itself_says_what_it_said(tmp_path: Path) -> None:
    with pytest.raises(watch.RunFailed, match=r"exit status 3 after 0 updates(.|\n)*no such thing"):
        started_family(tmp_path, "child.kill(); print('no such thing'); sys.exit(3)")()


def test_the_allocator_settings_load_where_only_torch_is() -> None:
    """The driver of Hugging Face takes them from tmt, in an environment without tmt's packages."""
    code = (
        "import sys\nfor name in ('pydantic', 'typer', 'rich', 'sacrebleu'):\n"
        "    sys.modules[name] = None\n"
        "from transformer_mt.system.device import keep_memory\nkeep_memory()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_driver_and_its_requirements_are_there() -> None:
    for driver, venv in tools.DRIVERS.values():
        assert (tools.HERE / driver).is_file()
        pins = [] if venv is None else (tools.HERE / f"{venv}.txt").read_text().split("\n")
        named = [line.partition("#")[0].strip() for line in pins]
        assert all("==" in pin for pin in named if pin)
