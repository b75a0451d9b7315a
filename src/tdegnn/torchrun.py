"""What `torchrun` tells the processes that it starts, read from the environment without torch.

All of them run the same command. Results and progress come from the first one. When something goes wrong, all of them
notice, and one speaks for the processes of its machine (`takes_the_word`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

# Without all of these, processes do not find each other.
NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
# The file of a process for its errors, in a folder that the processes of a machine share.
ERROR_FILE = "TORCHELASTIC_ERROR_FILE"


class Launch(NamedTuple):
    """The place of this process among those that were started together.

    Attributes:
        rank: Its number, from 0 on.
        size: How many there are.
        local_rank: Its number on this machine.
        local_size: How many there are on this machine.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this process prints."""
        return self.rank == 0

    @property
    def are_several(self) -> bool:
        """Whether there are other processes."""
        return self.size > 1


def read_launch(environment: Mapping[str, str] = os.environ) -> Launch:
    """Return the place of this process. It is the only one unless `torchrun` or something like it started more."""
    if not all(environment.get(name) for name in NEEDED):
        return Launch()
    rank, size = (environment[name] for name in NEEDED[:2])
    local_rank, local_size = environment.get("LOCAL_RANK", "0"), environment.get("LOCAL_WORLD_SIZE", "1")
    numbers = (rank, size, local_rank, local_size)
    if not all(number.isdecimal() for number in numbers):
        return Launch()
    return Launch(*map(int, numbers))


def takes_the_word(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether this process is the first of its machine to say why it ends. The others stay silent."""
    file = environment.get(ERROR_FILE)
    if not read_launch(environment).are_several or not file:
        return True
    try:
        # Whoever makes the file first has the word. torchrun makes the folder anew for every attempt.
        (Path(file).parent.parent / "said").touch(exist_ok=False)
    except FileExistsError:
        return False
    except OSError:  # the folder is gone
        return True
    return True
