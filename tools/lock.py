"""Writes requirements.lock: the newest versions that satisfy pyproject.toml with every extra. Run by `make lock`."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
HELD = ["torch<2.14"]  # the newest with the CPU-only build that we test with
BY_TORCH = ("cuda-", "nvidia-", "triton")  # torch asks for exact versions itself, and its CPU-only build for none
HEADER = """\
# The versions that bqrl is tested with, as constraints: pip install -c requirements.lock -e '.[dev,plots]'
# Every extra is resolved together. `make lock` renews this file.
"""


def main() -> None:
    """Resolve afresh, ignoring what is installed, and write one `name==version` per line."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    wanted = [*project["dependencies"], *(r for extra in extras for r in extra if not r.startswith("bqrl["))]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-"]
    report = json.loads(subprocess.run([*pip, *wanted, *HELD], check=True, stdout=subprocess.PIPE).stdout)
    packages = (package["metadata"] for package in report["install"])
    pins = {re.sub(r"[-_.]+", "-", p["name"]).lower(): p["version"].split("+")[0] for p in packages}
    lines = [f"{name}=={version}\n" for name, version in sorted(pins.items()) if not name.startswith(BY_TORCH)]
    (ROOT / "requirements.lock").write_text(HEADER + "".join(lines))


if __name__ == "__main__":
    main()
