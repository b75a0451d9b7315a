import errno
import os

import pandas as pd
import pytest

from tdegnn.cli.tables import check_table, write_table
from tdegnn.errors import InputError

DAYS = pd.date_range("2024-03-30", periods=3, freq="D")


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_days_are_written_without_a_time_of_day(tmp_path, zone):
    frame = pd.DataFrame({"time": DAYS.tz_localize(zone), "node": ["a", "b", "c"], "forecast": [1.5, 2.0, 1 / 3]})
    write_table(frame, tmp_path / "new" / "out.csv")
    text = (tmp_path / "new" / "out.csv").read_text()
    assert text == "time,node,forecast\n2024-03-30,a,1.5\n2024-03-31,b,2\n2024-04-01,c,0.33333333\n"


def test_hours_are_written_in_iso_8601(tmp_path):
    write_table(pd.DataFrame({"time": pd.date_range("2024-03-30", periods=2, freq="h")}), tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == "time\n2024-03-30 00:00:00\n2024-03-30 01:00:00\n"


def test_spreadsheets_are_told_of_other_letters(tmp_path):
    frame = pd.DataFrame({"node": ["Győr"], "forecast": [1.5]})
    write_table(frame, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_bytes().startswith(b"\xef\xbb\xbf")
    assert pd.read_csv(tmp_path / "out.csv").equals(frame)


def test_parquet_keeps_everything(tmp_path):
    frame = pd.DataFrame({"time": DAYS.tz_localize("Europe/Berlin"), "forecast": [1 / 3] * 3})
    write_table(frame, tmp_path / "out.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "out.parquet"), frame, check_dtype=False)


def test_what_was_there_stays_where_the_disk_is_full(tmp_path, monkeypatch):
    def refuse(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "out.csv"
    path.write_text("old")
    monkeypatch.setattr("tdegnn.files.os.fsync", refuse)
    with pytest.raises(InputError, match="Expected free disk space for"):
        write_table(pd.DataFrame({"a": [1]}), path)
    assert [(entry.name, entry.read_text()) for entry in tmp_path.iterdir()] == [("out.csv", "old")]


def test_what_cannot_be_written_is_refused_before(tmp_path):
    with pytest.raises(InputError, match="ends in .csv or .parquet, got out.xlsx"):
        check_table(tmp_path / "out.xlsx")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError, match="got the folder"):
        check_table(tmp_path / "folder.csv")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="Choose another folder"):
        check_table(tmp_path / "file" / "out.csv")


def test_times_that_are_numbers_keep_all_digits(tmp_path):
    write_table(
        pd.DataFrame({"time": [1.7e9 + 60, 1.7e9 + 60.5], "forecast": [1 / 3, 2.0]}), tmp_path / "new" / "a.csv"
    )
    lines = (tmp_path / "new" / "a.csv").read_text().splitlines()
    assert lines[1:] == ["1700000060.0,0.33333333", "1700000060.5,2"]


def test_a_check_leaves_no_folder(tmp_path):
    check_table(tmp_path / "a" / "b" / "out.csv")
    assert not list(tmp_path.iterdir())
