"""Sweeps that are killed, and a database server that goes away."""

import warnings

import pytest
import sqlalchemy

from tdegnn import InputError
from tdegnn.experiments.studies import open_study
from tdegnn.experiments.sweep import run_sweep
from tests.experiments.test_sweep import SETTINGS, TINY, rigged, sweep
from tests.faults.sweep_kills import facts, kill_a_training_sweep

pytestmark = pytest.mark.slow


@pytest.fixture
def database(tmp_path):
    pgserver = pytest.importorskip("pgserver", reason="there is no PostgreSQL to try")
    tmp_path.chmod(0o755)  # as root, PostgreSQL runs as a user of its own
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a runtime folder that is not set
        server = pgserver.get_server(tmp_path / "data", cleanup_mode="delete")
    yield server
    server.cleanup()


@pytest.mark.parametrize(("kind", "seed"), [("journal", 5), ("sqlite", 7)])
def test_a_killed_sweep_is_continued_as_if_nothing_had_happened(tmp_path, kind, seed):
    kill_a_training_sweep(kind, seed, tmp_path)


def test_a_killed_sweep_in_postgresql_is_continued_as_if_nothing_had_happened(tmp_path, database):
    kill_a_training_sweep("postgresql", 3, tmp_path, database.get_uri())


def test_a_lost_connection_is_made_again_and_a_lost_server_is_one_line(tmp_path, database):
    undisturbed, wanted = sweep(tmp_path / "alone")
    engine = sqlalchemy.create_engine(database.get_uri(), poolclass=sqlalchemy.pool.NullPool)
    others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid != pg_backend_pid() AND usename != ''"

    def losing(*arguments, **options):
        with engine.begin() as connection:
            connection.execute(sqlalchemy.text(others))
        return rigged(*arguments, **options)

    study, result = sweep(database.get_uri(), train=losing)
    assert (facts(study), result) == (facts(undisturbed), wanted)
    study.close()

    def stopping(*arguments, **options):
        database.cleanup()
        return rigged(*arguments, **options)

    study = open_study(database.get_uri(), "another", "tiny", SETTINGS)
    with pytest.raises(InputError, match="a postgresql database that answers, got: .*run the same again") as caught:
        run_sweep(TINY, study, SETTINGS, num_trials=4, train=stopping)
    study.close()
    assert "\n" not in str(caught.value)
