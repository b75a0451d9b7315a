"""The tables of results/README.md about the speed, memory and work of operators: see `results_page.py`."""

import json

from benchmarks.operator_costs import AMOUNTS, UNITS, Costs
from benchmarks.operator_work import DENSE, KINDS, Work
from benchmarks.operators import DIFFUSION, GOAL, slow_operators, why_not_large

from tdegnn.operators.registry import OPERATORS
from tests.markdown import as_table, put_into_page

FIRST, FOUR, MEMORY = "first layer, ", "four layers, ", "peak memory of a step at a million edges, "
# Their first layers do the same operations on tensors of the same sizes.
ALIKE = ("grand", "grand-nonlinear", "gread-st")
# A sum of costs that is as near to the measured time says what bounds a step.
NEAR = 0.12
# A copy of all channels on the entries of the graph is this many states.
MANY_STATES = 20
WHY_MANY = {
    "cde": "the relu of a difference has all channels on the entries, once; the gradient keeps a byte for each",
    "pde-gcn, one way": "as `cde`; on edges that go both ways the relu drops out, and nothing is on the entries",
    "sheaf-bundle": "two orthogonal maps per entry, products of reflections; the gradient keeps every factor",
}
# Operators without a row of their own in the table of operators by rules, and why. Those with a row are skipped.
_VARIANT = "a variant of the row {}, which has `{}` in all its recipes"
_SEARCHED = "a variant of the row {}, whose search has `{}`"
_FOR_SERIES = "for forecasts"
WHY_NO_ROW = {
    "hidden-diffusion": "for forecasts of physical states",
    "past-diffusion": "for forecasts: it needs the features of past frames",
    "grand-nonlinear": _VARIANT.format("GRAND", "grand"),
    **dict.fromkeys(
        (f"gread-{reaction}" for reaction in ("f", "ac", "z", "st", "fb")), _VARIANT.format("GREAD", "gread-bs")
    ),
    "learned-adjacency": "a number for each pair of nodes, at most 5,000: PubMed, Squirrel and Film have more",
    "gcn": "Table 1 has the network, in the row GCN; recipes of the row tuned GCN also leave out norm and residual",
    "gat": "Table 1 has the network, in the row GAT",
    "gcnii*": _VARIANT.format("GCNII rate", "gcnii"),
    "acm": _VARIANT.format("ACMII rate", "acmii` or `acmii+"),
    "acm+": _VARIANT.format("ACMII rate", "acmii` or `acmii+"),
    "walks": f"{_FOR_SERIES}: `directed-diffusion` with settings, which is a row",
    "alone": f"{_FOR_SERIES}: it uses no edges; Table 1 has MLP",
    "together": f"{_FOR_SERIES}, and a learned adjacency is in it",
    "graff-diagonal": "`graff` with `mixing=diagonal`, which recipes of the row GRAFF have",
    "sheaf-general": _SEARCHED.format("NSD", "sheaf-diagonal` and `sheaf-bundle"),
}


def render_without_row(lines):
    """Return the operators that no recipe in the table of operators by rules has, by reason.

    An operator without numbers and without a reason is new: the page stays as it is.

    Args:
        lines: The result lines of the table.
    """
    trained, by_reason = operators_in(lines), {}
    for name in OPERATORS.names:
        if name in WHY_NO_ROW and name not in trained:
            by_reason.setdefault(WHY_NO_ROW[name], []).append(f"`{name}`")
    rows = [[", ".join(names), reason] for reason, names in by_reason.items()]
    return as_table([["operators without a row of their own", "why"], *rows])


def operators_in(lines):
    """Return the names of the operators in result lines."""
    records = [line["configuration"]["operator"] for line in lines]
    return {record if isinstance(record, str) else record["name"] for record in records}


def read_lines(path):
    """Return the numbers of a benchmark by name."""
    return {line["name"]: line for line in json.loads(path.read_text())["lines"]}


def renew_operators(page, results):
    """Return the page with what `python -m benchmarks operators` has measured. What misses its goal is bold.

    Args:
        page: The page.
        results: The folder of results.
    """
    times, memory, work = (read_lines(results / f"operators_{name}.json") for name in ("h200", "memory", "work"))
    page = put_into_page(page, "speeds of operator", render_speeds(times))
    page = put_into_page(page, "memory of operator", render_memory(memory, counted_in(work)))
    page = put_into_page(page, "work of operator", render_work(times, work))
    page = put_into_page(page, "costs of operator", render_costs(times, work))
    return put_into_page(page, "profiles of operator", render_profiles(read_lines(results / "operators_profile.json")))


def render_speeds(lines):
    """Return times and memory on an H200."""

    def ratio(name):
        line = lines[name]
        return f"{line['value']:.2f}" if line["met"] else f"**{line['value']:.2f}**"

    def memory(name):
        return f"{lines[name]['value']:.1f}" if name in lines else "-"

    names = [name.removeprefix(FIRST) for name in lines if name.startswith(FIRST) and " / " not in name]
    header = [
        "operator",
        "first layer, ms",
        "times diffusion",
        "four layers, times diffusion",
        "peak memory, in states",
    ]
    rows = [
        [
            f"`{name}`",
            f"{lines[FIRST + name]['value']:.2f}",
            ratio(f"{FIRST}{name} / {DIFFUSION}"),
            ratio(f"{FOUR}{name} / {DIFFUSION}"),
            memory(MEMORY + name),
        ]
        for name in names
    ]
    return as_table([header, *rows])


