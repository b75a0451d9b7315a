"""A run folder is used as it was written, or refused in one line: digests, schema, sizes."""

import json
import random
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch

from tdegnn import Forecaster, InputError, NodeClassifier
from tdegnn.files import read_arrays, write_arrays
from tdegnn.runs.run_folder import RunFolder
from tests.faults import folder_damage
from tests.faults.folder_damage import KINDS, OLD_KINDS, Edit, answer, apply_edit, single_edits, trained, try_one


@pytest.fixture(autouse=True)
def _as_a_user(as_a_user):
    """The checks of the library, not those of the test run."""


def edited(name, folder, place, value, *, file="config.json", is_signed=True):
    """A copy of a training with one changed entry, and digests to match."""
    run = shutil.copytree(trained(name), folder / "run")
    place = tuple(place)
    content = folder_damage._replaced(json.loads((run / file).read_text()), place, value)
    apply_edit(Edit(file, place, "", json.dumps(content).encode()), run, is_signed=is_signed)
    return run


@pytest.mark.slow
@pytest.mark.parametrize("name", [*KINDS, *OLD_KINDS])
def test_a_wrong_entry_is_refused_or_does_no_harm(name, tmp_path):
    """A few of all single edits."""
    edits = random.Random(0).sample([*single_edits(trained(name))], 12)
    for number, edit in enumerate(edits):
        for is_signed in (True, False):
            run = shutil.copytree(trained(name), tmp_path / f"{number}-{is_signed}" / "run")
            apply_edit(edit, run, is_signed=is_signed)
            answer(name, run, may_differ=is_signed or "/" in name)
            shutil.rmtree(run.parent)


@pytest.mark.slow
def test_a_damaged_file_is_refused_or_does_no_harm(tmp_path):
    found = set()
    for seed in range(40):
        folder = tmp_path / str(seed)
        folder.mkdir()
        found.add(try_one(seed, folder))
        shutil.rmtree(folder)
    assert found == {"refused", "same"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "place", "value", "message"),
    [
        ("latent", ("settings", "num_layers"), "four", "to have a whole number in settings.num_layers, got 'four'. R"),
        ("latent", ("settings", "num_layers"), True, "to have a whole number in settings.num_layers, got True"),
        ("latent", ("settings", "lowest"), "0", "to have a number in settings.lowest, got '0'"),
        ("latent", ("settings", "order"), 0, "to have a number of at least 1 or 'auto' in settings.order, got 0"),
        ("latent", ("data", "nodes"), ["a", "a", "b"], r"to have distinct names in data.nodes, got \['a', 'a', 'b'\]"),
        ("latent", ("data", "times", 0), "soon", "to have dates or numbers in data.times, got"),
        ("latent", ("data", "time_zone"), "Mars/Olympus", "to have a time zone in data.time_zone, got 'Mars/Olympus'"),
        ("latent", ("data", "tables", "value"), 1, "to have a list in data.tables.value, got 1"),
        ("latent", ("frames", "horizon"), 3, "to have that of the settings in frames.horizon, got 3"),
        ("latent", ("chosen_order", "order"), 3.5, "to have a whole number in chosen_order.order, got 3.5"),
        ("latent", ("settings", "unknown"), 1, "to have entries that this version knows, got settings.unknown. Rest"),
        ("latent", ("settings", "operator"), 1, "to have text or an object in settings.operator, got 1"),
        ("latent", ("settings", "operator"), "difusion", "one of diffusion, .* got 'difusion'. Did you mean 'diff"),
        ("classifier", ("learned", "classes"), ["even"], "to have at least 2 entries in learned.classes, got"),
        ("classifier", ("feature_scaling", "scale", 0), 0, "to have positive numbers in feature_scaling.scale, got"),
        ("classifier", ("num_outputs",), 3, "to have 3 values in learned, got"),
        ("regressor", ("learned", "is_vector"), True, "to have false in learned.is_vector, got True"),
    ],
)  # fmt: skip
def test_the_message_names_the_file_and_the_entry(name, place, value, message, tmp_path):
    with pytest.raises(InputError, match=message):
        folder_damage.uses(name, edited(name, tmp_path, place, value))


