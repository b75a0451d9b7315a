"""`tdegnn classify`: train a node classifier on a benchmark, or on the user's files, and write a run folder."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from tdegnn.cli.batch_options import BatchesChoice, BatchesSettings, batches_part
from tdegnn.cli.log_options import LogTo, make_callbacks
from tdegnn.cli.network_options import OptimizerOption, PrecisionOption, ReadoutOption, StateNormOption
from tdegnn.cli.operator_options import OperatorSettings, operator_option, operator_part
from tdegnn.cli.options import (
    PRECISION_HELP,
    USUAL_RULE,
    AsJson,
    Decimal,
    Device,
    DeviceOption,
    DirectionChoice,
    DirectionOption,
    EdgesFile,
    Encoding,
    FeaturesFile,
    Quiet,
    Resume,
    Rule,
    Seed,
    Separator,
    check_given,
    make_csv_format,
    parse_count_or_auto,
    reads_files,
    rule_argument,
    with_groups,
)
from tdegnn.cli.output import (
    largest_root,
    print_json,
    print_notes,
    print_table,
    progress_stages,
    share,
    vector,
    watchers,
)
from tdegnn.errors import InputError
from tdegnn.torchrun import read_launch

if TYPE_CHECKING:
    from tdegnn.data.tables.csv_files import CsvFormat
    from tdegnn.nodes.classifier import NodeClassifier
    from tdegnn.parts import PartLike
    from tdegnn.training.loop import Look


class InputMapOption(StrEnum):
    """From features to the first state. A test compares the names with `nets/input_maps.py`."""

    LINEAR = "linear"
    AFFINE = "affine"
    PERCEPTRON = "perceptron"
    ELU = "elu"
    RESIDUAL = "residual"
    UNIT_COLUMNS = "unit-columns"


class SkipOption(StrEnum):
    """Scores that are added to the outputs. A test compares the names with `nets/node_skips.py`."""

    KERNEL_RIDGE = "kernel-ridge"


class SelectByOption(StrEnum):
    """By what the best step is chosen."""

    AUTO = "auto"
    ACCURACY = "accuracy"
    ROC_AUC = "roc-auc"
    LOSS = "loss"


SCORE_NAMES = {"accuracy": "Accuracy", "roc-auc": "ROC-AUC"}


class NetworkOption(StrEnum):
    """The usual networks. A test compares the names with `nodes/usual_networks.py`."""

    AUTO = "auto"
    DIFFUSION = "diffusion"
    LINKS = "links"
    DIRECTED = "directed"
    DEEP = "deep"
    MANY_NODES = "many-nodes"
    ALONE = "alone"
    LINEAR = "linear"


USUAL_OPERATOR = "near-identity"
# The operators that are normalized unless the user says no.
NORMALIZED = (USUAL_OPERATOR, "diffusion")
Operator = Annotated[str | None, operator_option(USUAL_OPERATOR)]


@dataclass(frozen=True)
class ClassifierOptions:
    """The options of a classifier. The defaults are those of `NodeClassifier`."""

    PANEL: ClassVar[str] = "The classifier"

    network: Annotated[
        NetworkOption,
        typer.Option(
            help="A usual network. [bold]auto[/bold] chooses one by validation, unless other options describe one."
        ),
    ] = NetworkOption.AUTO
    coefficients: Rule = None
    operator: Operator = None
    operator_setting: OperatorSettings = None
    batch_norm: Annotated[
        bool | None,
        typer.Option(
            help="Normalize the channels in the spatial term, if it can.",
            show_default=f"yes for {' and '.join(NORMALIZED)}",
        ),
    ] = None
    input_map: Annotated[
        InputMapOption,
        typer.Option(help="From features to states: a linear map with relu, one without, or two to three layers."),
    ] = InputMapOption.LINEAR
    state_norm: Annotated[
        StateNormOption | None, typer.Option(help="Normalization of each new state.", show_default="none")
    ] = None
    readout: Annotated[
        ReadoutOption,
        typer.Option(
            help="What outputs are read from: the last state (as it is, its relu, or by a perceptron), or all states."
        ),
    ] = ReadoutOption.LAST
    skip: Annotated[
        SkipOption | None, typer.Option(help="Scores in closed form, added to the outputs.", show_default="none")
    ] = None
    self_loops: Annotated[bool, typer.Option("--self-loops", help="Let nodes also receive from themselves.")] = False
    hidden_channels: Annotated[int, typer.Option(help="Channels of a state.", min=1)] = 64
    layers: Annotated[int, typer.Option(help="Number of layers.", min=1)] = 2
    order: Annotated[
        Any,
        typer.Option(
            help="Length of the history. [bold]auto[/bold] tries 1 to 4 and chooses by validation.",
            parser=parse_count_or_auto,
            metavar="INTEGER|auto",
        ),
    ] = 2
    step_size: Annotated[float, typer.Option(help="h: weight of the spatial term.", min=0)] = 1.0
    dropout: Annotated[
        float, typer.Option(help="Share of the input and of the last state dropped in training.", min=0, max=0.99)
    ] = 0.5
    hidden_dropout: Annotated[
        float, typer.Option(help="Share of the other states dropped in training.", min=0, max=0.99)
    ] = 0.3
    readout_dropout: Annotated[
        float | None,
        typer.Option(help="Share of what is read out dropped in training.", min=0, max=0.99, show_default="--dropout"),
    ] = None
    learning_rate: Annotated[float, typer.Option(help="Learning rate of embedding and spatial term.", min=0)] = 0.01
    weight_decay: Annotated[float, typer.Option(help="Weight decay of embedding and spatial term.", min=0)] = 5e-4
    c_learning_rate: Annotated[float, typer.Option(help="Learning rate of the coefficients c.", min=0)] = 1e-3
    c_weight_decay: Annotated[float, typer.Option(help="How strongly c is pulled to forward Euler.", min=0)] = 0.01
    standardize: Annotated[
        bool, typer.Option(help="Scale features to mean 0 and deviation 1, except indicators and sparse features.")
    ] = True
    normalize: Annotated[
        bool, typer.Option("--normalize", help="Scale the features of each node to sum to one, for counts of words.")
    ] = False
    balanced: Annotated[bool, typer.Option("--balanced", help="Give all classes the same total weight.")] = False
    optimizer: Annotated[
        OptimizerOption, typer.Option(help="Adam with weight decay in the gradient, or (adamw) apart from it.")
    ] = OptimizerOption.ADAM
    select_by: Annotated[
        SelectByOption,
        typer.Option(
            help="Choose the step by this on validation. [bold]auto[/bold] is ROC-AUC for two classes, else accuracy."
        ),
    ] = SelectByOption.AUTO
    steps: Annotated[int, typer.Option(help="Maximum number of optimizer steps.", min=1)] = 3000
    patience: Annotated[
        int, typer.Option(help="Stop after this many steps without improvement on validation.", min=1)
    ] = 200
    baselines: Annotated[
        bool, typer.Option(help="Compare with answers from the features alone, and from the links alone.")
    ] = True
    batches: BatchesChoice = None
    batches_set: BatchesSettings = None
    segment_length: Annotated[
        Any,
        typer.Option(
            help="Layers to compute again at a time, for deep networks in less memory. [bold]auto[/bold] is the root "
            "of --layers.",
            parser=parse_count_or_auto,
            metavar="INTEGER|auto",
            show_default="keep all layers",
        ),
    ] = None
    precision: Annotated[PrecisionOption, typer.Option(help=PRECISION_HELP)] = PrecisionOption.SINGLE

    def check_parts(self) -> None:
        """Raise an `InputError` for a name or a setting of a part, before a table is read. Parts import torch."""
        self._batches_argument()
        operator = self._operator_argument().get("operator")
        if operator is not None:
            from tdegnn.nodes.settings import NodeConfig

            NodeConfig(
                operator=operator,
                hidden_channels=self.hidden_channels,
                num_layers=self.layers,
                step_size=self.step_size,
            ).check_operator()

    def make(self, seed: int, device: DeviceOption, direction: DirectionOption | None) -> NodeClassifier:
        """Return a classifier with these settings, not trained yet.

        Args:
            seed: Seed of everything random.
            device: Where to compute.
            direction: Whose states a node receives. None if the user gave none.
        """
        from tdegnn.nodes.classifier import NodeClassifier

        return NodeClassifier(
            network=self.network.value,
            **rule_argument(self.coefficients),
            **self._operator_argument(),
            input_map=self.input_map.value,
            state_norm=None if self.state_norm is None else self.state_norm.value,
            readout=self.readout.value,
            skip=None if self.skip is None else self.skip.value,
            self_loops=self.self_loops,
            hidden_channels=self.hidden_channels,
            num_layers=self.layers,
            order=self.order,
            step_size=self.step_size,
            outer_dropout=self.dropout,
            hidden_dropout=self.hidden_dropout,
            readout_dropout=self.readout_dropout,
            embedding_learning_rate=self.learning_rate,
            embedding_weight_decay=self.weight_decay,
            temporal_learning_rate=self.c_learning_rate,
            temporal_weight_decay=self.c_weight_decay,
            spatial_learning_rate=self.learning_rate,
            spatial_weight_decay=self.weight_decay,
            standardized_features=self.standardize,
            normalized_features=self.normalize,
            class_weight="balanced" if self.balanced else None,
            optimizer=self.optimizer.value,
            select_by=self.select_by.value,
            num_steps=self.steps,
            patience=self.patience,
            baselines=self.baselines,
            batches=self._batches_argument(),
            segment_length=self.segment_length,
            precision=self.precision.value,
            seed=seed,
            device=device.value,
            direction=None if direction is None else direction.value,
        )

    def _batches_argument(self) -> PartLike:
        return batches_part(self.batches, self.batches_set) if self.batches or self.batches_set else None

    def _operator_argument(self) -> dict[str, Any]:
        """Return the argument `operator`, or nothing for the default of `NodeClassifier`."""
        name = self.operator or USUAL_OPERATOR
        norm = True if self.batch_norm is None and name in NORMALIZED else self.batch_norm
        if name == USUAL_OPERATOR and norm and not self.operator_setting:
            return {}
        usual = {} if norm is None else {"batch_norm": norm}
        return {"operator": operator_part(name, self.operator_setting, **usual)}


def _check_benchmark(name: str | None) -> str | None:
    """Raise an `InputError` if there is no such benchmark."""
    from tdegnn.data.benchmarks.catalogue import find_benchmark

    return None if name is None else find_benchmark(name, "nodes").name


@reads_files
@with_groups
def classify(
    settings: ClassifierOptions,
    name: Annotated[
        str | None, typer.Argument(help="Name of a benchmark, as in `tdegnn data list`.", callback=_check_benchmark)
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Run folder: settings, metrics, weights, coefficients.", file_okay=False)
    ] = Path("runs/classify"),
    features: FeaturesFile = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            "--labels",
            help="CSV or Parquet: node, label (empty if unknown)[, split: train, validation or test].",
            readable=False,
            callback=check_given,
        ),
    ] = None,
    edges: EdgesFile = None,
    split: Annotated[int, typer.Option(help="Number of the benchmark's split, from 0.", min=0)] = 0,
    direction: DirectionChoice = None,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    resume: Resume = False,
    log_to: LogTo = None,
    seed: Seed = 0,
    device: Device = DeviceOption.AUTO,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Learn to classify nodes, of a benchmark or of your own features, labels and edges. Then run `tdegnn predict`.

    Several processes share --batches: torchrun --nproc-per-node 2 -m tdegnn classify ...
    """
    launch = read_launch()
    if launch.are_several and settings.batches is None:
        raise InputError(
            f"Expected one process for tdegnn classify on the whole graph, got {launch.size} of torchrun. Start it "
            "without torchrun, or add --batches, which processes share."
        )
    if (name is None) == (features is None and labels is None and edges is None):
        raise InputError("Expected the name of a benchmark, or --features, --labels and --edges, got both or neither.")
    settings.check_parts()
    from tdegnn.runs.run_folder import reserved_folder

    # Of several processes, the first one writes.
    reserved = reserved_folder(out, resume=resume) if launch.is_first else nullcontext()
    with progress_stages(is_quiet=quiet or as_json or not launch.is_first) as show, reserved:
        show("reading tables", 0, None)
        model = settings.make(seed, device, direction)
        callbacks = make_callbacks(log_to) if log_to else ()
        if name is not None:
            data = _load_benchmark(name, split)
        else:
            csv_format = make_csv_format(separator, decimal, encoding)
            data = _read_files(features, labels, edges, direction, csv_format)
        notes = data.pop("notes")
        show("starting", 0, None)
        model.fit(**data, run=out, resume=resume, callbacks=callbacks, **watchers(show, _describe)._asdict())
    if not launch.is_first:
        return
    if model.order_choice_.reason:
        notes.append(model.order_choice_.reason)
    if model.summary_["is_diverged"]:
        notes.append(
            f"The training diverged. The best weights before that, of step {model.summary_['best_step']}, were kept. "
            "Lower --learning-rate or --step-size."
        )
    notes += model.notes_
    if as_json:
        print_json(_facts(model, out) | {"notes": notes})
        return
    if not quiet:
        _print_result(model, settings.coefficients or USUAL_RULE)
        print_notes(notes)
    typer.echo(_verdict(model, out))


