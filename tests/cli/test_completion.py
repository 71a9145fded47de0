"""`--install-completion`: what bash offers afterwards for a line that has begun."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

LINES = {"tmt pu": "push pull", "tmt data back": "backtranslate", "tmt push --pri": "--private"}


def test_bash_completes_commands_and_options(tmp_path: Path) -> None:
    """Also where `python -m` has installed it: what is completed is `tmt`."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    program = tmp_path / "bin" / "tmt"
    program.parent.mkdir()
    code = "import sys; sys.argv[0] = 'tmt'; from transformer_mt.__main__ import main; main()"
    program.write_text(f'#!{bash}\nexec {sys.executable} -c "{code}" "$@"\n')
    program.chmod(0o755)
    asked = [
        f"COMP_WORDS=({line}); COMP_CWORD={len(line.split()) - 1}; _tmt_completion tmt; "
        'echo "${COMPREPLY[@]}"'
        for line in LINES
    ]
    install = f"{sys.executable} -m transformer_mt --install-completion >&2"
    script = "\n".join([install, 'source "$HOME/.bashrc"', *asked])
    own = {"HOME": str(tmp_path), "PATH": f"{program.parent}:{os.environ['PATH']}"}
    own["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run(
        [bash, "-c", script], env={**os.environ, **own}, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == list(LINES.values()), done.stderr
