"""One study in one PostgreSQL database, and processes that share it: some start together, one is killed."""

import os
import signal
import time
import warnings
from pathlib import Path

import numpy as np
import optuna
import pandas as pd
import pytest
import sqlalchemy
from optuna.trial import TrialState

from tdegnn import InputError
from tdegnn.experiments import batches
from tdegnn.experiments.search_space import SweepSettings
from tdegnn.experiments.studies import StoredStudy, open_study, place_of
from tdegnn.experiments.sweep import run_sweep
from tdegnn.experiments.trials import best_trials
from tests.experiments.test_sweep import SETTINGS, TINY, rigged
from tests.forked import Forked
from tests.torchrun import run_together

WORKER = """
import sys, time
from tdegnn.experiments import batches, trials
from tdegnn.experiments.search_space import SweepSettings
from tdegnn.experiments.studies import open_study
from tdegnn.experiments.sweep import run_sweep
from tdegnn.experiments.node_systems import train_together
from tests.experiments.tiny_nodes import make_tiny_nodes

storage, num_trials, batch_size, machine, seconds = sys.argv[1:]
if machine:
    # As on a machine of its own: others learn from its silence alone that it is gone.
    batches._this_machine = lambda: machine
    batches.socket.gethostname = lambda: machine
    batches.BEAT_EVERY, batches.SILENT_AFTER = 0.2, 3.0
trials.LOOK_EVERY = 0.2

def train(*arguments, **options):
    time.sleep(float(seconds))
    return train_together(*arguments, **options)

settings = SweepSettings(num_splits=2, num_steps=3)
study = open_study(storage, "shared", "tiny", settings)
result = run_sweep(
    make_tiny_nodes(), study, settings, num_trials=int(num_trials), batch_size=int(batch_size), num_finalists=1,
    is_waiting=True, train=train,
)
print(result.num_finished, result.num_running, result.finalists[0].trial)
"""


# The command, as a user starts it, in a folder of its own.
COMMAND = """
import os, sys
from tdegnn import cli
from tdegnn.data.benchmarks import load
from tests.experiments.tiny_nodes import make_tiny_nodes

folder, storage = sys.argv[1:]
os.chdir(folder)
load.load_nodes = lambda name: make_tiny_nodes()
options = "--system TDE-GNN_D --trials 2 --batch 2 --splits 2 --steps 3 --finalists 1 --device cpu".split()
cli.main(["sweep", "cora", *options, "--study", "command", "--storage", storage])
"""

# The command in a process of `torchrun`, on a tiny table or dataset. Each takes trials slowly, once all are there.
OF_TORCHRUN = """
import os, sys, time
from pathlib import Path
from tdegnn import cli
from tdegnn.data.benchmarks import load
from tdegnn.experiments import forecaster_sweep, sweep, trials
from tests.experiments.tiny_nodes import make_tiny_nodes

folder, number, *words = sys.argv[1:]
os.chdir(folder)
load.load_nodes = lambda name: make_tiny_nodes()
trials.LOOK_EVERY = 0.1

def slowly(judge):
    def wait_and_judge(*arguments):
        Path(os.environ["RANK"]).touch()
        while not all(Path(str(rank)).exists() for rank in range(int(number))):
            time.sleep(0.01)
        time.sleep(0.3)
        return judge(*arguments)
    return wait_and_judge

for module in (sweep, forecaster_sweep):
    module._Judge.judge = slowly(module._Judge.judge)
cli.main(["sweep", *words, "--steps", "3", "--finalists", "1", "--device", "cpu", "--study", "shared"])
"""


@pytest.fixture
def database(tmp_path):
    pgserver = pytest.importorskip("pgserver", reason="there is no PostgreSQL to try")
    tmp_path.chmod(0o755)  # as root, PostgreSQL runs as a user of its own
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a runtime folder that is not set
        server = pgserver.get_server(tmp_path / "data", cleanup_mode="delete")
    yield server
    server.cleanup()


def start_worker(storage, num_trials, batch_size, machine="", seconds=0.0, **environment):
    return Forked(WORKER, storage, num_trials, batch_size, machine, seconds, **environment)


def answers_of(workers):
    answers = []
    for worker in workers:
        printed, complaint = worker.communicate(timeout=300)
        assert worker.returncode == 0, complaint
        answers.append([int(part) for part in printed.split()])
    return answers


