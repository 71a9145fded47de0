"""Build a wheel, install it into an empty folder, and use it from another one.

    python scripts/check_wheel.py

Needs the network once: pip fetches the build backend. The libraries that tmt imports are those of
the Python that runs this.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXPECTED = (
    "config/bundled/tiny.yaml",
    "py.typed",
    "rendering/fonts/tmt-cjk.otf",
    "rendering/fonts/OFL.txt",
    "messages/zh/LC_MESSAGES/tmt.mo",
)
ENDINGS = ("j2", "js", "cjs", "css")  # files beside the code
MINUTES = "10}"  # of the training in docs/python.md; here it takes a part of one
PYTHON_API = """
import transformer_mt as tmt
from pathlib import Path
site = Path(tmt.__file__).parents[1]
assert site == Path(SITE), site
assert "torch" not in __import__("sys").modules
from transformer_mt.config.experiment import load_experiment
assert load_experiment("tiny").name == "tiny"
"""


def page_code() -> str:
    """The code of docs/python.md, with a short training."""
    page = (ROOT / "docs/python.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    assert MINUTES in code
    return code.replace(MINUTES, "0.3}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        wheels, site, empty = (Path(folder, name) for name in ("wheels", "site", "empty"))
        empty.mkdir()
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "wheel", ROOT, "--no-deps", "-w", wheels], check=True)
        (wheel,) = wheels.glob("*.whl")
        subprocess.run([*pip, "install", wheel, "--no-deps", "--target", site], check=True)
        package = site / "transformer_mt"
        files = [path.relative_to(ROOT) for ending in ENDINGS
                 for path in ROOT.glob(f"transformer_mt/**/*.{ending}")]  # fmt: skip
        missing = [name for name in EXPECTED if not (package / name).is_file()]
        missing += [str(name) for name in files if not (site / name).is_file()]
        assert not missing, f"not in the wheel: {missing}"
        environment = {**os.environ, "PYTHONPATH": str(site)}
        program = str(package / "__main__.py")
        commands: list[list[str]] = [
            [program, "--version"],
            [program, "config"],
            [program, "config", "base"],
            [program, "doctor"],
            [program, "data", "demo", "demo"],
            ["-c", PYTHON_API.replace("SITE", repr(str(site)))],
            ["-c", page_code()],
        ]
        for words in commands:
            command = [sys.executable, *words]
            subprocess.run(
                command, cwd=empty, env=environment, check=True, stdout=subprocess.DEVNULL
            )
            print("ok:", *words[:4] if words[0] == program else [words[1].strip().split("\n")[0]])
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
