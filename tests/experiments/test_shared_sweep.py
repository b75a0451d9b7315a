"""One study in one PostgreSQL database, and two processes that start at the same moment and share it."""

import os
import subprocess
import sys
import warnings

import pytest

pytestmark = pytest.mark.slow

pgserver = pytest.importorskip("pgserver", reason="there is no PostgreSQL to try")

WORKER = """
import sys
from tdegnn.experiments.search_space import SweepSettings
from tdegnn.experiments.studies import open_study
from tdegnn.experiments.sweep import run_sweep
from tests.experiments.tiny_nodes import make_tiny_nodes

settings = SweepSettings(num_splits=2, num_steps=3)
study = open_study(sys.argv[1], "shared", "tiny", settings)
result = run_sweep(make_tiny_nodes(), study, settings, num_trials=8, batch_size=2, num_finalists=1)
print(result.num_finished, result.num_running, len(result.finalists))
"""


@pytest.fixture
def database(tmp_path):
    tmp_path.chmod(0o755)  # as root, PostgreSQL runs as a user of its own
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a runtime folder that is not set
        server = pgserver.get_server(tmp_path / "data", cleanup_mode="delete")
    yield server
    server.cleanup()


@pytest.mark.slow
def test_processes_share_a_study_in_postgresql(database):
    import optuna

    environment = dict(os.environ, OMP_NUM_THREADS="1")
    command = [sys.executable, "-c", WORKER, database.get_uri()]
    workers = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    answers = []
    for worker in workers:
        printed, complaint = worker.communicate(timeout=300)
        assert worker.returncode == 0, complaint
        answers.append([int(part) for part in printed.split()])
    assert max(answers) == [8, 0, 1]  # the last to finish trains the best on all splits
    storage = optuna.storages.RDBStorage(database.get_uri())
    study = optuna.load_study(study_name="shared", storage=storage)
    trials = [trial for trial in study.trials if trial.state != optuna.trial.TrialState.FAIL]
    storage.remove_session()
    storage.engine.dispose()
    assert len(trials) == 8
    assert len({trial.user_attrs["worker"][1] for trial in trials}) == 2  # both had a part in it