def _load_benchmark(name: str, split: int) -> dict[str, Any]:
    """Return the arguments of `fit` for a benchmark."""
    from tdegnn.data.benchmarks.load import load_nodes

    return {"X": load_nodes(name), "split": split, "source": {"benchmark": name, "split": split}, "notes": []}


def _read_files(
    features: Path | None,
    labels: Path | None,
    edges: Path | None,
    direction: DirectionOption | None,
    csv_format: CsvFormat,
) -> dict[str, Any]:
    """Return the arguments of `fit` for files of the user."""
    from tdegnn.data.tables.nodes import read_labels, read_node_tables

    if features is None or labels is None or edges is None:
        given = {"--features": features, "--labels": labels, "--edges": edges}
        missing = [option for option, path in given.items() if path is None]
        raise InputError(f"Expected --features, --labels and --edges, got no {missing[0]}. Add it.")
    tables = read_node_tables(features, edges, None if direction is None else direction.value, csv_format)
    known = read_labels(labels, tables.names, csv_format)
    files = {"features_file": features, "labels_file": labels, "edges_file": edges}
    source: dict[str, Any] = {name: str(path.resolve()) for name, path in files.items()}
    source |= {"separator": csv_format.separator, "decimal": csv_format.decimal, "encoding": csv_format.encoding}
    return {
        "X": tables.to_input(),
        "y": known.labels,
        "graph": tables.graph,
        "source": source,
        "notes": list(tables.notes),
        **known.subsets,
    }


