"""Memory of the machine and of the container that this process may be in."""

import os
from pathlib import Path

import pytest

from transformer_mt.system import machine
from transformer_mt.system.machine import (
    available_memory_bytes,
    cpu_flags,
    total_memory_bytes,
    usable_cores,
)

MIB = 1 << 20


def write_tree(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")


V2, V1, V1_CPU = "sys/fs/cgroup", "sys/fs/cgroup/memory", "sys/fs/cgroup/cpu"


def group(directory: str, limit: str, usage: int, cache: int = 0) -> dict[str, str]:
    """The files of one control group, in MiB."""
    in_bytes = limit if limit == "max" else str(int(limit) * MIB)
    if directory.startswith(V1):
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    else:
        names = ("memory.max", "memory.current", "inactive_file")
    return {
        f"{directory}/{names[0]}": in_bytes,
        f"{directory}/{names[1]}": str(usage * MIB),
        f"{directory}/memory.stat": f"anon 5\n{names[2]} {cache * MIB}",
    }


@pytest.mark.parametrize(
    ("membership", "groups", "expected_mib", "why"),
    [
        ("", {}, 8000, "no control groups"),
        ("0::/", {}, 8000, "the root group has no limit"),
        ("0::/a", group(f"{V2}/a", "max", 100), 8000, "unlimited"),
        ("0::/a", group(f"{V2}/a", "1000", 300), 700, "what is left"),
        ("0::/a", group(f"{V2}/a", "1000", 900, 500), 600, "file cache makes way"),
        ("0::/a", group(f"{V2}/a", "20000", 300), 8000, "the machine has less"),
        ("0::/a", group(f"{V2}/a", "1000", 1200), 0, "over the limit"),
        (
            "0::/a/b",
            group(f"{V2}/a", "1000", 300) | group(f"{V2}/a/b", "max", 100),
            700,
            "the group around it",
        ),
        ("0::/", group(V2, "1000", 300), 700, "in a container"),
        ("3:cpu,memory:/a", group(f"{V1}/a", "1000", 300, 100), 800, "version 1"),
        ("3:memory:/docker/0af", group(V1, "1000", 300), 700, "version 1 in a container"),
        ("3:cpu:/a", group(f"{V1}/a", "1000", 300), 8000, "another controller"),
        (
            "3:memory:/a\n0::/",
            group(f"{V1}/a", str((2**63 - 4096) // MIB), 300),
            8000,
            "version 1 without a limit",
        ),
    ],
)
def test_available_memory(
    tmp_path: Path, membership: str, groups: dict[str, str], expected_mib: int, why: str
) -> None:
    write_tree(
        tmp_path,
        {
            "proc/meminfo": f"MemTotal: 9999999 kB\nMemAvailable: {8000 << 10} kB",
            "proc/self/cgroup": membership,
            **groups,
        },
    )
    if not membership:
        (tmp_path / "proc/self/cgroup").unlink()
    assert available_memory_bytes(tmp_path) == expected_mib * MIB, why


@pytest.mark.parametrize(
    ("membership", "files", "expected"),
    [
        ("0::/", {}, None),
        ("0::/a", {f"{V2}/a/cpu.max": "max 100000"}, None),
        ("0::/a/b", {f"{V2}/a/cpu.max": "100000 100000", f"{V2}/a/b/cpu.max": "max 100000"}, 1),
        ("0::/", {f"{V2}/cpu.max": "10000 100000"}, 1),
        ("0::/", {f"{V2}/cpu.max": "9900000 100000"}, None),
        ("0::/", {f"{V2}/cpu.max": "250000 100000"}, 3),
        ("0::/", {f"{V2}/cpu.max": "150000 100000"}, 2),
        ("0::/a/b", {f"{V2}/a/cpu.max": "200000 100000", f"{V2}/a/b/cpu.max": "400000 100000"}, 2),
        ("4:cpu,cpuacct:/a", {f"{V1_CPU}/a/cpu.cfs_quota_us": "50000",
                              f"{V1_CPU}/a/cpu.cfs_period_us": "100000"}, 1),
        ("4:cpu:/a", {f"{V1_CPU}/a/cpu.cfs_quota_us": "-1",
                      f"{V1_CPU}/a/cpu.cfs_period_us": "100000"}, None),
    ],
)  # fmt: skip
def test_cores_of_a_container(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    membership: str,
    files: dict[str, str],
    expected: int | None,
) -> None:
    monkeypatch.setattr(machine, "ROOT", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    write_tree(tmp_path, {"proc/self/cgroup": membership, **files})
    assert usable_cores() == (expected or 8)


def test_flags_of_the_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "ROOT", tmp_path)
    assert cpu_flags() == set()
    write_tree(tmp_path, {"proc/cpuinfo": "model\t: x\nflags\t\t: fpu sse2\n"})
    assert cpu_flags() == {"fpu", "sse2"}


def test_this_machine_and_one_that_says_nothing(tmp_path: Path) -> None:
    everything = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 64 * MIB < available_memory_bytes() <= everything
    assert available_memory_bytes(tmp_path) == everything // 2
    assert total_memory_bytes() <= everything
