"""Build source archive and wheel, and check them: `python -m tests.distribution FOLDER`, or `make dist`.

Nothing is downloaded. The clean environment sees the dependencies of this one, but not its tdegnn.
"""

import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path

from tests import smoke

ROOT = Path(__file__).parent.parent


def build(folder):
    """Build the source archive, and the wheel from the archive. Return both, checked by twine."""
    _run("build", "--no-isolation", "--outdir", folder, ROOT)
    (archive,), (wheel,) = Path(folder).glob("*.tar.gz"), Path(folder).glob("*.whl")
    _run("twine", "check", "--strict", archive, wheel)
    return archive, wheel


def build_wheel_alone(folder):
    """Build a wheel from the checkout itself, without a source archive in between."""
    _run("build", "--wheel", "--no-isolation", "--outdir", folder, ROOT)
    (wheel,) = Path(folder).glob("*.whl")
    return wheel


def install(wheel, folder):
    """Install a wheel, without its dependencies, into a new environment that sees those of this one."""
    venv.create(folder, with_pip=False, symlinks=True)
    packages = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    python = Path(folder) / "bin" / "python"
    _run("pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel)
    # Paths in a .pth file come after the packages of the environment itself, so the installed tdegnn wins. The .pth
    # file with which this environment finds its editable tdegnn is not read: Python does not follow them that far.
    others = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (Path(packages) / "dependencies.pth").write_text("\n".join(sorted(others)) + "\n")


def _run(module, *arguments):
    """Run a module. What it prints is shown if it fails."""
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{module} failed:\n{done.stdout}")


if __name__ == "__main__":
    archive, wheel = build(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        install(wheel, folder)
        version = smoke.run_everything(folder)
    print(f"{archive} and {wheel} are good, and an installed {version} runs.")
