"""Build a wheel, install it into an empty folder, and use it from another one.

    python scripts/check_wheel.py

Needs the network once: pip fetches the build backend. The libraries that tmt imports are those of
the Python that runs this.
"""

import os
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
)
PYTHON_API = """
import transformer_mt as tmt
from pathlib import Path
site = Path(tmt.__file__).parents[1]
assert site == Path(SITE), site
assert "torch" not in __import__("sys").modules
from transformer_mt.config.experiment import load_experiment
assert load_experiment("tiny").name == "tiny"
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        wheels, site, empty = (Path(folder, name) for name in ("wheels", "site", "empty"))
        empty.mkdir()
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "wheel", ROOT, "--no-deps", "-w", wheels], check=True)
        (wheel,) = wheels.glob("*.whl")
        subprocess.run([*pip, "install", wheel, "--no-deps", "--target", site], check=True)
        package = site / "transformer_mt"
        templates = [path.relative_to(ROOT) for path in ROOT.glob("transformer_mt/**/*.html")]
        missing = [name for name in EXPECTED if not (package / name).is_file()]
        missing += [str(name) for name in templates if not (site / name).is_file()]
        assert not missing, f"not in the wheel: {missing}"
        environment = {**os.environ, "PYTHONPATH": str(site)}
        program = package / "__main__.py"
        commands: list[list[str | Path]] = [
            [program, "--version"],
            [program, "config"],
            [program, "config", "base"],
            [program, "doctor"],
            [program, "data", "demo", "demo"],
            ["-c", PYTHON_API.replace("SITE", repr(str(site)))],
        ]
        for words in commands:
            command = [sys.executable, *words]
            subprocess.run(
                command, cwd=empty, env=environment, check=True, stdout=subprocess.DEVNULL
            )
            print("ok:", *words[:4] if words[0] == program else ["import transformer_mt"])
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
