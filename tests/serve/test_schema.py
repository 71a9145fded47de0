"""Whatever fits the server's own description of its interfaces is answered, never with 5xx."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from served import Server

from transformer_mt import __version__


def test_no_request_breaks_it(server: Server, tmp_path: Path) -> None:
    st = Path(sys.executable).with_name("st")
    if shutil.which(st) is None:
        pytest.skip("needs schemathesis: the extra test-serve")
    # What is sent is mostly refused, which other checks would report.
    options = "--checks not_a_server_error --max-examples 2 --phases examples,coverage,fuzzing"
    command = [str(st), "run", f"{server.url}/openapi.json", *options.split(), "--no-color"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-5000:]
    found = re.search(r"(\d+) generated, (\d+) passed", done.stdout)
    assert found and found[1] == found[2] and int(found[1]) > 300, done.stdout[-2000:]
    schema = server.client.get("/openapi.json").json()
    assert schema["info"]["version"] == __version__ and len(schema["paths"]) >= 15