def _describe(look: Look) -> str:
    """Return what a validation found, of the best of several starts."""
    score = float(look.scores.max())
    # Trials and some networks choose their step by the loss, which counts negative. Shares of right answers do not.
    validation = f"validation loss {-score:.3f}" if score < 0 else f"validation {share(score)}"
    return f"loss {float(look.losses.min()):.3f}, {validation}"


def _facts(model: NodeClassifier, out: Path) -> dict[str, Any]:
    return {
        "run": str(out),
        "classes": model.classes_.tolist(),
        **model.summary_,
        "coefficients": model.coefficients_.mean(axis=0).tolist(),
        "verdict": model.explain().verdict,
    }


def _print_result(model: NodeClassifier, rule: str) -> None:
    summary = model.summary_
    own = {"validation": summary["validation_score"], "test": summary["test_score"]}
    scores = {"the network": own, **summary["baselines"]}
    compared = [[name, share(row["validation"]), share(row["test"])] for name, row in scores.items()]
    name = SCORE_NAMES[summary["score"]]
    print_table(f"{name} on {len(model.classes_)} classes", ["", "validation", "test"], compared)
    rows = [
        ["best step", str(summary["best_step"])],
        ["order", str(model.order_)],
        ["c (mean over layers)", vector(model.coefficients_.mean(axis=0).tolist())],
        ["largest root", largest_root(model.explain())],
    ]
    print_table(rule, ["", "value"], rows)


def _verdict(model: NodeClassifier, out: Path) -> str:
    summary = model.summary_
    validation, test = share(summary["validation_score"]), summary["test_score"]
    is_accuracy = summary["score"] == "accuracy"
    scores = f"{validation} right on validation" if is_accuracy else f"ROC-AUC {validation} on validation"
    return f"{scores}{'' if test is None else f', {share(test)} on test'}. Run folder: {out}/"