@pytest.mark.slow
def test_a_missing_entry_is_named(tmp_path):
    run = shutil.copytree(trained("latent"), tmp_path / "run")
    config = json.loads((run / "config.json").read_text())
    del config["data"]["nodes"]
    apply_edit(Edit("config.json", ("data", "nodes"), "", json.dumps(config).encode()), run, is_signed=True)
    with pytest.raises(InputError, match="Expected config.json of .*run to have data.nodes, got none. Restore it"):
        Forecaster.load(run)


@pytest.mark.slow
@pytest.mark.parametrize("file", ["config.json", "summary.json", "metrics.jsonl"])
def test_a_changed_number_is_noticed(file, tmp_path):
    """these were read before, and changed forecasts or what `explain` says."""
    run = shutil.copytree(trained("physical"), tmp_path / "run")
    content = (run / file).read_text()
    (run / file).write_text(content.replace("0", "1", 1))
    assert (run / file).read_text() != content
    with pytest.raises(InputError, match=f"{file} .*Restore it from a copy or train again"):
        Forecaster.load(run)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["physical", "classifier"])
@pytest.mark.parametrize("file", ["weights.safetensors", "coefficients.npz", "summary.json"])
def test_a_file_of_another_run_is_refused(name, file, tmp_path):
    """weights of another training with the same shapes were accepted."""
    run = shutil.copytree(trained(name), tmp_path / "run")
    shutil.copy(trained(name, 1) / file, run / file)
    message = f"Expected {file} of the training that config.json in .*run describes, got that of another training."
    with pytest.raises(InputError, match=message):
        (NodeClassifier if name == "classifier" else Forecaster).load(run)


def test_weights_of_another_moment_of_the_same_training_are_refused(tmp_path):
    with RunFolder.create(tmp_path / "run", {"kind": "x"}) as run:
        run.write_weights({"a": torch.zeros(3)})
        earlier = (run.path / "weights.safetensors").read_bytes()
        run.write_weights({"a": torch.ones(3)})
        run.finish({})
    (run.path / "weights.safetensors").write_bytes(earlier)
    with pytest.raises(InputError, match="weights.safetensors of .*run as it was when summary.json was written, got"):
        RunFolder.open(run.path).read_weights()


LOAD = """
import resource, sys
from tdegnn import Forecaster, InputError, NodeClassifier
import tdegnn.forecasting.read_back, tdegnn.nodes.schema
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for path in sys.argv[1:]:
    try:
        (NodeClassifier if "classifier" in path else Forecaster).load(path)
    except InputError as error:
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, error)
"""
SIZES = [("latent", "settings", "num_layers"), ("latent", "settings", "hidden_channels")]
SIZES += [("latent", "settings", "num_members"), ("physical", "frames", "horizon"), ("classifier", "data", "features")]
SIZES += [("classifier", "settings", "num_layers"), ("classifier", "chosen_order", "order")]


@pytest.mark.slow
def test_a_huge_size_costs_neither_time_nor_memory(tmp_path):
    """`num_layers: 1e12` made loading hang."""
    runs = [
        edited(name, tmp_path / f"{name}-{place}-{value}", place, value)
        for name, *place in SIZES
        for value in (10**12, 900_000)
    ]
    done = subprocess.run(
        [sys.executable, "-c", LOAD, *map(str, runs)], capture_output=True, text=True, timeout=60, check=True
    )
    lines = done.stdout.splitlines()
    assert len(lines) == len(runs), done.stdout
    for line in lines:
        taken, message = line.split(maxsplit=1)
        assert message.startswith("Expected ")
        assert int(taken) * 1024 < 300e6


def test_an_array_that_says_it_is_larger_than_its_file_is_refused(tmp_path):
    """a header of an array may ask for any memory."""
    path = tmp_path / "a.npz"
    write_arrays(path, {"coefficients": np.ones((3, 4))})
    path.write_bytes(folder_damage.sealed(path.read_bytes().replace(b"(3, 4)", b"(3, 9)")))
    with pytest.raises(InputError, match="a.npz as it was written"):
        read_arrays(path)
