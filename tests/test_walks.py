"""Three walks through the house cross few modules, and CONTRIBUTING names them."""

import json
import re
from pathlib import Path

import pytest

from tests.forked import Forked

ROOT = Path(__file__).parent.parent
GUIDE = (ROOT / "CONTRIBUTING.md").read_text()
# Two thirds of the modules that each walk crossed before the rooms were made: 74, 52, and 8 of the equation itself. The
# walk to labels crosses 14 more: four compare the network with baselines, seven are networks that are tried, and their
# parts, one says how parts drop, one writes the model card. The walk to a forecast crosses 25 more, since a default fit
# does more: seven methods of intervals, of which one is chosen, six parts of a network (losses, schedules, norms,
# readouts, skips, vectors of nodes), networks that are tried, a window search in bounded memory, progress, a time
# budget, calendars, forecasts that are kept for a report, and the model card. Both cross one more, which tells
# callbacks what happens. Each is a file of its own. Both walks ask whether there are other processes, in two files, and
# have a run folder that these share, in a third. Both make a graph, whose rows are compressed in a file of its own,
# and ask whether there are kernels. Both ask of which type messages are, and import commands without the collector of
# garbage, each in a file.
MOST = {"csv_to_forecast": 81, "graph_to_labels": 56, "one_layer": 5}
CHANGES = (
    "operator",
    "rule for c",
    "dataset",
    "metric",
    "rival",
    "interval method",
    "option of `fit`",
    "plot of c",
    "optimizer",
    "checkpoint field",
    "loss",
    "season",
)


@pytest.mark.slow
@pytest.mark.parametrize("walk", MOST)
def test_a_walk_crosses_few_modules(walk, tmp_path):
    process = Forked("import runpy; runpy.run_module('tests.walks', run_name='__main__')", walk)
    printed, complaint = process.communicate(timeout=300)
    assert process.returncode == 0, complaint
    modules = json.loads(printed.splitlines()[-1])
    if walk == "one_layer":
        # The equation itself: the graph, its products and the checks stay out of the count, as they did before.
        modules = [module for module in modules if module.startswith(("core/", "operators/"))]
    assert len(modules) <= MOST[walk], modules
    rooms = {module.split("/")[0] for module in modules if "/" in module}
    section = GUIDE[GUIDE.index("## Three walks") : GUIDE.index("## Twelve changes")]
    assert all(f"`{room}/" in section for room in rooms), rooms


@pytest.mark.parametrize("change", CHANGES)
def test_a_plausible_change_touches_at_most_three_files(change):
    section = GUIDE[GUIDE.index("## Twelve changes") :]
    (row,) = re.findall(rf"^\| {re.escape(change)} \|(.*)\|$", section, flags=re.MULTILINE)
    files = re.findall(r"`([\w/.]+\.(?:py|txt|toml))`", row)
    new = [name for name in files if re.search(r"[A-Z]", name)]
    assert 1 <= len(files) <= 3
    missing = [name for name in files if name not in new and not (ROOT / "src" / "tdegnn" / name).exists()]
    assert not missing


def test_every_room_is_on_the_map():
    rooms = [path.name for path in (ROOT / "src" / "tdegnn").iterdir() if path.is_dir() and path.name != "__pycache__"]
    assert all(f"`{room}/`" in GUIDE for room in rooms)
