import pytest

from tdegnn import InputError, NodeClassifier
from tdegnn.torchrun import Launch, read_launch, takes_the_word
from tdegnn.training import processes
from tdegnn.training.processes import ALONE, each_alone, join_processes
from tests.experiments.tiny_nodes import make_tiny_nodes

STARTED = {"RANK": "3", "WORLD_SIZE": "4", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}


def test_the_environment_says_who_this_process_is():
    assert read_launch({}) == Launch(0, 1, 0, 1)
    assert read_launch(STARTED) == Launch(3, 4, 0, 1)
    assert read_launch(STARTED | {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}) == Launch(3, 4, 1, 2)
    assert not read_launch(STARTED).is_first
    # Variables of the same name that something else has set.
    assert not read_launch({"WORLD_SIZE": "4"}).are_several
    assert not read_launch(STARTED | {"RANK": "first"}).are_several


def test_one_process_of_a_machine_speaks(tmp_path):
    folders = [tmp_path / "attempt_0" / str(rank) for rank in range(2)]
    for folder in folders:
        folder.mkdir(parents=True)
    files = [STARTED | {"TORCHELASTIC_ERROR_FILE": str(folder / "error.json")} for folder in folders]
    assert [takes_the_word(environment) for environment in files] == [True, False]
    assert takes_the_word({})
    assert takes_the_word(STARTED)
    assert takes_the_word(STARTED | {"TORCHELASTIC_ERROR_FILE": str(tmp_path / "none" / "0" / "error.json")})


def test_what_processes_cannot_share_is_refused_unless_each_is_alone(monkeypatch):
    monkeypatch.setattr(processes, "read_launch", lambda: Launch(0, 2))
    model = NodeClassifier(num_steps=2, device="cpu", network="diffusion", baselines=False)
    with pytest.raises(InputError, match="one process for a training on the whole graph, got 2. Start one, or give"):
        model.fit(make_tiny_nodes(), split=0)
    with each_alone():
        assert join_processes() == ALONE
        model.fit(make_tiny_nodes(), split=0)
