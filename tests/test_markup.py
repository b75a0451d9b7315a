"""Text in HTML is escaped, unless it is HTML."""

import json

import pytest

from tdegnn.markup import Html, Page, element, join, table
from tdegnn.reports.sections import rounded, to_script


def test_children_and_attributes_are_escaped():
    made = element("p", "<b>", element("b", "a & b"), title='"quoted"', hidden=True, lang=None, draggable=False)
    assert made == '<p title="&quot;quoted&quot;" hidden>&lt;b&gt;<b>a &amp; b</b></p>'


def test_names_of_attributes_and_elements_without_content():
    assert element("input", class_="find", aria_label="x") == '<input class="find" aria-label="x">'


def test_a_table_names_its_rows():
    made = table(["node", "error"], [["<A>", 1.5]], caption="Errors")
    assert "<caption>Errors</caption>" in made
    assert '<th scope="row">&lt;A&gt;</th><td>1.5</td>' in made


def test_joined_text_is_html():
    assert isinstance(join("a", Html("<i>b</i>")), Html)
    assert join("<", Html("<i>b</i>")) == "&lt;<i>b</i>"


@pytest.mark.parametrize("text", ["</script>", "<!--", "]]>", "a\u2028b", "&lt;", "\\"])
def test_nothing_in_data_closes_its_script(text):
    script = to_script({"name": text})
    inner = script.removeprefix('<script type="application/json">').removesuffix("</script>")
    assert json.loads(inner) == {"name": text}
    assert not set("<>&\u2028") & set(inner)


def test_numbers_are_rounded_and_missing_ones_become_none():
    assert rounded([1.23456, [float("nan"), float("inf")], None, 2.0]) == [1.235, [None, None], None, 2]
    assert isinstance(rounded(2.0), int)


def test_a_page_is_saved_and_shown_in_a_frame_of_its_own(tmp_path):
    page = Page(Html('<!doctype html><p>\u00e9 "quoted"</p>'))
    path = page.save(tmp_path / "new" / "page.html")
    assert path.read_text(encoding="utf-8") == page.html
    assert 'sandbox="allow-scripts"' in page._repr_html_()
    assert "&quot;quoted&quot;" in page._repr_html_()
    assert "save('report.html')" in repr(page)
