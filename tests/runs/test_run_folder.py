import errno
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import tempfile
import time
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch

from tdegnn import InputError
from tdegnn.runs.run_folder import Checkpoint, RunFolder, begin_run, describe_versions, reserved_folder

CONFIG = {"model": "forecaster", "settings": {"order": 3, "rates": (0.1, 0.2)}, "seed": 7, "data": "sha256:12ab"}
WEIGHTS = {"readout.weight": torch.arange(6.0).reshape(2, 3), "step_size": torch.tensor(0.5, dtype=torch.float64)}
COEFFICIENTS = np.array([[2.0, -1.0], [1.5, -0.5]])
NUM_STEPS = 60
NOBODY = 65534


def train(path, *, die_before=None, begun=None):
    """A small training in the folder `path`, begun or gone on with.

    It kills itself in place of its system call number `die_before`, and says on the connection `begun` that it begins.
    """
    if begun is not None:
        begun.send("begun")
    if die_before is not None:
        _die_before(die_before)
    run = RunFolder.resume(path, CONFIG) if (path / "config.json").exists() else RunFolder.create(path, CONFIG)
    with run:
        if run.is_finished:
            return
        last = run.read_checkpoint() or Checkpoint(0, {"weights": torch.ones(500)}, {"best": float("inf")})
        weights, best = last.tensors["weights"].double(), last.values["best"]
        for step in range(last.step + 1, NUM_STEPS + 1):
            weights = weights * 0.99 + step
            loss = 10 + float(np.sin(step))
            run.append_metrics({"step": step, "loss": loss, "text": "x" * (step % 13)})
            if loss < best:
                best = loss
                run.write_weights({"weights": weights})
                run.write_coefficients(np.full((3, 2), loss))
            if step % 3 == 0:
                run.write_checkpoint(Checkpoint(step, {"weights": weights}, {"best": best}))
        run.finish({"best": best})


def _die_before(num_calls):
    """Kill this process in place of the call number `num_calls` that changes something on the disk."""
    calls = 0

    def count(function):
        def counted(*args, **kwargs):
            nonlocal calls
            calls += 1
            if calls == num_calls:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **kwargs)

        return counted

    for name in ("fsync", "replace", "unlink", "mkdir"):
        setattr(os, name, count(getattr(os, name)))


def _send(connection, function, args):
    connection.send(function(*args))


# A server that has imported torch makes a process in milliseconds.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tdegnn.runs.run_folder", __name__])


def start(function, *args, **kwargs):
    process = PROCESSES.Process(target=function, args=args, kwargs=kwargs)
    process.start()
    return process


def answer_of_another_process(function, *args):
    receiver, sender = PROCESSES.Pipe(duplex=False)
    process = start(_send, sender, function, args)
    assert receiver.poll(30)
    answer = receiver.recv()
    process.join()
    return answer


