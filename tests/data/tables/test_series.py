import numpy as np
import pandas as pd
import polars
import pytest

from tdegnn import InputError
from tdegnn.data.panel import Panel
from tdegnn.data.tables.csv_files import CsvFormat
from tdegnn.data.tables.series import panel_to_frame, read_panel, write_series

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


def test_a_wide_table_may_have_a_node_called_id(tmp_path):
    text = "date,CA,ID,NY\n" + "".join(f"2024-01-{day:02},{day},{day % 4},{2 * day}\n" for day in range(1, 21))
    assert read_panel(write(tmp_path, text)).nodes == ("CA", "ID", "NY")
    assert read_panel(pd.DataFrame({"date": DAYS, "id": range(6), "x": range(6)})).nodes == ("id", "x")


def test_a_long_table_sorted_by_node_and_one_with_a_single_node(tmp_path):
    rows = "".join(f"{node},{step},{step}\n" for node in "ab" for step in range(300))
    assert read_panel(write(tmp_path, "id,time,value\n" + rows)).nodes == ("a", "b")
    assert read_panel(write(tmp_path, "id,time,value\na,1,5\na,2,6\n")).nodes == ("a",)


def test_row_numbers_are_no_data(tmp_path):
    frame = pd.DataFrame({"date": DAYS, "A": range(6), "B": range(6)})
    long = frame.melt("date", var_name="node")
    for part in (long[long.value > 0], long.sort_values("value"), long.dropna()):
        assert read_panel(part).channels == ("value",)
    assert read_panel(frame[frame.A > 1]).nodes == ("A", "B")
    frame[frame.A > 1].to_parquet(tmp_path / "filtered.parquet")
    assert read_panel(tmp_path / "filtered.parquet").nodes == ("A", "B")
    frame.to_csv(tmp_path / "with_index.csv")
    assert read_panel(tmp_path / "with_index.csv").nodes == ("A", "B")
    long.to_csv(tmp_path / "long_with_index.csv")
    assert read_panel(tmp_path / "long_with_index.csv").channels == ("value",)


def test_the_usual_name_of_a_value_is_the_target_and_the_choice_is_told(tmp_path):
    panel = read_panel(write(tmp_path, "unique_id,ds,price,y\na,1,5,1\na,2,6,2\n"))
    assert panel.channels == ("y", "price")
    assert panel.notes[0] == "The column 'y' is forecast; the other columns only help. Pass another with value=."


def test_a_usual_name_comes_before_a_type():
    frame = pd.DataFrame({"id": ["a", "a"], "time": [1, 2], "updated": DAYS[:2], "value": [1.0, 2.0]})
    assert read_panel(frame, value="value").times.tolist() == [1, 2]


def test_two_spellings_of_a_time_are_one_time(tmp_path):
    panel = read_panel(write(tmp_path, "id,time,value\na,2024-01-01,1\nb,2024-01-01 00:00,2\na,2024-01-02,3\n"))
    np.testing.assert_array_equal(panel.values[..., 0], [[1, 2], [3, np.nan]])


def test_polars_frames_with_text(tmp_path):
    frame = polars.DataFrame({"date": [str(day.date()) for day in DAYS], "A": range(6)})
    assert read_panel(frame).times.equals(DAYS.as_unit("us"))
    with pytest.raises(InputError, match="numbers in column 'A' of the frame, got text"):
        read_panel(frame.with_columns(polars.lit("x").alias("A")))


def test_decimal_commas_in_times_and_in_names(tmp_path):
    text = "time;0,5 m;1,5 m\n0,5;1,5;2\n1,0;2,5;3\n"
    panel = read_panel(write(tmp_path, text), csv_format=CsvFormat(decimal=","))
    assert (panel.nodes, panel.times.tolist()) == (("0,5 m", "1,5 m"), [0.5, 1.0])


def test_an_index_that_is_a_column_too_and_periods():
    frame = pd.DataFrame({"date": DAYS, "A": range(6)})
    assert read_panel(frame.set_index("date", drop=False)).nodes == ("A",)
    months = pd.DataFrame({"A": range(6)}, index=pd.period_range("2024-01", periods=6, freq="M"))
    assert read_panel(months).times.equals(pd.date_range("2024-01-01", periods=6, freq="MS", unit="us"))


def test_numbers_too_large_for_a_float_are_rounded():
    assert read_panel(pd.DataFrame({"time": [1, 2], "A": [2**60 + 1, 5]})).values[0, 0, 0] == 2.0**60


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
        (pd.DataFrame({"time": [True], "A": [1]}), {}, "dates in column 'time' of the frame, got bool"),
        (pd.DataFrame({"time": [0.5, 1.5], "A": [1, 2]}), {"time_zone": "UTC"}, "dates in column 'time' of the frame"),
        (pd.Series([1.0, 2.0]), {}, "a path, or a pandas or polars frame, got Series"),
        (pd.DataFrame({"time": [1], "A": [10**30]}), {}, "columns of numbers, text or dates in the frame"),
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
        ({"decimal": ",", "separator": ","}, "the decimal sign '.' or ',', got ',' as separator too"),
        ({"encoding": "a\0b"}, "an encoding such as utf-8"),
        ({"encoding": "klingon"}, "an encoding such as utf-8 or latin-1, got 'klingon'"),
    ],
)
def test_wrong_formats_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        CsvFormat(**options)


@pytest.mark.parametrize(("last", "is_told"), [("2024-01-03", False), ("2023-12-31", True)])
def test_a_table_that_goes_through_the_nodes_is_in_order_where_each_of_them_is(tmp_path, last, is_told):
    rows = [("A", "2024-01-01"), ("A", "2024-01-02"), ("A", "2024-01-04")]
    rows += [("B", "2024-01-01"), ("B", "2024-01-02"), ("B", last)]
    path = tmp_path / "long.csv"
    path.write_text("node,time,value\n" + "".join(f"{node},{time},1\n" for node, time in rows))
    assert any("not in order" in note for note in read_panel(path).notes) == is_told


@pytest.mark.parametrize("make", [lambda frame: frame, lambda frame: frame.set_index("time"), polars.from_pandas])
@pytest.mark.parametrize("given", ["wide", "long"])
@pytest.mark.parametrize("layout", ["wide", "long"])
def test_frames_are_written_where_panels_are(tmp_path, make, given, layout):
    panel = Panel.from_array([[1.0, 2.0], [3.0, np.nan]], nodes=["a", "b"], times=DAYS[:2])
    frame = make(panel_to_frame(panel, given))
    pd.testing.assert_frame_equal(panel_to_frame(frame, layout), panel_to_frame(panel, layout))
    for name, series in (("panel", panel), ("frame", frame)):
        write_series(series, tmp_path / f"{name}.csv", layout)
    assert (tmp_path / "frame.csv").read_bytes() == (tmp_path / "panel.csv").read_bytes()


@pytest.mark.parametrize("write_to", [panel_to_frame, lambda series: write_series(series, "series.csv")])
def test_what_is_no_panel_is_one_line(write_to):
    with pytest.raises(InputError, match="Expected a Panel, or a pandas or polars frame, got "):
        write_to(np.zeros((2, 2)))
