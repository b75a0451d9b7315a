from base64 import b64decode

from tdegnn.experiments.demo_page import PagePicture, PageSection, PageTable, write_page


def test_page_holds_its_pictures_and_escapes_texts(tmp_path):
    picture = tmp_path / "a.png"
    picture.write_bytes(b"\x89PNG content")
    parts = [PageTable(["name", "n"], [["a < b", "1"]]), PagePicture(picture, 'it is "so"')]
    page = write_page(tmp_path / "page.html", "A & B", [PageSection("One", "1 < 2", parts)], "end").read_text()
    assert "<td>a &lt; b</td><td>1</td>" in page
    assert "<title>A &amp; B</title>" in page
    assert '<p class="verdict">1 &lt; 2</p>' in page
    assert 'alt="it is &quot;so&quot;"' in page
    content = page.split("base64,")[1].split('"')[0]
    assert b64decode(content) == picture.read_bytes()
    assert "http" not in page
