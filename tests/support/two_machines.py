"""Two machines, played by two network namespaces of this one that a pair of veth devices joins.

The namespaces live as long as the processes that hold them, minutes at most; their addresses are
private, and nothing of them is ever seen from this machine's own network.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

HELD_S = 300  # a test that was killed leaves its namespaces for no longer
ADDRESSES = ("10.77.0.1", "10.77.0.2")
DEVICE = "tmt0"
# A slow link with delay and loss; and for kernels without netem the same rate with a queue so short
# that it loses packets.
LOSSY = (
    "root netem rate 50mbit delay 2ms loss 0.5%",
    "root tbf rate 50mbit burst 4kb limit 24kb",
)


@dataclass(frozen=True)
class Machine:
    pid: int  # of the process that holds the namespace
    address: str

    def command(self, *words: str) -> list[str]:
        return ["nsenter", "--target", str(self.pid), "--net", *words]

    def ip(self, text: str) -> None:
        _run(self.command("ip", *text.split()))

    def give_up_soon(self) -> None:
        """Of silent connections: after some seconds, where a machine as it comes takes minutes."""
        limits = {"retries2": 6, "keepalive_time": 2, "keepalive_intvl": 2, "keepalive_probes": 3}
        for name, limit in limits.items():
            path = f"/proc/sys/net/ipv4/tcp_{name}"
            _run(self.command("sh", "-c", f"echo {limit} > {path}"))

    def lost_packets(self) -> int:
        """Of those that its link has carried."""
        told = _run(self.command("tc", "-s", "qdisc", "show", "dev", DEVICE))
        return int(told.partition("dropped ")[2].split(",")[0])


def reason_against() -> str | None:
    """Why there can be no namespaces here."""
    missing = [name for name in ("unshare", "nsenter", "ip", "tc") if shutil.which(name) is None]
    if missing:
        return f"not installed: {', '.join(missing)}"
    if subprocess.run(["unshare", "-n", "true"], capture_output=True).returncode:
        return "no right to make network namespaces"
    return None


@contextmanager
def two_machines() -> Iterator[list[Machine]]:
    """Joined by a slow link that loses packets."""
    with ExitStack() as stack:
        machines = [Machine(stack.enter_context(_namespace()), a) for a in ADDRESSES]
        first, second = machines
        first.ip(f"link add {DEVICE} type veth peer name {DEVICE} netns {second.pid}")
        for machine in machines:
            machine.ip("link set lo up")
            machine.ip(f"address add {machine.address}/30 dev {DEVICE}")
            machine.ip(f"link set {DEVICE} up")
            machine.give_up_soon()
            shape = ["tc", "qdisc", "add", "dev", DEVICE]
            lossy = (machine.command(*shape, *text.split()) for text in LOSSY)
            if all(subprocess.run(words, capture_output=True).returncode for words in lossy):
                raise RuntimeError("tc can make no slow link here")
        yield machines


@contextmanager
def _namespace() -> Iterator[int]:
    holder = subprocess.Popen(["unshare", "-n", "sleep", str(HELD_S)])
    try:
        own, deadline = os.readlink("/proc/self/ns/net"), time.monotonic() + 10
        while os.readlink(f"/proc/{holder.pid}/ns/net") == own:
            assert holder.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        yield holder.pid
    finally:
        holder.kill()
        holder.wait()


def _run(words: list[str]) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout
