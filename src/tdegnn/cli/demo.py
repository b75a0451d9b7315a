"""`tdegnn demo`: watch TDE-GNN find that a pendulum is of second order."""

from __future__ import annotations

from pathlib import Path

from tdegnn.cli.options import AsJson, Device, DeviceOption, OutFolder, Quiet, Seed
from tdegnn.cli.reproduce.pendulum import show_pendulum


def demo(
    out: OutFolder = Path("tdegnn-demo"),
    seed: Seed = 0,
    device: Device = DeviceOption.AUTO,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Watch TDE-GNN find that a pendulum is of second order (about a minute)."""
    from tdegnn.experiments.pendulum import Effort, make_pendulum
    from tdegnn.training.devices import choose_device

    data = make_pendulum(device=choose_device(device.value))
    show_pendulum(data, Effort(), seed, out, is_quiet=quiet, as_json=as_json)
