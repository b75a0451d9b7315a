"""What is released: source archive and wheel, versions that agree, and a workflow that runs our own commands."""

import re
import tomllib
import zipfile

import pytest
import yaml

from tdegnn import __version__
from tests import smoke
from tests.distribution import ROOT, build, build_wheel_alone, install

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOW = (ROOT / ".github/workflows/ci.yml").read_text()
TARGETS = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return build(tmp_path_factory.mktemp("dist"))


def contents_of(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.slow
def test_a_wheel_runs_where_nothing_else_of_the_checkout_is(built, tmp_path):
    install(built[1], tmp_path / "environment")
    assert smoke.run_everything(tmp_path / "environment") == f"tdegnn {__version__}"


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(built):
    package = ROOT / "src" / "tdegnn"
    files = {
        path.relative_to(ROOT / "src").as_posix() for path in package.rglob("*.*") if "__pycache__" not in path.parts
    }
    packed = contents_of(built[1])
    assert {name for name in packed if ".dist-info/" not in name} == files
    assert {"tdegnn/py.typed", "tdegnn/experiments/measured.json", "tdegnn/experiments/recipes/cora.toml"} <= files


@pytest.mark.slow
def test_the_source_archive_builds_the_same_wheel_as_the_checkout(built, tmp_path):
    assert contents_of(built[1]) == contents_of(build_wheel_alone(tmp_path))


def test_the_citation_names_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == __version__
    # The other licenses of the project are those of what the package bundles.
    assert citation["license"] == PROJECT["license"].split(" AND ")[0]


def test_versions_are_semantic_and_the_changelog_has_them_newest_first():
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert headings[0] == "[Unreleased]"
    released = [re.fullmatch(r"\[(\d+)\.(\d+)\.(\d+)\] - \d{4}-\d{2}-\d{2}", heading) for heading in headings[1:]]
    assert all(released)
    versions = [tuple(map(int, heading.groups())) for heading in released]
    assert versions == sorted(set(versions), reverse=True)
    # The version in the sources is the newest released one, or the one that comes next.
    this = tuple(map(int, re.fullmatch(r"(\d+)\.(\d+)\.(\d+)", __version__).groups()))
    assert not versions or this >= versions[0]


def test_the_workflow_runs_targets_of_the_makefile_only():
    steps = [step for job in yaml.safe_load(WORKFLOW)["jobs"].values() for step in job["steps"]]
    commands = {step["run"] for step in steps if "run" in step}
    assert commands == {"make test", "make lowest", "make docs", "make dist", "make installed"}
    assert {command.removeprefix("make ") for command in commands} <= set(TARGETS)


def test_the_workflow_tests_every_python_that_the_package_names():
    jobs = yaml.safe_load(WORKFLOW)["jobs"]
    named = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))
    assert named == jobs["test"]["strategy"]["matrix"]["python"] == jobs["installed"]["strategy"]["matrix"]["python"]
    assert PROJECT["requires-python"] == f">={named[0]}"


def test_every_dependency_has_a_lower_bound_and_a_tested_version():
    extras = [each for some in PROJECT["optional-dependencies"].values() for each in some]
    needed = [each for each in PROJECT["dependencies"] + extras if not each.startswith("tdegnn[")]
    assert [each for each in needed if ">=" not in each] == []
    pinned = re.findall(r"^([\w.-]+)==", (ROOT / "constraints.txt").read_text(), flags=re.MULTILINE)
    assert [each for each in needed if plain(re.match(r"[\w.-]+", each)[0]) not in map(plain, pinned)] == [
        "statsforecast>=2.0",  # asks for pandas below 3, which is not what is tested
        "huggingface_hub>=0.30",  # tests take its place, since they have no network
        "mlflow-skinny>=3.1",  # asks for importlib_metadata below 10; a test takes its place
    ]


def plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()
