import numpy as np
import pandas as pd
import polars
import pytest

from tdegnn import InputError
from tdegnn.data.csv_files import CsvFormat
from tdegnn.data.series_tables import read_panel

DAYS = pd.date_range("2024-01-01", periods=6)


def write(tmp_path, text, name="series.csv", encoding="utf-8"):
    path = tmp_path / name
    path.write_bytes(text.encode(encoding))
    return path


def test_a_wide_table(tmp_path):
    panel = read_panel(write(tmp_path, "date,Paris,Rome\n2024-01-01,1,2\n2024-01-02,,4\n2024-01-03,5,0\n"))
    assert panel.nodes == ("Paris", "Rome")
    np.testing.assert_array_equal(panel.values[..., 0], [[1, 2], [np.nan, 4], [5, 0]])
    assert panel.observed[2, 1, 0]  # zero is a value
    assert panel.name == "series"


def test_a_long_table_with_any_names_of_columns(tmp_path):
    text = "county,week,cases,rain,remark\n007,2024-01-01,1,0.5,none\n008,2024-01-01,2,,heavy\n007,2024-01-08,3,1,\n"
    path = write(tmp_path, text)
    panel = read_panel(path, node="county", time="week", value="cases", exogenous="rain")
    assert (panel.nodes, panel.channels, panel.num_targets) == (("007", "008"), ("cases", "rain"), 1)
    np.testing.assert_array_equal(panel.values[..., 0], [[1, 2], [3, np.nan]])
    np.testing.assert_array_equal(panel.values[..., 1], [[0.5, np.nan], [1, np.nan]])


def test_a_long_table_with_usual_names_needs_no_words(tmp_path):
    path = write(tmp_path, "unique_id,ds,y,x\na,1,1,5\nb,1,2,6\na,2,3,7\nb,2,4,8\n")
    panel = read_panel(path)
    assert (panel.nodes, panel.channels, panel.num_targets) == (("a", "b"), ("y", "x"), 1)


def test_names_that_differ_by_spaces_are_one_node(tmp_path):
    panel = read_panel(write(tmp_path, "node,time,value\na,1,1\n a ,2,2\n"))
    assert panel.nodes == ("a",)


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_separators_are_found(tmp_path, separator):
    text = "time,A,B\n1,2,3\n2,4,5\n".replace(",", separator)
    assert read_panel(write(tmp_path, text)).values[..., 0].tolist() == [[2, 3], [4, 5]]


def test_csv_as_spreadsheets_write_it(tmp_path):
    text = "time;Zürich;B\r\n1;2,5;3\r\n2;4,5;5\r\n\r\n"
    path = write(tmp_path, text, encoding="latin-1")
    panel = read_panel(path, csv_format=CsvFormat(decimal=",", encoding="latin-1"))
    assert panel.nodes == ("Zürich", "B")
    assert panel.values[..., 0].tolist() == [[2.5, 3], [4.5, 5]]
    utf16 = write(tmp_path, text, encoding="utf-16")
    assert read_panel(utf16, csv_format=CsvFormat(decimal=",", encoding="utf-16")).equals(panel)


def test_frames_with_times_in_the_index():
    frame = pd.DataFrame({"A": range(6), "B": range(6)}, index=DAYS)
    assert read_panel(frame).nodes == ("A", "B")
    assert read_panel(frame.rename_axis("when")).times.equals(read_panel(frame).times)
    both = frame.stack().rename_axis(["time", "node"]).rename("value").reset_index()
    assert read_panel(both).equals(read_panel(frame))
    assert read_panel(polars.from_pandas(both)).equals(read_panel(frame))


def test_columns_named_by_numbers_and_categories():
    frame = pd.DataFrame({"time": [1, 2], 0: [1.0, 2.0], 1: [3.0, 4.0]})
    assert read_panel(frame).nodes == ("0", "1")
    categories = pd.Categorical(["a", "b"], categories=["z", "a", "b"])
    long = pd.DataFrame({"node": categories, "time": [1, 1], "value": [1.0, 2.0]})
    assert read_panel(long).nodes == ("a", "b")


def test_dates_without_time_of_day_in_parquet(tmp_path):
    path = tmp_path / "series.parquet"
    pd.DataFrame({"A": range(6), "day": DAYS.date}).to_parquet(path)
    assert read_panel(path).times.equals(DAYS.as_unit("us"))


def test_a_zone_is_given_or_converted_to():
    frame = pd.DataFrame({"A": range(6)}, index=DAYS)
    assert read_panel(frame, time_zone="Europe/Berlin").time_zone == "Europe/Berlin"
    utc = read_panel(frame.tz_localize("UTC"), time_zone="Asia/Tokyo")
    assert utc.times[0] == pd.Timestamp("2024-01-01 09:00", tz="Asia/Tokyo")


def test_a_table_where_no_two_nodes_share_a_time_is_refused():
    frame = pd.DataFrame({"node": range(300), "time": range(300), "value": range(300)})
    with pytest.raises(InputError, match="300 nodes and 300 steps for 300 rows. Check which columns"):
        read_panel(frame.assign(node=frame.node.astype(str)))


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (3, {}, "a path, or a pandas or polars frame, got int. For arrays use Panel.from_array"),
        (pd.DataFrame({"time": [1], "A": [1 + 2j]}), {}, "Expected"),
        (pd.DataFrame([[1, 2, 3]], columns=["time", "A", "A"]), {}, "each column of the frame once, got 'A' twice"),
        (pd.DataFrame({"time": [1], "A": [1]}), {"value": "A"}, "a column of nodes to go with the values 'A'"),
        (pd.DataFrame({"node": ["a"], "time": [1], "A": [1]}), {"exogenous": "A"}, "a column of values"),
        (pd.DataFrame({"node": ["a"], "time": [1], "A": [1]}), {"node": "A"}, "Expected"),
        (pd.DataFrame({"time": [True], "A": [1]}), {}, "times in column 'time' of the frame, got bool"),
    ],
)
def test_wrong_frames_are_refused(source, options, message):
    with pytest.raises(InputError, match=message):
        read_panel(source, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"separator": "::"}, "a separator of one character, got '::'"),
        ({"decimal": "x"}, "the decimal sign '.' or ',', got 'x'"),
        ({"encoding": "klingon"}, "an encoding such as utf-8 or latin-1, got 'klingon'"),
    ],
)
def test_wrong_formats_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        CsvFormat(**options)
