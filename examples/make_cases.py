"""Make cases.csv and borders.csv: three years of weekly cases in eight towns on a river, simulated.

An epidemic wave each winter runs down the river. A few weeks were not reported, as happens.
"""

from pathlib import Path

import numpy as np
import pandas as pd

TOWNS = ["Aldermoor", "Brackwater", "Cinderford", "Dunmere", "Elmstead", "Fenwick", "Garrowby", "Hollin"]
WEEKS = pd.date_range("2021-01-04", periods=156, freq="7D")


def main() -> None:
    """Write both files beside this one."""
    random = np.random.default_rng(0)
    week = np.arange(len(WEEKS))[:, None]
    delay = 1.5 * np.arange(len(TOWNS))
    size = random.uniform(30, 90, len(TOWNS))
    expected = size * np.exp(2.0 * np.cos(2 * np.pi * (week - 4 - delay) / 52.18) - 1.2)
    cases = pd.DataFrame(random.poisson(expected), WEEKS, TOWNS, dtype="Int64")
    cases = cases.mask(random.random(cases.shape) < 0.01)
    folder = Path(__file__).parent
    cases.rename_axis("week").to_csv(folder / "cases.csv")
    pd.DataFrame({"source": TOWNS[:-1], "target": TOWNS[1:]}).to_csv(folder / "borders.csv", index=False)


if __name__ == "__main__":
    main()
