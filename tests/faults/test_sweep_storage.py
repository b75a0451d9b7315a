"""What is left of a sweep whose storage is cut, full, damaged, shared from the start, or given with a secret."""

import json
import multiprocessing
import random
import resource
from contextlib import contextmanager

import optuna
import pytest
import sqlalchemy
from optuna.storages.journal import JournalFileBackend

from tdegnn import InputError
from tdegnn.experiments.search_space import SweepSettings
from tdegnn.experiments.studies import open_study
from tests.experiments.test_sweep import SETTINGS, sweep
from tests.faults import storage_urls
from tests.faults.sweep_kills import facts
from tests.forked import PRELOADED

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """A sweep that nothing disturbs: its file, its trials and its result."""
    storage = tmp_path_factory.mktemp("alone") / "study.journal"
    study, result = sweep(storage)
    return storage.read_bytes(), facts(study), result


def test_a_journal_that_was_cut_anywhere_is_continued(tmp_path, alone):
    content, *wanted = alone
    cuts = random.Random(0).sample(range(len(content)), 8)
    last = content.rindex(b"\n", 0, -1) + 1
    cuts += [last + 1, (last + len(content)) // 2, len(content) - 1]  # within the last line, and all but its line break
    for cut in cuts:
        storage = tmp_path / f"{cut}.journal"
        storage.write_bytes(content[:cut])
        study, result = sweep(storage)
        assert [facts(study), result] == wanted, cut
        assert all(json.loads(line) for line in storage.read_bytes().splitlines())


@contextmanager
def file_size_limit(num_bytes):
    """Writing more to a file fails, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_costs_a_journal_nothing(tmp_path, alone):
    content, *wanted = alone
    storage = tmp_path / "study.journal"
    for size in sorted(random.Random(1).sample(range(1, len(content)), 8)):
        with file_size_limit(size), pytest.raises(InputError, match="Expected to write .*study.journal, got a system"):
            sweep(storage)
        assert storage.read_bytes()[-1:] in (b"\n", b"")
    study, result = sweep(storage)
    assert [facts(study), result] == wanted


@pytest.fixture
def small_database():
    """SQLite databases of at most this many pages, which then say that the disk is full."""
    most = [0]

    def limit(connection, _):
        if most[0]:
            connection.execute(f"PRAGMA max_page_count = {most[0]}")

    sqlalchemy.event.listen(sqlalchemy.Engine, "connect", limit)
    yield most
    sqlalchemy.event.remove(sqlalchemy.Engine, "connect", limit)


def test_a_full_sqlite_is_one_line_and_costs_nothing(tmp_path, alone, small_database, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # Optuna waits before it tries again
    _, *wanted = alone
    storage = f"sqlite:///{tmp_path / 'study.db'}"
    open_study(storage, "tiny", "tiny", SETTINGS)
    pages = (tmp_path / "study.db").stat().st_size // 4096
    for extra in (0, 1):
        small_database[0] = pages + extra
        with pytest.raises(InputError, match="a sqlite database that answers, got: database or disk is full"):
            sweep(storage)
    small_database[0] = 0
    study, result = sweep(storage)
    assert [facts(study), result] == wanted


def test_a_damaged_journal_is_named_with_its_line(tmp_path, alone):
    lines = alone[0].splitlines(keepends=True)
    storage = tmp_path / "study.journal"
    for wrong in (b"{]", b"7", b"{}", b'{"op_code": 99, "worker_id": ""}', b'{"op_code": 5}', b"", b"\xff"):
        storage.write_bytes(b"".join([*lines[:6], wrong, b"\n", *lines[6:]]))
        before = storage.read_bytes()
        with pytest.raises(InputError, match="lines of a study in .*study.journal, got something else in line 7"):
            open_study(storage, "tiny", "tiny", SETTINGS)
        assert storage.read_bytes() == before
    for other in (b"hello", b"a,b\n1,2\n", b"\x00" * 100):
        storage.write_bytes(other)
        with pytest.raises(InputError, match="study.journal to hold a study, got another kind of file"):
            open_study(storage, "tiny", "tiny", SETTINGS)
        assert storage.read_bytes() == other
    with pytest.raises(InputError, match="to hold a study, got another kind of file"):
        open_study(tmp_path, "tiny", "tiny", SETTINGS)


def test_a_journal_of_optuna_is_continued(tmp_path, alone):
    """And Optuna reads ours."""
    storage = tmp_path / "study.journal"
    storage.write_bytes(alone[0])
    theirs = optuna.storages.JournalStorage(JournalFileBackend(str(storage)))
    study = optuna.load_study(study_name="tiny", storage=theirs)
    assert facts(study) == alone[1]
    study.set_user_attr("mine", 1)
    assert open_study(storage, "tiny", "tiny", SETTINGS).user_attrs["mine"] == 1


def open_many(storages, barrier):
    for storage in storages:
        barrier.wait(100)
        open_study(storage, "tiny", "tiny", SweepSettings())


def test_processes_that_start_together_all_open_a_new_study(tmp_path):
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(PRELOADED)
    barrier = server.Barrier(3)
    storages = [f"sqlite:///{tmp_path / f'study{index}.db'}" for index in range(8)]
    storages += [str(tmp_path / f"study{index}.journal") for index in range(8)]
    processes = [server.Process(target=open_many, args=(storages, barrier)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(200)
    assert [process.exitcode for process in processes] == [0] * 3


def test_secrets_in_urls_are_never_repeated(tmp_path):
    for seed in range(100):
        folder = tmp_path / str(seed)
        folder.mkdir()
        storage_urls.try_one(seed, folder)


@pytest.mark.parametrize("storage", ["postgresql:/me:Geheim7@host", "postgresql://me:Geh@eim7@localhost:1/x"])
def test_a_url_with_a_mistake_is_refused_and_makes_no_file(tmp_path, monkeypatch, storage):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="not repeated here because it may hold a password. Keep") as caught:
        open_study(storage, "tiny", "tiny", SETTINGS)
    assert "eim7" not in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["C:/studies/me@home", "a:b", "me@home", "post.gresql", "study 1"])
def test_ordinary_names_are_files(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    open_study(name, "tiny", "tiny", SETTINGS)
    assert (tmp_path / name).is_file()
