"""A study in a database: SQLite, PostgreSQL or MySQL, through Optuna and SQLAlchemy.

Passwords come from the environment or from files of the database's own (`PASSWORDS`), not from a URL: commands are seen
in lists of processes, and kept by shells. A URL is checked before SQLAlchemy reads it, and messages repeat nothing of
it, neither our own nor those of drivers: it may hold a password by mistake.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, unquote_plus

from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage

from tdegnn.errors import InputError
from tdegnn.files import locked

DATABASES = ("sqlite", "postgresql", "mysql")
# Seconds to wait for the lock of a database that other processes use.
LONGEST_WAIT = 60
# Statements that wait for a lock, which ends with the connection.
LOCKS = {
    "postgresql": "SELECT pg_advisory_xact_lock(7377638116217265)",
    "mysql": f"SELECT GET_LOCK('tdegnn sweep', {LONGEST_WAIT})",
}
# Statements that return the time of a server, in seconds.
CLOCKS = {"postgresql": "SELECT EXTRACT(EPOCH FROM clock_timestamp())", "mysql": "SELECT UNIX_TIMESTAMP(NOW(6))"}
# Where the drivers find a password.
PASSWORDS = {
    "postgresql": "Set PGPASSWORD, or keep it in ~/.pgpass (PGPASSFILE) or in a service file (PGSERVICEFILE, with "
    "postgresql:///?service=NAME).",
    "mysql": "Keep it in an option file, mysql://USER@HOST/DATABASE?read_default_file=FILE.",
}

_DRIVER = r"(?:\+[a-z0-9_]{1,30})?"
# A letter of a name or password. Those that separate the parts of a URL are written as % and two digits.
_LETTER = r"(?:[\w.~!$'()*+,;=-]|%[0-9A-Fa-f]{2})"
_SERVER = re.compile(
    rf"(?:postgresql|mysql){_DRIVER}://"
    rf"(?:(?P<user>{_LETTER}*)(?::(?P<password>(?:{_LETTER}|[:&])*))?@)?"
    rf"(?P<host>\[[0-9A-Fa-f:.]+\]|[\w.-]*)(?::(?P<port>[0-9]{{1,5}}))?"
    rf"(?:/(?P<database>{_LETTER}*))?"
    rf"(?:\?(?P<query>(?:{_LETTER}|[&/:])*))?"
)
# Slashes and a path, without the user and the password of a server.
_SQLITE = re.compile(rf"sqlite{_DRIVER}://(?:/(?!.*:.*@).*)?", re.DOTALL)
_URL_WITH_A_MISTAKE = re.compile(
    r"\s*(?:sqlite|postgre\w*|pgsql|psql|mysql|mariadb)(?:\+\w*)?\s*:"  # such as postgresql:/user:password@host
    r"|.*:.*@|.*(?:password|passwd|pwd)\s*=|.*://",
    re.DOTALL | re.IGNORECASE,
)
_PASSWORD_IN_QUERY = re.compile(r"(?:^|&)(?:password|passwd|pwd|sslpassword)=", re.IGNORECASE)
_DRIVE = re.compile(r"^[A-Za-z]:[\\/]")


def is_database(storage: str) -> bool:
    """Return whether a storage is the URL of a database. Otherwise it is a file.

    Raises:
        InputError: It is neither, but the URL of something else, or one with a mistake.
    """
    scheme, separator, _ = storage.partition("://")
    if separator and re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]{0,30}", scheme):
        if scheme.split("+")[0] not in DATABASES:
            raise InputError(f"Expected storage to be a file or a URL of {', '.join(DATABASES)}, got {scheme}://...")
        server = _SERVER.fullmatch(storage)
        if not server and not _SQLITE.fullmatch(storage):
            raise _mistake()
        if server and (server["password"] or _PASSWORD_IN_QUERY.search(unquote_plus(server["query"] or ""))):
            raise InputError(
                "Expected storage to be a URL without a password, which others could read in the list of processes, "
                f"got one with a password. {PASSWORDS[scheme.split('+')[0]]}"
            )
        return True
    # `C:/` is a drive of Windows, and no part of a URL.
    if _URL_WITH_A_MISTAKE.match(_DRIVE.sub("", storage, count=1)):
        raise _mistake()
    return False


def _mistake() -> InputError:
    return InputError(
        "Expected storage to be a file or a URL such as postgresql://USER@HOST/DATABASE or sqlite:///FILE, got "
        "something else, which is not repeated here because it may hold a password. Keep the password out of it: "
        f"{PASSWORDS['postgresql']}"
    )


class StudyDatabase:
    """The database of a study.

    Args:
        url: Its URL, for which `is_database` returned True.
    """

    def __init__(self, url: str) -> None:
        from sqlalchemy import create_engine
        from sqlalchemy.pool import NullPool

        self._url = url
        self._scheme = url.partition("://")[0]
        self._kind = self._scheme.split("+")[0]
        with self._with_driver():
            self._engine = create_engine(url, poolclass=NullPool)

    def open(self) -> RDBStorage:
        """Return Optuna's view of the database. Tables are created if there are none.

        Raises:
            InputError: The database does not answer, or was made by another version of Optuna.
        """
        # After hours of training a server may have closed the connection: try it before it is used.
        options = {"connect_args": {"timeout": LONGEST_WAIT}} if self._kind == "sqlite" else {"pool_pre_ping": True}
        with self._with_driver():
            return RDBStorage(self._url, engine_kwargs=options)

    @contextmanager
    def _with_driver(self) -> Iterator[None]:
        try:
            with self.explained():
                yield
        except ImportError as error:
            hint = "pip install 'tdegnn[postgresql]'" if self._kind == "postgresql" else "install one"
            raise InputError(f"Expected a driver for {self._scheme}, got none: {hint}.") from error
        except (RuntimeError, ValueError) as error:
            raise error if isinstance(error, InputError) else self._silent(error) from error

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other processes from creating tables and from taking trials. They can still read and write."""
        from sqlalchemy import text

        if self._kind != "sqlite":
            with self._engine.begin() as connection:
                connection.execute(text(LOCKS[self._kind]))
                yield
            return
        file = Path(os.path.realpath(self._engine.url.database or ":memory:"))
        # No lock for a database in memory, which has one process, nor for one that cannot be opened.
        if file.name.startswith((":memory:", "file:")) or not file.parent.is_dir():
            yield
            return
        with locked(file):
            yield

    def now(self) -> float:
        """Return the time in seconds, on the clock of the server: those of several machines may differ."""
        from sqlalchemy import text

        if self._kind not in CLOCKS:
            return time.time()
        with self._engine.connect() as connection:
            return float(connection.execute(text(CLOCKS[self._kind])).scalar_one())

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn errors of the storage into an `InputError`."""
        from sqlalchemy.exc import SQLAlchemyError

        try:
            yield
        except (SQLAlchemyError, StorageInternalError) as error:
            raise self._silent(error) from error

    def _silent(self, error: BaseException) -> InputError:
        """Return the error for one of the database, without anything that the URL holds."""
        while isinstance(error.__cause__, Exception):  # Optuna's error says less than the one that it was made from
            error = error.__cause__
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        for secret in sorted(self._secrets(), key=len, reverse=True):
            reason = reason.replace(secret, "***")
        return InputError(
            f"Expected a {self._scheme} database that answers, got: {reason.rstrip('.')}. Nothing that it stored is "
            "lost. Check the URL and the database, then run the same again."
        )

    def _secrets(self) -> set[str]:
        """Return the words of the URL of a server, any of which may be a secret by mistake, and the password."""
        found = _SERVER.fullmatch(self._url)
        words = {word for part in found.groups() if part for word in re.split("[&=/]", part)} if found else set()
        words.add(os.environ.get("PGPASSWORD", ""))
        return {read for word in words for read in (word, unquote(word), unquote_plus(word)) if len(read) > 2}
