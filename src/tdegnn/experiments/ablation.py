"""The figure of orders: accuracy of TDE-GNN by the length of its history, with other settings from a recipe.

Order 1 is c = [1]. The other settings were tuned at one order, that of the recipe, and are not changed. So the figure
shows what the order does to a network, not what tuning at each order could reach. The datasets of the figure have their
own recipes for it, so that it does not change when Table 1 gets better ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from matplotlib.figure import Figure

from tdegnn.analysis.plots import BLUE, GRAY, ORANGE, new_figure, styled
from tdegnn.errors import InputError
from tdegnn.experiments.node_results import Cell, paired_gain
from tdegnn.experiments.node_systems import AnyConfig
from tdegnn.experiments.recipe_files import config_from_record, read_recipes
from tdegnn.nodes.settings import NodeConfig

FOLDER = Path(__file__).parent / "order_recipes"
ORDERS = range(1, 9)
DATASETS = ("cora", "squirrel")
SYSTEMS = {"TDE-GNN_D": BLUE, "TDE-GNN_A": ORANGE}

# Cells by dataset and system, then by order.
OrderCells: TypeAlias = dict[tuple[str, str], dict[int, Cell]]


def ablation_configs(dataset: str) -> Iterator[NodeConfig]:
    """Yield the recipes of the dataset for the learned rules, at every order."""
    own = FOLDER / f"{dataset}.toml"
    recipes: Mapping[str, AnyConfig] = read_recipes(dataset, own if own.exists() else None)
    for system in SYSTEMS:
        recipe = recipes.get(system)
        if not isinstance(recipe, NodeConfig):
            raise InputError(f"Expected a recipe of {system} for {dataset}, got none. Choose another dataset.")
        for order in ORDERS:
            yield replace(recipe, order=order)


def summarize_orders(lines: Sequence[Mapping[str, Any]]) -> OrderCells:
    """Return the cells of all datasets, systems and orders in the lines. Only lines of the current recipes count."""
    by_cell: dict[tuple[str, str], dict[int, list[Mapping[str, Any]]]] = {}
    present = {dataset: list(ablation_configs(dataset)) for dataset in {line["dataset"] for line in lines}}
    for line in lines:
        config = config_from_record(line["configuration"])
        if isinstance(config, NodeConfig) and config in present[line["dataset"]]:
            by_order = by_cell.setdefault((line["dataset"], line["system"]), {})
            by_order.setdefault(config.order, []).append(line)
    return {
        key: {order: Cell.from_lines(members) for order, members in sorted(by_order.items())}
        for key, by_order in by_cell.items()
    }


@styled
def plot_orders(cells: OrderCells) -> Figure:
    """Plot what each order adds over order 1, paired over the splits, with its confidence interval."""
    datasets = list(dict.fromkeys(dataset for dataset, _ in cells))
    figure, panels = new_figure(len(datasets), (5.2, 3.8))
    for panel, dataset in zip(panels, datasets, strict=True):
        panel.axhline(0.0, color=GRAY, linewidth=1.4)
        for shift, (system, color) in zip((-0.08, 0.08), SYSTEMS.items(), strict=True):
            by_order = cells.get((dataset, system), {})
            orders = [order for order in by_order if order > 1] if 1 in by_order else []
            gains = [paired_gain(by_order[order], by_order[1]) for order in orders]
            panel.errorbar(
                [order + shift for order in orders],
                [gain.mean for gain in gains],
                yerr=[[gain.mean - gain.low for gain in gains], [gain.high - gain.mean for gain in gains]],
                color=color,
                marker="o",
                capsize=3,
                label=system,
            )
        first = next(iter(cells[key] for key in cells if key[0] == dataset)).get(1)
        reached = "" if first is None else f" ({first.mean:.1f} %)"
        panel.set(title=dataset.capitalize(), xlabel="order", ylabel=f"points over order 1{reached}", xticks=ORDERS)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure
