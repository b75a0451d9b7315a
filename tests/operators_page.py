"""The table of results/README.md about the speed and memory of operators: see `results_page.py`."""

import json

from tests.markdown import as_table, put_into_page

FIRST, FOUR, MEMORY = "first layer, ", "four layers, ", "peak memory of a step at a million edges, "


def renew_operators(page, path):
    """Return the page with what `python -m benchmarks operators` has measured. What misses its goal is bold."""
    lines = {line["name"]: line for line in json.loads(path.read_text())["lines"]}

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
            ratio(f"{FIRST}{name} / diffusion"),
            ratio(f"{FOUR}{name} / diffusion"),
            memory(MEMORY + name),
        ]
        for name in names
    ]
    return put_into_page(page, "speeds of operator", as_table([header, *rows]))
