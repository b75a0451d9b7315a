"""A `save` that is interrupted at any moment does not stand in the way of the next one."""

import multiprocessing
import os
import signal

import numpy as np
import pytest

from tdegnn import Forecaster, InputError, NodeClassifier
from tests.faults.folder_damage import trained

PROCESSES = multiprocessing.get_context("forkserver")
ESTIMATORS = {"physical": Forecaster, "classifier": NodeClassifier}


def save(model, target, die_before):
    """Save a model, and be killed in place of a call that changes something on the disk."""
    num_calls = 0

    def count(function):
        def counted(*args, **kwargs):
            nonlocal num_calls
            num_calls += 1
            if num_calls == die_before:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **kwargs)

        return counted

    for name in ("fsync", "replace", "unlink", "mkdir", "open"):
        setattr(os, name, count(getattr(os, name)))
    model.save(target)


def save_until_the_end(kind, source, folder):
    """Kill a save at its first call, one at its second, until one ends. This process is forked for each."""
    model = kind.load(source)
    for die_before in range(1, 200):
        child = os.fork()
        if not child:
            save(model, folder / str(die_before), die_before)
            os._exit(0)
        if os.waitpid(child, 0)[1] == 0:
            return


@pytest.mark.slow
@pytest.mark.parametrize("name", ESTIMATORS)
def test_after_a_killed_save_the_next_one_succeeds(name, tmp_path):
    kind = ESTIMATORS[name]
    model = kind.load(trained(name))
    process = PROCESSES.Process(target=save_until_the_end, args=(kind, trained(name), tmp_path))
    process.start()
    process.join()
    assert process.exitcode == 0
    targets = sorted(tmp_path.iterdir(), key=lambda path: int(path.name))
    for target in targets:
        if (target / "summary.json").exists() and not (target / ".saving").exists():
            kind.load(target)  # it ended, or was killed after the last change
            continue
        if (target / "config.json").exists():
            with pytest.raises(InputError, match="where saving has not ended. Save again, there or elsewhere."):
                kind.load(target)
        model.save(target)
        np.testing.assert_array_equal(kind.load(target).coefficients_, model.coefficients_)
        assert sorted(path.name for path in target.iterdir() if path.name != ".lock") == sorted(
            path.name for path in trained(name).iterdir() if path.name != ".lock"
        )
    assert len(targets) > 40


class Interrupted(BaseException):
    pass


@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_interrupted_save_can_be_repeated(name, tmp_path, monkeypatch):
    model = ESTIMATORS[name].load(trained(name))
    with monkeypatch.context() as patch:
        patch.setattr("tdegnn.runs.run_folder.write_arrays", lambda *_: (_ for _ in ()).throw(Interrupted))
        with pytest.raises(Interrupted):
            model.save(tmp_path / "saved")
    assert (tmp_path / "saved" / "config.json").exists()
    model.save(tmp_path / "saved")
    ESTIMATORS[name].load(tmp_path / "saved")


def test_a_folder_that_is_taken_is_refused_without_advice_to_resume(tmp_path):
    model = Forecaster.load(trained("physical"))
    model.save(tmp_path / "saved")
    with pytest.raises(InputError, match="with a finished training. Choose another folder.") as caught:
        model.save(tmp_path / "saved")
    assert "resume" not in str(caught.value)


def test_what_is_not_ours_is_never_removed(tmp_path):
    folder = tmp_path / "saved"
    folder.mkdir()
    (folder / ".saving").touch()
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="which holds something else .notes.txt."):
        Forecaster.load(trained("physical")).save(folder)
    assert (folder / "notes.txt").read_text() == "mine"


@pytest.mark.slow
def test_a_training_may_begin_where_a_save_was_interrupted(tmp_path):
    from tests.faults.folder_damage import _nodes

    model = NodeClassifier.load(trained("classifier"))
    features, edges = _nodes()
    model.save(tmp_path / "run")
    (tmp_path / "run" / ".saving").touch()
    again = NodeClassifier(num_steps=2, device="cpu").fit(
        features, np.arange(len(features)) % 2, graph=edges, run=tmp_path / "run", resume=True
    )
    assert NodeClassifier.load(tmp_path / "run").summary_ == again.summary_