def counted_in(work):
    """Return the names of the operators whose operations were counted, in the order of the registry."""
    counted = {name.partition(", ")[2] for name in work}
    return [name for name in OPERATORS.names if name in counted]


def render_memory(lines, names):
    """Return peaks on a CPU, why those of many states need them, and which of these operators are left out."""
    peaks = {name.removeprefix(MEMORY): line["value"] for name, line in lines.items()}
    rows = [[f"`{name}`", f"{peak:.1f}", WHY_MANY[name] if peak > MANY_STATES else ""] for name, peak in peaks.items()]
    left_out = [f"- `{name}` is left out: {reason}" for name in names if (reason := why_not_large(name))]
    return "\n".join([as_table([["operator", "peak, in states", "why more than 20"], *rows]), "", *left_out])


def over_diffusion(work, name):
    """Return what an operator does, over what diffusion does."""

    def total(name, what=""):
        return sum(work[f"{what}{kind}, {name}"]["value"] for kind in KINDS)

    arithmetic = f"arithmetic of {DENSE}, "
    return {
        "operations": total(name) / total(DIFFUSION),
        "bytes": total(name, "bytes of ") / total(DIFFUSION, "bytes of "),
        "arithmetic": work[arithmetic + name]["value"] / work[arithmetic + DIFFUSION]["value"],
    }


def render_work(times, work):
    """Return what a step of the operators beyond the goal does, over what diffusion does, beside their time."""
    rows = []
    for name in counted_in(work):
        ratios = [times.get(f"{words}{name} / {DIFFUSION}") for words in (FIRST, FOUR)]
        is_timed = None not in ratios
        if is_timed and max(each["value"] for each in ratios) <= GOAL:
            continue
        compared = over_diffusion(work, name)
        counts = [f"{work[f'{kind}, {name}']['value']:.0f}" for kind in KINDS]
        shown = [f"{value:.1f}" for value in compared.values()]
        time = f"{ratios[0]['value']:.1f}" if is_timed else "not timed yet"
        rows.append([f"`{name}`", time, *counts, *shown, max(compared, key=compared.get)])
    header = ["operator", "time on an H200", *KINDS, "operations", "bytes", "arithmetic of dense products", "most"]
    return as_table([header, *rows])


def work_of(work, name):
    """Return what a step of an operator does, by kind."""

    def value(what):
        return work[f"{what}, {name}"]["value"]

    arithmetic = {DENSE: int(1e9 * value(f"arithmetic of {DENSE}"))}
    return {
        kind: Work(int(value(kind)), int(1e6 * value(f"bytes of {kind}")), arithmetic.get(kind, 0)) for kind in KINDS
    }


def fit_costs(times, work):
    """Return measured times in microseconds and the parts of the fitted ones, by operator, and the costs."""
    measured = {name: times[FIRST + name]["value"] for name in counted_in(work) if FIRST + name in times}
    works = {name: work_of(work, name) for name in measured}
    costs = Costs.fit([1e3 * milliseconds for milliseconds in measured.values()], list(works.values()))
    return {name: (1e3 * measured[name], costs.parts(works[name])) for name in measured}, costs


def render_costs(times, work):
    """Return what a step costs on an H200, fitted to all operators, and of what the slow ones pay."""
    found, costs = fit_costs(times, work)
    each = [f"{name} {costs.each[name]:.2g} per {UNITS[name]}" for name in AMOUNTS]
    rows, slow = [], slow_operators()
    for name in slow:
        measured, parts = found[name]
        total = sum(parts.values())
        shares = [f"{100 * part / total:.0f}" for part in parts.values()]
        rows.append([f"`{name}`", f"{measured:.0f}", f"{total:.0f}", *shares, max(parts, key=parts.get)])
    errors = {name: abs(sum(parts.values()) / measured - 1) for name, (measured, parts) in found.items()}
    near = sum(errors[name] <= NEAR for name in slow)
    sentence = (
        f"Costs in microseconds: {', '.join(each)}. The sum is within {100 * NEAR:.0f} % of the measured time for "
        f"{sum(error <= NEAR for error in errors.values())} of {len(errors)} operators, and for {near} of these "
        f"{len(slow)}."
    )
    header = ["operator", "measured, us", "sum of costs, us", *(f"{name}, %" for name in AMOUNTS), "largest part"]
    return "\n".join([sentence, "", as_table([header, *rows])])


def read_shares(lines):
    """Return the shares of time in a profile, by operator and operation, in the order of the lines."""
    shares = {}
    for name, line in lines.items():
        operation, _, operator = name.removeprefix("share of ").partition(", ")
        shares.setdefault(operator, {})[operation] = line["value"]
    return shares


def render_profiles(lines):
    """Return where the time of a step goes on a CPU, and how far shares of the same operations are apart."""
    shares, rows = read_shares(lines), []
    for operator, own in shares.items():
        largest = [f"{operation} {value:.0f}" for operation, value in own.items() if operation not in KINDS]
        rows.append([f"`{operator}`", *(f"{own[kind]:.0f}" for kind in KINDS), ", ".join(largest)])
    apart = max(max(values) - min(values) for values in zip(*(by_kind(shares[name]) for name in ALIKE), strict=True))
    return "\n".join(
        [
            as_table([["operator", *KINDS, "largest shares of single operations, in percent"], *rows]),
            "",
            f"{', '.join(f'`{name}`' for name in ALIKE)} do the same operations; here the shares of kinds differ by up "
            f"to {apart:.0f} points.",
        ]
    )


def by_kind(own):
    """Return the shares of the kinds of operations of one operator."""
    return [own[kind] for kind in KINDS]