@pytest.mark.slow
def test_processes_share_a_study_in_postgresql(database):
    answers = answers_of([start_worker(database.get_uri(), 8, 2) for _ in range(2)])
    assert [answer[:2] for answer in answers] == [[8, 0]] * 2
    study = StoredStudy("shared", place_of(database.get_uri()))
    trials = [trial for trial in study.trials if trial.state != TrialState.FAIL]
    study.close()
    assert len(trials) == 8
    assert len({trial.user_attrs["worker"][1] for trial in trials}) == 2  # both had a part in it


@pytest.mark.slow
@pytest.mark.parametrize("are_machines", [False, True], ids=["one machine", "four machines"])
def test_of_four_workers_one_is_killed_and_no_trial_is_lost_or_counted_twice(database, are_machines):
    num_trials, storage = 16, database.get_uri()
    study = open_study(storage, "shared", "tiny", SweepSettings(num_splits=2, num_steps=3))
    machines = [f"machine {number}" if are_machines else "" for number in range(4)]
    workers = [start_worker(storage, num_trials, 2, machine, seconds=0.4) for machine in machines]
    victim = None
    while victim is None:
        assert all(worker.poll() is None for worker in workers)
        time.sleep(0.05)
        trials = study.get_trials(deepcopy=False)
        running = {t.user_attrs["worker"][1]: t for t in trials if t.state is TrialState.RUNNING}
        is_in_the_middle = sum(t.state.is_finished() for t in trials) >= 4 and len(running) == len(workers)
        victim = next((worker for worker in workers if is_in_the_middle and worker.pid in running), None)
    os.kill(victim.pid, signal.SIGKILL)
    victim.communicate()
    assert victim.returncode == -signal.SIGKILL
    taken = [
        t.number for t in study.trials if t.state is TrialState.RUNNING and t.user_attrs["worker"][1] == victim.pid
    ]
    assert taken
    answers = answers_of([worker for worker in workers if worker is not victim])
    trials = study.trials
    assert [trial.number for trial in trials] == [*range(num_trials)]
    assert {trial.state for trial in trials} <= {TrialState.COMPLETE, TrialState.PRUNED}
    assert all(trials[number].user_attrs["worker"][1] != victim.pid for number in taken)
    scores = {trial.number: trial.value for trial in trials if trial.state is TrialState.COMPLETE}
    assert study.best_value == max(scores.values())
    best = best_trials(study, 1)[0]
    assert best.value == study.best_value
    assert answers == [[num_trials, 0, best.number]] * 3
    study.close()


@pytest.mark.slow
def test_a_password_comes_from_the_environment_or_a_file_and_is_written_nowhere(database, tmp_path, monkeypatch):
    secret = "Geheim7QX"
    engine = sqlalchemy.create_engine(database.get_uri(), poolclass=sqlalchemy.pool.NullPool)
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text(f"CREATE ROLE worker LOGIN PASSWORD '{secret}' SUPERUSER"))
        rules = Path(connection.execute(sqlalchemy.text("SHOW hba_file")).scalar_one())
    owner = rules.read_text()
    rules.write_text(f"local all worker scram-sha-256\n{owner}")
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("SELECT pg_reload_conf()"))
    host = sqlalchemy.engine.make_url(database.get_uri()).query["host"]
    url = f"postgresql://worker@/postgres?host={host}"
    with pytest.raises(InputError, match="a postgresql database that answers, got: .*password"):
        open_study(url, "tiny", "tiny", SETTINGS)
    folder = tmp_path / "own"
    folder.mkdir()
    service = tmp_path / "services.conf"
    service.write_text(f"[study]\nhost={host}\ndbname=postgres\nuser=worker\npassword={secret}\n")
    passwords = tmp_path / "passwords"
    passwords.write_text(f"localhost:5432:studies:worker:Other6YB\n*:*:postgres:worker:{secret}\n")
    passwords.chmod(0o600)  # of a file that others may read, the driver takes nothing
    ways = [
        (url, {"PGPASSWORD": secret}),
        (url, {"PGPASSFILE": str(passwords)}),
        ("postgresql:///?service=study", {"PGSERVICEFILE": str(service)}),
    ]
    for storage, environment in ways:
        worker = start_worker(storage, 4, 2, **environment)
        printed, complaint = worker.communicate(timeout=300)
        assert worker.returncode == 0, complaint
        assert secret not in printed + complaint
        command = Forked(COMMAND, folder, storage, **environment)
        printed, complaint = command.communicate(timeout=300)
        assert command.returncode == 0, complaint
        assert secret not in printed + complaint
    # Not in the recipe either, nor in whatever else was written.
    written = [path for path in folder.rglob("*") if path.is_file()]
    assert "command.toml" in [path.name for path in written]
    assert not any(secret.encode() in path.read_bytes() for path in written)
    passwords.write_text("*:*:*:worker:Wrong8ZJ\n")
    for name, wrong in {"PGPASSWORD": "Wrong8ZJ", "PGPASSFILE": str(passwords)}.items():
        with monkeypatch.context() as patch:
            patch.setenv(name, wrong)
            with pytest.raises(InputError, match="password authentication failed") as caught:
                open_study(url, "tiny", "tiny", SETTINGS)
        assert "Wrong8ZJ" not in str(caught.value)
    with engine.begin() as connection:
        tables = sqlalchemy.inspect(connection).get_table_names()
        rows = [connection.execute(sqlalchemy.text(f"SELECT * FROM {table}")).all() for table in tables]
    assert tables
    assert secret not in str(rows)
    engine.dispose()


