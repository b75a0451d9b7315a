import pytest

from tests.data.broken_inputs import REFUSED, USED, read_page, run

PAGE = read_page()


def titles(cases):
    return [case.title for case in cases]


@pytest.mark.parametrize("case", REFUSED, ids=titles(REFUSED))
def test_a_broken_table_gives_the_one_line_of_the_page(case, tmp_path):
    code, seen = run(case, tmp_path)
    assert code == 2
    assert seen.startswith(("Error: Expected ", "Error: In column "))
    assert seen.count("\n") == 1
    assert seen.strip() == PAGE[case.title]


@pytest.mark.parametrize("case", USED, ids=titles(USED))
def test_a_table_that_can_be_used_is_used_with_the_notes_of_the_page(case, tmp_path):
    code, seen = run(case, tmp_path)
    assert code == 0
    assert (seen or "nothing: it is read as it should be") == PAGE[case.title]


def test_the_page_has_a_row_for_each_case_and_there_are_many():
    assert set(titles(REFUSED + USED)) | {"the table"} == set(PAGE)
    assert len(REFUSED) >= 40
