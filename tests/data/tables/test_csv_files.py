import os
import subprocess
import sys

import pytest

from tdegnn import InputError
from tdegnn.data.tables.csv_files import check_file


def test_a_file_that_is_not_there_is_guessed(tmp_path):
    (tmp_path / "cases.csv").write_text("a,b\n")
    with pytest.raises(InputError, match=r"a file at .*casess.csv, got none. Did you mean .*/cases.csv\?"):
        check_file(tmp_path / "casess.csv")
    for near in ("cases", "CASES.CSV", "Cases"):
        with pytest.raises(InputError, match=r"Did you mean .*/cases.csv\?"):
            check_file(tmp_path / near)
    for missing in ("borders.parquet", "nowhere/cases.csv"):
        with pytest.raises(InputError, match="got none. Check the path."):
            check_file(tmp_path / missing)


def test_a_pipe_is_not_called_empty(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="which is a pipe or a device. Write it to a file first."):
        check_file(tmp_path / "pipe")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "casess.csv"], "Expected a file at casess.csv"),
        (["backtest", "here.csv", "--edges", "borders.csv"], "Expected a file at borders.csv"),
        (["order", "chickenpoxx"], "Did you mean 'chickenpox'?"),
        (["classify", "coraa"], "Did you mean 'cora'?"),
        (["classify", "--features", "none.csv", "--labels", "here.csv", "--edges", "here.csv"], "a file at none.csv"),
        (["predict", "run", "--series", "nwe.csv"], "Expected a file at nwe.csv"),
    ],
)
def test_a_mistyped_name_is_said_before_anything_heavy_is_imported(arguments, message, tmp_path):
    (tmp_path / "here.csv").write_text("a,b\n")
    program = (
        "import sys\nfrom tdegnn.cli import main\n"
        "try:\n    main(sys.argv[1:])\nfinally:\n    print({'torch', 'pandas', 'scipy'} & set(sys.modules))"
    )
    came = subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (came.returncode, came.stdout) == (2, "set()\n")
    assert message in came.stderr