@pytest.mark.slow
@pytest.mark.parametrize("searched", ["nodes", "table"])
def test_processes_of_torchrun_share_one_sweep_and_the_first_one_reports(searched, tmp_path):
    words = ["cora", "--system", "TDE-GNN_D", "--splits", "2"]
    if searched == "table":
        values = np.random.default_rng(0).normal(size=(80, 3)).cumsum(axis=0)
        pd.DataFrame(values, pd.date_range("2020-01-01", periods=80, name="time"), list("abc")).to_csv(
            tmp_path / "table.csv"
        )
        (tmp_path / "links.csv").write_text("source,target\na,b\nb,c\n")
        words = ["table.csv", "--edges", "links.csv", "--horizon", "2", "--members", "1", "--quiet"]
    printed = run_together(OF_TORCHRUN, tmp_path, 2, *words, "--trials", "7", "--batch", "2")
    assert printed.count("shared: ") == 1
    assert "of 7 trials" in printed
    assert "other processes run" not in printed
    assert (tmp_path / "runs/sweeps/shared.toml").exists()
    study = StoredStudy("shared", place_of(str(tmp_path / "runs/sweeps/shared.journal")))
    trials = study.trials
    study.close()
    assert [trial.number for trial in trials] == [*range(7)]
    assert {trial.state for trial in trials} <= {TrialState.COMPLETE, TrialState.PRUNED}
    assert len({trial.user_attrs["worker"][1] for trial in trials}) == 2


def test_a_worker_that_is_alive_keeps_its_trials_however_long_they_take(tmp_path, monkeypatch):
    monkeypatch.setattr(batches, "BEAT_EVERY", 0.05)
    monkeypatch.setattr(batches, "SILENT_AFTER", 0.4)
    monkeypatch.setattr(batches, "_is_alive", lambda process: True)  # as of a process on another machine
    storage = f"sqlite:///{tmp_path / 'study.db'}"
    taken = []

    def slow(*arguments, **options):
        time.sleep(0.8)
        other = open_study(storage, "tiny", "tiny", SETTINGS)
        taken.append(batches.take_over(other, 8))
        other.close()
        return rigged(*arguments, **options)

    study = open_study(storage, "tiny", "tiny", SETTINGS)
    run_sweep(TINY, study, SETTINGS, num_trials=2, batch_size=2, num_finalists=1, train=slow)
    assert taken[:2] == [[], []]
    taken.clear()
    monkeypatch.setattr(batches, "BEAT_EVERY", 100.0)
    run_sweep(TINY, study, SETTINGS, num_trials=4, batch_size=2, num_finalists=1, train=slow)
    assert len(taken[0]) == 2  # without a sign of life
    study.close()


def test_optuna_sees_the_same_best(tmp_path):
    """The best of a study is that of its complete trials."""
    study = open_study(tmp_path / "study", "tiny", "tiny", SETTINGS)
    for value in (0.25, 0.75, 0.5):
        study.add_trial(optuna.create_trial(value=value))
    assert best_trials(study, 1)[0].value == study.best_value == 0.75
