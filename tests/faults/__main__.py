"""`python -m tests.faults`: try all faults, and write results/faults.json and the table in docs/reliability.md."""

from __future__ import annotations

import argparse
import json
import sys

from tests.faults.matrix import (
    PAGE,
    RESULTS,
    Row,
    describe_platform,
    put_into_page,
    render_table,
    row_names,
    run_rows,
    to_record,
)


def main() -> int:
    """Run the command. The exit code is 1 if something did not survive, or if the page does not match the results."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--short", action="store_true", help="a few of each, as in the tests; nothing is written")
    parser.add_argument("--only", help="a fault or a kind, as in the table; its rows are replaced")
    parser.add_argument("--seed", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--check", action="store_true", help="only compare the page with the results")
    options = parser.parse_args()
    if options.check:
        record = json.loads(RESULTS.read_text())
        is_same = put_into_page(PAGE.read_text(), render_table(record)) == PAGE.read_text()
        print("The table matches the results." if is_same else "The table does not match: run `make faults`.")
        return int(not is_same)
    rows = []
    for row in run_rows(options.seed, is_short=options.short, only=options.only):
        rows.append(row)
        print(row, *row.failures, sep="\n    ", flush=True)
        if not options.short:
            # After each row: all of them take most of an hour.
            _write(rows, is_part=options.only is not None)
    if not rows:
        print(f"Expected a fault or a kind of the table, got {options.only!r}.")
        return 2
    return int(any(row.num_survived < row.num_tried for row in rows))


def _write(rows: list[Row], *, is_part: bool) -> None:
    record = to_record(rows)
    if is_part and RESULTS.exists():
        known = json.loads(RESULTS.read_text())
        if known["versions"] != describe_platform():
            print("Nothing is written: the other rows were made with other versions. Run it without --only.")
            return
        by_name = {(row["fault"], row["what"]): row for row in (*known["rows"], *record["rows"])}
        record["rows"] = [by_name[name] for name in row_names() if name in by_name]
    RESULTS.write_text(json.dumps(record, indent=1) + "\n")
    PAGE.write_text(put_into_page(PAGE.read_text(), render_table(record)))


if __name__ == "__main__":
    sys.exit(main())
