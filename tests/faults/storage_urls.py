"""URLs with secrets in them, most of them with a mistake: the secret must not be repeated, nor become a file."""

import random
from contextlib import chdir
from pathlib import Path
from urllib.parse import quote

from tdegnn.errors import TdegnnError
from tdegnn.experiments.search_space import SweepSettings
from tdegnn.experiments.studies import open_study

# Letters that no message has next to each other.
LETTERS, SPECIAL = "QXZJKV6789", "@:/?#%&=+ []\\'\"!;,|"
SHAPES = (
    "postgresql://me:{}@localhost:1/db",
    "postgresql+psycopg://me:{}@localhost:1/db?sslmode=disable",
    "postgresql://me:{}@[::1]:1/db",
    "postgresql://me:{}",
    "postgresql://me:{}@",
    "postgresql://{}@localhost:1/db",
    "postgresql://{}:x@localhost:1/db",
    "postgresql://localhost:1/{}",
    "postgresql://localhost:1/db?user=me&password={}",
    "postgresql://localhost:{}/db",
    "postgresql:/me:{}@host",
    "postgresql:me:{}@host",
    "postgresql//me:{}@host/db",
    "postgresql:///me:{}@host/db",
    "postgresql://///me:{}@host/db",
    "postgresql;//me:{}@host/db",
    "postgresql/me@host?password={}",
    "postgres://me:{}@host/db",
    "PostgreSQL:/me:{}@host",
    " postgresql:/me:{}@host",
    "postgresql :/me:{}@host",
    "postgresql+psycopg:/me:{}@host",
    "mysql:/me:{}@host",
    "mysql://me:{}@localhost:1/db",
    "mariadb:me:{}@host",
    "sqlite://me:{}@host/db",
    "sqlite:///me:{}@host",
    "sqlite:/me:{}@host",
    "http://me:{}@host/db",
    "me:{}@host/db",
    "//me:{}@host/db",
    "me:{}@host://db",
    "C:me:{}@host",
)


def try_one(seed: int, folder: Path) -> str:
    """Open a study at the URL of this seed."""
    chosen = random.Random(seed)
    secret = "".join(chosen.choice(LETTERS + SPECIAL * (chosen.random() < 0.5)) for _ in range(chosen.randint(4, 14)))
    shape = chosen.choice(SHAPES)
    url = shape.format(quote(secret, safe="") if chosen.random() < 0.3 else secret)
    message = ""
    with chdir(folder):
        try:
            open_study(url, "tiny", "tiny", SweepSettings())
        except TdegnnError as error:
            message = str(error)
    shown = f"{message} {[path.name for path in folder.rglob('*')]}"
    assert "\n" not in message, message
    for start in range(len(secret) - 2):
        piece = secret[start : start + 3]
        assert sum(letter in LETTERS for letter in piece) < 2 or piece not in shown, (url, shown)
    return "refused" if message else "read"
