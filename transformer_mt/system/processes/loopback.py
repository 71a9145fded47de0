"""The sockets of this process through which ranks reach each other.

On one machine gloo and NCCL are kept to loopback, and listening sockets are told to take no more
connections. Between machines a connection that has become silent ends.
"""

import ctypes
import os
import socket
import stat
import struct
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_SO_ATTACH_FILTER = 26  # Linux
_DROP_ALL = struct.pack("HBBI", 0x06, 0, 0, 0)  # one instruction: return 0, "keep no byte"


def keep_to_loopback() -> None:
    """To be called before there is a group. Gloo must use it, also on a cluster; NCCL may."""
    os.environ["GLOO_SOCKET_IFNAME"] = loopback_interface()
    os.environ.setdefault("NCCL_SOCKET_IFNAME", loopback_interface())


def loopback_interface() -> str:
    """Its name: `lo` on Linux, `lo0` on macOS."""
    names = (name for _, name in socket.if_nameindex())
    return next((name for name in names if name.startswith("lo")), "lo")


def open_doors() -> set[int]:
    """Descriptors of the sockets on which this process listens; empty where there is no /proc."""
    found = set()
    for descriptor in _descriptors():
        with suppress(OSError), _socket_of(descriptor) as own:
            inet = own.family in (socket.AF_INET, socket.AF_INET6)
            if inet and own.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                found.add(descriptor)
    return found


def close_doors(descriptors: Iterable[int]) -> None:
    """Let listening sockets take no more connections, on Linux; those that are made stay.

    Gloo keeps its socket open, and would end the process if strangers used up its descriptors.
    """
    if sys.platform != "linux":
        return
    program = ctypes.create_string_buffer(_DROP_ALL)
    attached = struct.pack("HP", 1, ctypes.addressof(program))
    for descriptor in descriptors:
        # Some systems that pretend to be Linux have no filters.
        with suppress(OSError), _socket_of(descriptor) as own:
            own.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, attached)


def end_silent_connections() -> None:
    """Have the system ask, on Linux, whether the other end of each connection is still there.

    Otherwise a rank that has nothing to send waits for ever for one behind a cut cable. Where the
    system's own limits are shorter, they hold.
    """
    if sys.platform != "linux":
        return
    options = {
        option: min(most, _system_limit(name, most))
        for name, option, most in (
            ("tcp_keepalive_time", socket.TCP_KEEPIDLE, 30),  # seconds of silence
            ("tcp_keepalive_intvl", socket.TCP_KEEPINTVL, 10),  # seconds between two questions
            ("tcp_keepalive_probes", socket.TCP_KEEPCNT, 9),  # unanswered
        )
    }
    for descriptor in _descriptors():
        with suppress(OSError), _socket_of(descriptor) as own:
            if own.type == socket.SOCK_STREAM and own.family in (socket.AF_INET, socket.AF_INET6):
                own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                for option, value in options.items():
                    own.setsockopt(socket.IPPROTO_TCP, option, value)


def _system_limit(name: str, default: int) -> int:
    """A setting of the system's TCP; `default` where it has none."""
    with suppress(OSError):
        return int(Path(f"/proc/sys/net/ipv4/{name}").read_text(encoding="ascii"))
    return default


def _descriptors() -> list[int]:
    """Of all that this process has open; empty where there is no /proc."""
    folder = Path("/proc/self/fd")
    return [int(name) for name in os.listdir(folder)] if folder.is_dir() else []


@contextmanager
def _socket_of(descriptor: int) -> Iterator[socket.socket]:
    """The socket behind a descriptor, for a moment; an OSError if there is none."""
    if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
        raise OSError(f"{descriptor} is no socket")
    with socket.socket(fileno=os.dup(descriptor)) as copy:
        yield copy