def contents(folder):
    """Return the content of all files in the folder, except the lock."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}


def check_consistent(folder):
    """Everything in the folder can be read, whenever its training was killed."""
    if not (folder / "config.json").exists():
        assert not [name for name in contents(folder) if not name.startswith(".")]
        return
    run = RunFolder.open(folder)
    assert run.config["seed"] == 7
    steps = [record["step"] for record in run.read_metrics()]
    assert steps == list(range(1, len(steps) + 1))
    checkpoint = run.read_checkpoint()
    if checkpoint is not None:
        assert len(steps) >= checkpoint.step
    if (folder / "weights.safetensors").exists():
        assert run.read_weights()["weights"].isfinite().all()
    if (folder / "coefficients.npz").exists():
        assert run.read_coefficients()["coefficients"].shape == (3, 2)
    if run.is_finished:
        assert len(steps) == NUM_STEPS


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("uninterrupted") / "run"
    train(folder)
    return contents(folder)


@pytest.fixture
def run(tmp_path):
    """A training on its way."""
    with RunFolder.create(tmp_path / "run", CONFIG) as run:
        run.append_metrics({"step": 1, "loss": 0.5})
        run.write_weights(WEIGHTS)
        run.write_coefficients(COEFFICIENTS, names=np.array(["a", "b"]))
        run.write_checkpoint(Checkpoint(1, {"moment": torch.ones(2)}, {"best": float("inf"), "name": "x"}))
        yield run


def test_what_is_written_is_read(run):
    run.append_metrics({"step": 2, "loss": float("nan")})
    other = RunFolder.open(str(run.path))
    assert other.config == {**CONFIG, "settings": {"order": 3, "rates": [0.1, 0.2]}}
    assert other.versions == describe_versions()
    weights = other.read_weights()
    assert weights.keys() == WEIGHTS.keys()
    for name, tensor in weights.items():
        torch.testing.assert_close(tensor, WEIGHTS[name], rtol=0, atol=0)
    arrays = other.read_coefficients()
    np.testing.assert_array_equal(arrays["coefficients"], COEFFICIENTS)
    assert arrays["names"].tolist() == ["a", "b"]
    assert other.read_metrics() == [{"step": 1, "loss": 0.5}, {"step": 2, "loss": None}]
    checkpoint = other.read_checkpoint()
    assert (checkpoint.step, checkpoint.values) == (1, {"best": float("inf"), "name": "x"})
    assert checkpoint.tensors["moment"].tolist() == [1, 1]
    assert not other.is_finished
    assert repr(other) == f"RunFolder('{run.path}')"


def test_tied_and_transposed_weights_are_kept(run):
    tied = torch.arange(6.0).reshape(2, 3)
    run.write_weights({"a": tied, "b": tied, "c": tied.T, "d": tied[:, :1].expand(2, 4), "e": torch.zeros(0, 2)})
    weights = run.read_weights()
    assert torch.equal(weights["a"], weights["b"])
    assert torch.equal(weights["c"], tied.T)
    assert weights["d"].shape == (2, 4)
    assert weights["e"].shape == (0, 2)


def test_a_finished_training_has_a_summary_and_no_checkpoint_and_stays_as_it_is(run):
    run.finish({"loss": 0.5, "other": float("inf")})
    run.close()
    before = contents(run.path)
    assert sorted(before) == [
        "README.md",
        "coefficients.npz",
        "config.json",
        "metrics.jsonl",
        "summary.json",
        "weights.safetensors",
    ]
    with RunFolder.resume(run.path, CONFIG) as again:
        assert again.is_finished
        assert again.read_checkpoint() is None
        assert again.read_summary() == {"loss": 0.5, "other": None}
        with pytest.raises(InputError, match="Expected an unfinished training, got the finished one in .*run. Choose"):
            again.append_metrics({})
    assert contents(run.path) == before


@pytest.mark.slow
def test_a_training_killed_at_random_moments_ends_like_an_uninterrupted_one(tmp_path, uninterrupted):
    generator, folder, num_killed = random.Random(0), tmp_path / "run", 0
    before = time.perf_counter()
    train(tmp_path / "other")
    duration = time.perf_counter() - before
    for _ in range(12):
        receiver, sender = PROCESSES.Pipe(duplex=False)
        process = start(train, folder, begun=sender)
        receiver.recv()
        time.sleep(generator.uniform(0, duration / 6))
        process.kill()
        process.join()
        num_killed += process.exitcode == -signal.SIGKILL
        if folder.exists():
            check_consistent(folder)
    assert num_killed > 0
    train(folder)
    assert contents(folder) == contents(tmp_path / "other") == uninterrupted


@pytest.mark.slow
def test_a_training_killed_at_each_system_call_of_its_first_steps_ends_like_an_uninterrupted_one(
    tmp_path, uninterrupted
):
    for num_calls in range(1, 31):
        folder = tmp_path / f"run-{num_calls}"
        process = start(train, folder, die_before=num_calls)
        process.join()
        assert process.exitcode == -signal.SIGKILL
        if folder.exists():
            check_consistent(folder)
        if num_calls % 10 == 0:
            # Killed once more while it cleans up.
            start(train, folder, die_before=num_calls // 10).join()
            check_consistent(folder)
            train(folder)
            assert contents(folder) == uninterrupted


def test_a_kill_between_the_summary_and_the_end_of_the_checkpoint_is_cleaned_up(run):
    checkpoint = (run.path / "checkpoint.safetensors").read_bytes()
    run.append_metrics({"step": 2})
    run.finish({})
    run.close()
    (run.path / "checkpoint.safetensors").write_bytes(checkpoint)
    with RunFolder.resume(run.path, CONFIG) as again:
        assert again.read_checkpoint() is None
        assert len(again.read_metrics()) == 2


def test_a_line_cut_by_a_kill_is_not_read_and_is_removed_by_resuming(run):
    before = (run.path / "metrics.jsonl").read_bytes()
    run.append_metrics({"step": 2})
    with (run.path / "metrics.jsonl").open("ab") as stream:
        stream.write(b'{"step": 3')
    assert [record["step"] for record in RunFolder.open(run.path).read_metrics()] == [1, 2]
    run.close()
    with RunFolder.resume(run.path, CONFIG) as again:
        assert (run.path / "metrics.jsonl").read_bytes() == before
        again.append_metrics({"step": 2})
        assert [record["step"] for record in again.read_metrics()] == [1, 2]


def test_what_a_kill_left_half_written_is_removed(run):
    run.close()
    (run.path / ".weights.safetensors.unfinished").write_bytes(b"half")
    RunFolder.resume(run.path, CONFIG).close()
    assert not list(run.path.glob(".*.unfinished"))
    for path in run.path.iterdir():
        path.unlink()
    (run.path / ".config.json.unfinished").write_bytes(b"half")
    RunFolder.create(run.path, CONFIG).close()
    assert sorted(contents(run.path)) == ["config.json", "metrics.jsonl"]


def test_resuming_without_a_checkpoint_begins_anew(run):
    (run.path / "checkpoint.safetensors").unlink()
    run.close()
    with RunFolder.resume(run.path, CONFIG) as again:
        assert again.read_metrics() == []


def test_resuming_with_other_versions_is_allowed(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("tdegnn.runs.run_folder.describe_versions", lambda: {"tdegnn": "0.0.1"})
        RunFolder.create(tmp_path / "run", CONFIG).close()
    with RunFolder.resume(tmp_path / "run", CONFIG) as again:
        assert again.versions == {"tdegnn": "0.0.1"}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"seed": 8}, "got seed = 8 instead of 7"),
        ({"settings": {"order": 2, "rates": [0.1]}}, "got settings.order = 2 instead of 3"),
        ({"settings": {"order": 3, "rates": [0.1]}}, r"got settings.rates = \[0.1\] instead of \[0.1, 0.2\]"),
        ({"settings": {"order": 3}}, r"got settings.rates = nothing instead of \[0.1, 0.2\]"),
        ({"dropout": 0.5}, "got dropout = 0.5 instead of nothing"),
        ({"settings": None}, 'got settings = null instead of {"order": 3'),
    ],
)
def test_resuming_with_other_settings_names_the_first(changed, message, run):
    run.close()
    with pytest.raises(InputError, match=f"Expected the settings that .*run was started with, {message}.*Use the same"):
        RunFolder.resume(run.path, {**CONFIG, **changed})


def test_a_second_training_in_the_same_folder_is_refused(run):
    message = "Expected no other process in .*run, got one that is writing there. Wait for it"
    with pytest.raises(InputError, match=message):
        RunFolder.resume(run.path, CONFIG)
    assert "got one that is writing there" in answer_of_another_process(refusal, RunFolder.resume, run.path, CONFIG)
    run.append_metrics({"step": 2})
    run.close()
    RunFolder.resume(run.path, CONFIG).close()


def refusal(function, *args):
    """What the error of `function(*args)` says."""
    with pytest.raises(InputError) as caught:
        function(*args)
    return str(caught.value)


def edit_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize("enter", [RunFolder.open, lambda path: RunFolder.resume(path, CONFIG)], ids=["open", "resume"])
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: (path / "config.json").unlink(), "Expected a run folder, got .*run without config.json. Choose"),
        (
            lambda path: path.rename(path.with_name("gone")),
            "Expected a run folder, got .*run, which is not a folder. Choose",
        ),
        (lambda path: (path / "config.json").write_text("{"), "Expected JSON in .*config.json, got .*Restore it"),
        (
            lambda path: (path / "config.json").write_bytes(b"\xff\xfe"),
            "Expected JSON in .*config.json, got .*Restore it",
        ),
        (
            lambda path: (path / "config.json").write_text("[" * 100_000),
            "Expected JSON in .*config.json, got .*Restore",
        ),
        (lambda path: (path / "config.json").write_text("[]"), "Expected a JSON object in .*config.json, got list"),
        (
            lambda path: edit_config(path, format="a"),
            "Expected a run folder, got .* with a config.json of another kind",
        ),
        (
            lambda path: edit_config(path, format=4, versions={"tdegnn": "9.1"}),
            "written by tdegnn 9.1 with format 4, but this version reads formats up to 3. Upgrade tdegnn.",
        ),
        (
            lambda path: edit_config(path, seed=8),
            "Expected .*config.json as it was written, got a file that does not match its SHA-256 checksum. Restore it",
        ),
        (lambda path: edit_config(path, format=2), "Expected .*config.json as it was written, got a file that does"),
        (lambda path: edit_config(path, sha256=None), "Expected .*config.json as it was written, got a file that does"),
        (
            lambda path: edit_config(path, versions={"tdegnn": 1}),
            "Expected config.json of .*run to have text in versions.tdegnn, got 1. Restore it",
        ),
        (
            lambda path: (path / ".saving").touch(),
            "Expected a run folder, got .*run, where saving has not ended. Save again, there or elsewhere.",
        ),
    ],
)
def test_what_is_no_run_folder_is_refused(damage, message, enter, run):
    run.close()
    damage(run.path)
    with pytest.raises(InputError, match=message) as caught:
        enter(run.path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("weights.safetensors", RunFolder.read_weights),
        ("coefficients.npz", RunFolder.read_coefficients),
        ("checkpoint.safetensors", RunFolder.read_checkpoint),
    ],
)
def test_any_altered_byte_and_any_lost_end_is_noticed(name, read, run):
    path, generator = run.path / name, random.Random(0)
    content = path.read_bytes()
    message = f"Expected .*{name} as it was written, got a file that does not match its SHA-256 checksum. Restore it"
    for place in [0, 8, len(content) - 1, *generator.sample(range(len(content)), 60)]:
        for damaged in (content[:place], content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]):
            path.write_bytes(damaged)
            with pytest.raises(InputError, match=message):
                read(run)
    path.write_bytes(content)
    assert read(run)


def test_a_damaged_checkpoint_is_not_resumed_from(run):
    run.close()
    (run.path / "checkpoint.safetensors").write_bytes(b"")
    before = contents(run.path)
    for _ in range(2):  # the lock is given back
        with pytest.raises(InputError, match="Expected .*checkpoint.safetensors as it was written"):
            RunFolder.resume(run.path, CONFIG)
    assert contents(run.path) == before


def test_metrics_that_the_checkpoint_has_seen_must_be_there(run):
    run.close()
    (run.path / "metrics.jsonl").unlink()
    with pytest.raises(InputError, match="Expected at least 1 lines in .*metrics.jsonl, .* got 0. Restore it"):
        RunFolder.resume(run.path, CONFIG)


def test_metrics_that_were_changed_before_the_checkpoint_are_not_resumed_from(run):
    run.close()
    (run.path / "metrics.jsonl").write_text('{"step": 1, "loss": 0.6}\n')
    with pytest.raises(
        InputError, match="metrics.jsonl as it was when checkpoint.safetensors was written, got another"
    ):
        RunFolder.resume(run.path, CONFIG)


def test_a_checkpoint_of_another_training_is_not_resumed_from(run, tmp_path):
    run.close()
    with RunFolder.create(tmp_path / "other", {**CONFIG, "seed": 8}) as other:
        other.write_checkpoint(Checkpoint(1, {"moment": torch.ones(2)}))
    shutil.copy(other.path / "checkpoint.safetensors", run.path)
    with pytest.raises(
        InputError, match="checkpoint.safetensors of the training that config.json in .* got that of an"
    ):
        RunFolder.resume(run.path, CONFIG)


def test_the_advice_to_resume_is_an_argument_or_an_option(run):
    run.close()
    with pytest.raises(InputError, match="Add resume=True or") as caught:
        RunFolder.create(run.path, CONFIG)
    assert "Add --resume or choose another folder." in caught.value.as_options()


def test_a_broken_line_of_the_metrics_is_named(run):
    run.append_metrics({"step": 2})
    content = (run.path / "metrics.jsonl").read_bytes()
    (run.path / "metrics.jsonl").write_bytes(content + b"nonsense\n")
    with pytest.raises(InputError, match="Expected JSON in .*metrics.jsonl, line 3, got"):
        run.read_metrics()


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("weights.safetensors", RunFolder.read_weights),
        ("coefficients.npz", RunFolder.read_coefficients),
        ("metrics.jsonl", RunFolder.read_metrics),
        ("summary.json", RunFolder.read_summary),
    ],
)
def test_missing_files_are_named(name, read, run):
    if name != "metrics.jsonl":
        (run.path / name).unlink(missing_ok=True)
        with pytest.raises(InputError, match=f"Expected {name} in .*run, got a training that did .*with resume=True"):
            read(run)
    if name != "summary.json":
        run.finish({})
        (run.path / name).unlink(missing_ok=True)
        with pytest.raises(InputError, match=f"Expected {name} in .*run, got no such file. Restore it"):
            read(run)


def test_pickles_are_neither_written_nor_read(run):
    with pytest.raises(InputError, match="Expected numbers or text in the array 'names', got object objects"):
        run.write_coefficients(COEFFICIENTS, names=np.array([{}]))
    np.savez(run.path / "coefficients.npz", coefficients=np.array([{}]))
    with pytest.raises(InputError, match="does not match its SHA-256 checksum"):
        run.read_coefficients()


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (
            lambda run: run.write_weights({"a": torch.eye(2).to_sparse()}),
            "Expected dense tensors, got 'a' as torch.sparse_coo",
        ),
        (lambda run: run.write_weights({"a": torch.ones(2).to(torch.complex128)}), "Expected tensors that safetensors"),
        (
            lambda run: run.write_coefficients(np.ones(3)),
            r"Expected coefficients of shape \(layers, order\), got \(3,\)",
        ),
        (lambda run: run.append_metrics({"loss": torch.ones(())}), "Expected values that JSON can hold, got one"),
        (lambda run: run.write_checkpoint(Checkpoint(1, {}, {"a": {1, 2}})), "Expected values that JSON can hold"),
        (lambda run: RunFolder.open(run.path).append_metrics({}), "Expected a run folder to write to, got .* to read"),
        (lambda run: RunFolder.create(run.path, {"rate": float("nan")}), "Expected values that JSON can hold"),
        (lambda run: RunFolder.create(run.path, {"versions": 1}), "got one named 'versions'. Rename it"),
    ],
)
def test_what_cannot_be_kept_is_refused_and_changes_nothing(write, message, run):
    before = contents(run.path)
    with pytest.raises(InputError, match=message):
        write(run)
    assert contents(run.path) == before


@pytest.mark.parametrize("is_finished", [True, False], ids=["finished", "unfinished"])
def test_an_existing_training_is_not_overwritten(is_finished, run):
    if is_finished:
        run.finish({})
    run.close()
    before = contents(run.path)
    what = "a finished" if is_finished else "an unfinished"
    message = (
        f"Expected a new folder for the run, got .*run with {what} training. Add resume=True or choose another folder."
    )
    with pytest.raises(InputError, match=message):
        RunFolder.create(run.path, CONFIG)
    assert contents(run.path) == before


def test_a_folder_with_something_else_is_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="got .*, which holds something else .notes.txt.. Choose another folder."):
        RunFolder.create(tmp_path, CONFIG)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("file", "Expected a folder for the run, got the file .*file. Choose another folder."),
        ("file/run", "Expected to write .*run, got a system error .Not a directory.. Choose another folder."),
    ],
)
def test_a_path_that_is_a_file_is_refused(path, message, tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match=message):
        RunFolder.create(tmp_path / path, CONFIG)
    assert (tmp_path / "file").read_text() == "mine"


def fill_disk(monkeypatch):
    def refuse(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)


@pytest.mark.parametrize(
    "write",
    [
        lambda run: run.append_metrics({"step": 2}),
        lambda run: run.write_weights({"a": torch.ones(3)}),
        lambda run: run.write_coefficients(np.ones((2, 2))),
        lambda run: run.write_checkpoint(Checkpoint(2, {"a": torch.ones(3)})),
        lambda run: run.finish({}),
    ],
    ids=["metrics", "weights", "coefficients", "checkpoint", "summary"],
)
def test_on_a_full_disk_nothing_is_lost_and_the_training_can_go_on(write, run, monkeypatch):
    before = contents(run.path)
    with monkeypatch.context() as patch:
        fill_disk(patch)
        with pytest.raises(InputError, match="Expected free disk space for .*, got none .No space left .* Free some"):
            write(run)
    assert contents(run.path) == before
    write(run)
    assert contents(run.path) != before


def test_a_training_that_found_no_room_to_begin_can_be_begun_again(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        fill_disk(patch)
        with pytest.raises(InputError, match="Expected free disk space for .*config.json"):
            RunFolder.create(tmp_path / "run", CONFIG)
    assert contents(tmp_path / "run") == {}
    RunFolder.create(tmp_path / "run", CONFIG).close()


def write_until_refused(path):
    """Write to a run where files may have 4096 bytes: what the errors say."""
    with RunFolder.resume(path, CONFIG) as run:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        return [
            refusal(lambda: [run.append_metrics({"text": "x" * 1000}) for _ in range(10)]),
            refusal(run.write_weights, {"a": torch.ones(10_000)}),
        ]


def test_a_limit_in_the_middle_of_a_write_loses_nothing(run):
    run.close()
    before = contents(run.path)
    for message in answer_of_another_process(write_until_refused, run.path):
        assert "got a system error (File too large). Choose another folder." in message
    after = contents(run.path)
    lines = after.pop("metrics.jsonl")
    assert lines.startswith(before.pop("metrics.jsonl"))
    assert lines.count(b"\n") == 5
    assert lines.endswith(b"\n")
    assert after == before


def refusals_without_rights(folder):
    import_module("tdegnn.runs.read_back")  # nobody may not even read the packages
    if os.geteuid() == 0:
        os.setuid(NOBODY)  # root may write anywhere
    return [
        refusal(RunFolder.create, folder / "new", CONFIG),
        refusal(RunFolder.resume, folder / "run", CONFIG),
        refusal(RunFolder.create, folder / "closed" / "new", CONFIG),
        refusal(RunFolder.open, folder / "closed"),
        str(RunFolder.open(folder / "run").read_metrics()),
    ]


def test_a_read_only_folder_can_be_read_and_not_written_to():
    # Not in `tmp_path`: nobody else may even look into that.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        RunFolder.create(folder / "run", CONFIG).close()
        (folder / "closed").mkdir()
        for path, mode in [(folder / "closed", 0), (folder / "run", 0o555), (folder, 0o555)]:
            path.chmod(mode)
        try:
            answers = answer_of_another_process(refusals_without_rights, folder)
        finally:
            folder.chmod(0o755)
            (folder / "run").chmod(0o755)
            (folder / "closed").chmod(0o755)
    for answer, path in zip(answers[:3], ["new", "run", "closed/new"], strict=True):
        advice = "Choose another folder."
        assert answer == f"Expected permission to write {folder / path}, got the error 'Permission denied'. {advice}"
    assert answers[3] == f"Expected a folder that can be read, got {folder / 'closed'} (Permission denied). Check it."
    assert answers[4] == "[]"


def test_the_same_training_gives_the_same_files(run, tmp_path):
    with RunFolder.create(tmp_path / "other", CONFIG) as other:
        other.write_weights(dict(reversed(WEIGHTS.items())))
        other.write_coefficients(COEFFICIENTS, names=np.array(["a", "b"]))
    for name in ("config.json", "weights.safetensors", "coefficients.npz"):
        assert (other.path / name).read_bytes() == (run.path / name).read_bytes()


# Settings that are known one after another.


KNOWN = {"kind": "Forecaster", "settings": {"order": 3, "skip": {"name": "season"}}, "data": {"sha256": "a", "file": 1}}


def test_settings_grow_until_the_training_begins(tmp_path):
    path = tmp_path / "run"
    whole = {**KNOWN, "data": {**KNOWN["data"], "times": ["1"]}, "frames": {"window": 4}, "planned_steps": 7}
    with RunFolder.begin(path, KNOWN, resume=False) as begun:
        begun.extend({"frames": {"window": 4}})
    with RunFolder.begin(path, KNOWN, resume=True) as again:
        assert again.config == {**KNOWN, "frames": {"window": 4}}
        again.extend(whole)
        again.settle(whole)
        again.write_weights(WEIGHTS)
        with pytest.raises(InputError, match="got frames.window = 5 instead of 4. Use the same settings or choose"):
            again.extend({"frames": {"window": 5}})
    with RunFolder.begin(path, KNOWN, resume=True) as begun:
        before = contents(path)
        begun.extend({**whole, "chosen_network": {"name": "walks"}})
        assert (begun.config, contents(path)) == (whole, before)
        assert begun.read_weights().keys() == WEIGHTS.keys()
        with pytest.raises(InputError, match="got data.file = nothing instead of 1"):
            begun.settle({**whole, "data": {"sha256": "a", "times": ["1"]}})


@pytest.mark.parametrize(
    ("changed", "difference"),
    [
        ({"kind": "NodeClassifier"}, 'kind = "NodeClassifier" instead of "Forecaster"'),
        ({"settings": {"order": 3, "skip": {"name": "season", "period": 2}}}, "settings.skip.period = 2 instead of no"),
        ({"data": {"sha256": "b", "file": 1}}, 'data.sha256 = "b" instead of "a"'),
    ],
)
def test_a_training_that_had_only_begun_is_not_resumed_with_others(tmp_path, changed, difference):
    RunFolder.begin(tmp_path, KNOWN, resume=False).close()
    with pytest.raises(InputError, match=f"got {difference}"):
        RunFolder.begin(tmp_path, {**KNOWN, **changed}, resume=True)


def test_decisions_that_cannot_be_are_refused(tmp_path):
    RunFolder.begin(tmp_path, {**KNOWN, "frames": {"window": "4"}}, resume=False).close()
    with pytest.raises(InputError, match="config.json of .* to have a whole number in frames.window, got '4'"):
        RunFolder.begin(tmp_path, KNOWN, resume=True)


def fail_in(path, error, *, resume=False, weights=None):
    def fail():
        with begin_run(path, KNOWN, resume=resume) as folder:
            folder.extend({"frames": {"window": 4}})
            if weights is not None:
                folder.write_weights(weights)
            raise error

    with pytest.raises(type(error)):
        fail()


def test_only_a_mistake_before_the_training_leaves_nothing(tmp_path):
    full = InputError("a full disk")
    full.__cause__ = OSError()
    for number, error in enumerate([KeyboardInterrupt(), full]):
        fail_in(tmp_path / str(number), error)
        assert RunFolder.open(tmp_path / str(number)).config["frames"] == {"window": 4}
    fail_in(tmp_path / "0", InputError("a mistake"), resume=True)
    fail_in(tmp_path / "2", InputError("a mistake"), weights=WEIGHTS)
    (tmp_path / "empty").mkdir()
    fail_in(tmp_path / "empty", InputError("a mistake"))
    fail_in(tmp_path / "new" / "run", InputError("a mistake"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1", "2", "empty"]
    assert not list((tmp_path / "empty").iterdir())
    with begin_run(None, KNOWN, resume=True) as folder:
        assert folder is None


def read_wrong_table(path):
    with reserved_folder(path, resume=False):
        assert path.is_dir()
        raise InputError("a wrong table")


def test_a_folder_is_there_while_data_are_read_and_gone_if_they_are_wrong(tmp_path):
    path = tmp_path / "runs" / "one"
    with pytest.raises(InputError, match="a wrong table"):
        read_wrong_table(path)
    assert not path.parent.exists()
    path.mkdir(parents=True)  # as a killed process leaves it
    with reserved_folder(path, resume=True), RunFolder.begin(path, CONFIG, resume=True):
        pass
    # A training that has begun stays, and so does a folder that was there before.
    with pytest.raises(KeyboardInterrupt), reserved_folder(path, resume=True):
        raise KeyboardInterrupt
    assert RunFolder.is_begun(path)
    with (
        pytest.raises(InputError, match="with an unfinished training. Add resume=True or choose another"),
        reserved_folder(path, resume=False),
    ):
        raise AssertionError("nothing is read")
