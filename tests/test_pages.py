"""Every Python block and every command of the README and of the guides is run, and every link leads somewhere."""

import io
import re
import shlex
import shutil
from contextlib import redirect_stdout

import matplotlib.pyplot as plt
import networkx
import pytest

from tdegnn.cli import main
from tests.pages import PAGES, ROOT, Block, anchors_of, blocks_of, find_dead_links, name_of

# Commands that are shown but not run here, by the beginning of the command, and why.
NOT_RUN = {
    "make ": "sets up an environment, and runs these tests",
    "pip install": "has a test of its own, in a new environment: test_five_commands.py",
    ".venv/bin/pre-commit": "changes the checkout",
    "tdegnn demo": "takes a minute; has tests of its own",
    "tdegnn reproduce": "takes minutes, or needs a GPU; has tests of its own",
    "tdegnn sweep": "takes minutes; has tests of its own",
    "tdegnn classify cora": "downloads, and takes a minute",
    "tdegnn predict runs/cora": "needs the run folder of a training that is not run here",
    "tdegnn data fetch": "downloads",
    "tdegnn data store edges.npy my_graph": "needs edges of your own; docs/large_graphs.md runs another",
    "tdegnn backtest": "trains for half a minute or more; docs/backtests.md has a quick one in Python",
    "tdegnn fit examples/cases.csv --edges examples/borders.csv --operator": "trains for half a minute",
    "tdegnn fit sales.csv": "needs a table of your own",
    "torchrun ": "starts processes; has tests of its own",
    "createdb ": "needs a PostgreSQL server",
    "createuser ": "needs a PostgreSQL server, and asks for a password",
}
WITH_CODE = [page for page in PAGES if any(block.language in ("python", "bash") for block in blocks_of(page))]
COMMANDS = [
    command for page in PAGES for block in blocks_of(page) if block.language == "bash" for command in block.commands
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the examples in it, as in a checkout."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def is_run(command):
    return not command.startswith(tuple(NOT_RUN))


def run_command(command):
    program, *arguments = shlex.split(command)
    assert program == "tdegnn", f"Expected a command of tdegnn, or a reason in NOT_RUN, got: {command}"
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0, command


def run_blocks(page):
    """Run the blocks of a page in order, as a reader does: what a block defines is there in the next one."""
    names = {"__name__": "__main__"}
    for block in blocks_of(page):
        if block.language == "python":
            # Line numbers of a traceback are those of the page.
            exec(compile("\n" * block.line + block.text, str(page), "exec"), names)
        elif block.language == "bash":
            for command in filter(is_run, block.commands):
                run_command(command)


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_CODE, ids=name_of)
def test_blocks_of_a_page_run(page, folder, as_a_user):
    with redirect_stdout(io.StringIO()):
        run_blocks(page)
    plt.close("all")


def test_test_nodes_of_the_karate_club_are_of_both_groups():
    """On nodes of one group there is no ROC-AUC, and a reader who copies the block is shown None."""
    club = networkx.karate_club_graph()
    found = [
        range(int(first), int(end))
        for page in PAGES
        for block in blocks_of(page)
        if "karate_club_graph" in block.text
        for first, end in re.findall(r"(?:test|nodes)=range\((\d+), (\d+)\)", block.text)
    ]
    assert len(found) >= 3
    assert all({club.nodes[member]["club"] for member in members} == {"Mr. Hi", "Officer"} for members in found)


def test_there_is_something_to_run():
    assert len(WITH_CODE) >= 10
    assert sum(map(is_run, COMMANDS)) >= 15


def test_each_reason_not_to_run_a_command_is_needed():
    unused = {start for start in NOT_RUN if not any(command.startswith(start) for command in COMMANDS)}
    assert not unused


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_blocks_say_what_language_they_are_in(page):
    """Blocks without a language hold equations, tables and output. Commands and code there would never be run."""
    for block in blocks_of(page):
        assert block.language in ("", "python", "bash"), block
        if not block.language:
            assert not re.search(r"^(tdegnn|make|pip|import|from) ", block.text, flags=re.MULTILINE), block
    assert not re.search(r"\n\n {4}(tdegnn|import|from|>>>) ", page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_link_of_a_page_is_dead(page):
    assert find_dead_links(page) == []


def test_dead_links_are_found(tmp_path):
    (tmp_path / "other.md").write_text("# A `heading`, twice\n# A heading, twice\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](other.md#a-heading-twice-1) [b](other.md#none) [c](none.md) [d](#none) [e](https://example.org)\n"
        "`f[0](x)`\n"
        "```\n[g](none.md)\n```\n![h](none.png)\n"
    )
    assert find_dead_links(page) == ["other.md#none", "none.md", "#none", "none.png"]
    assert anchors_of(tmp_path / "other.md") == ["a-heading-twice", "a-heading-twice-1"]


def test_commands_of_a_block_are_joined_and_have_no_comments():
    block = Block("bash", "tdegnn a 'b#c' # what\n# alone\ntdegnn d \\\n    --e f\n", 1)
    assert block.commands == ["tdegnn a 'b#c'", "tdegnn d --e f"]


def test_readme_opens_with_the_two_commands():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme.index("make demo") < readme.index("make test") < 1200


def test_readme_is_short():
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 120
    assert text.count("![") == 1
    assert [block.language for block in blocks_of(readme)].count("python") == 3
