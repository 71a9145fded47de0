"""`tmt` within this process, for tests in which a process of its own proves nothing more."""

import gc
import io
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

from transformer_mt.cli.main import main


def tmt_here(
    *arguments: str | Path,
    stdin: str = "",
    cwd: Path | None = None,
    code: int | None = 0,
    encoding: str = "utf-8",
) -> subprocess.CompletedProcess[str]:
    """Run `tmt`.

    Processes that it starts write to the standard error of the tests.
    Args:
        code: the exit status to insist on.
        encoding: of its standard streams, as PYTHONIOENCODING would choose it.
    """
    streams = [io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="") for _ in range(3)]
    streams[0].buffer.write(stdin.encode(encoding))
    streams[0].seek(0)
    words = ["tmt", *map(str, arguments)]
    names = dict(zip(("stdin", "stdout", "stderr"), streams, strict=True))
    before, status, thresholds = Path.cwd(), 0, gc.get_threshold()
    with mock.patch.multiple(sys, argv=words, **names), mock.patch.dict(os.environ):
        os.chdir(cwd or before)
        try:
            main()
        except SystemExit as end:
            status = int(end.code or 0)
        finally:
            os.chdir(before)
            gc.set_threshold(*thresholds)
    for stream in streams[1:]:
        stream.flush()
    said, told = (
        stream.buffer.getvalue().decode(stream.encoding, errors="surrogateescape")
        for stream in streams[1:]
    )
    result = subprocess.CompletedProcess(words, status, said, told)
    if code is not None:
        assert status == code, said + told
    return result
