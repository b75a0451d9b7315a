import json
import re

from tdegnn.experiments.zoo import collect_zoo
from tests.cli.test_commands import run


def test_the_zoo_lists_operators_and_systems(capsys):
    code, out, err = run(capsys, "zoo")
    assert (code, err) == (0, "")
    for said in ("relu((F - h L F) W_l)", "Eliasof et al., 2024", "GCNII", "(88.5)", "tdegnn zoo NAME"):
        assert said in out


def test_the_list_has_our_numbers_with_operators_and_names_those_without(capsys):
    _, out, _ = run(capsys, "zoo")
    entries = [entry for entry in collect_zoo() if entry.kind == "operator"]
    dir_gnn = next(entry for entry in entries if entry.name == "dir-gnn").by_rule["squirrel"]
    assert re.search(rf"^dir-gnn +{dir_gnn.fixed.mean:.1f} / {dir_gnn.learned.mean:.1f} ", out, flags=re.MULTILINE)
    said = re.search(r"^Not trained .* by a recipe of their own, so without numbers: (.*)\.$", out, flags=re.MULTILINE)
    assert said[1].split(", ") == [entry.name for entry in entries if not entry.by_rule]
    assert {"hidden-diffusion", "learned-adjacency", "together"} <= {*said[1].split(", ")}
    (other,) = (line for line in run(capsys, "zoo", "learned-adjacency")[1].splitlines() if "benchmarks" in line)
    assert other == "Not trained on the benchmarks by a recipe of its own: we have no numbers with this operator."
    assert "Not trained" not in run(capsys, "zoo", "dir-gnn")[1]


def test_the_list_has_the_equation_of_every_system_and_keeps_names_whole_on_a_narrow_terminal(capsys, monkeypatch):
    for name, value in {"FORCE_COLOR": "1", "COLUMNS": "100"}.items():
        monkeypatch.setenv(name, value)
    printed = [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", run(capsys, "zoo")[1]).splitlines()]
    assert max(len(line) for line in printed if not line.startswith("Not trained")) <= 100
    first, second = [number for number, line in enumerate(printed) if line.startswith("Systems: ")]
    starts = [printed[first + 1].index(column) for column in ("name", "equation", "citation")]
    shown, name = {}, ""
    for line in printed[first + 2 : second - 1]:
        name = line[: starts[1]].strip() or name
        shown[name] = f"{shown.get(name, '')} {line[starts[1] : starts[2]].strip()}".strip()
    systems = [entry for entry in collect_zoo() if entry.kind == "system"]
    # Lines end between words, and so do headings.
    assert shown == {entry.name: entry.equation for entry in systems}
    assert shown["GRAFF"].startswith("s = P F W")
    assert {"squirrel", "film", "chameleon", "squirrel-", "filtered"} <= {
        *" ".join(printed[second + 1 : second + 3]).split()
    }
    assert {entry.name for entry in systems} <= {re.split(r"  +", line)[0] for line in printed[second + 2 :]}


def test_one_entry_is_shown_in_detail(capsys):
    code, out, _ = run(capsys, "zoo", "gcnii")
    assert code == 0
    for said in ("b_l = log(theta / l + 1)", "F[l]", "Simple and deep", "alpha  0.1", "88.49 ± 1.25", "chameleon-filt"):
        assert said in out
    _, out, _ = run(capsys, "zoo", "near-identity")
    assert "deviation  the paper's maps start at random" in out


def test_an_operator_is_shown_with_its_numbers_and_the_settings_of_its_parts(capsys):
    _, out, _ = run(capsys, "zoo", "dir-gnn")
    assert "best learned rule by validation" in out
    assert "74.10 ± 1.94" in out
    _, out, _ = run(capsys, "zoo", "grand")
    assert "mixing=attention: num_heads" in out


def test_json_has_all_of_it(capsys):
    _, out, _ = run(capsys, "zoo", "--json")
    by_name = {(entry["kind"], entry["name"]): entry for entry in json.loads(out)}
    assert by_name["operator", "diffusion"]["settings"][0]["default"] is False
    assert by_name["system", "GCN"]["published"]["cora"] == {"mean": 85.77, "deviation": 1.27}
    assert by_name["system", "GCN"]["measured"]["cora"]["num_splits"] == 10


def test_a_wrong_name_is_one_line(capsys):
    code, out, err = run(capsys, "zoo", "difusion")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "got 'difusion'. Did you mean 'diffusion'?" in err
