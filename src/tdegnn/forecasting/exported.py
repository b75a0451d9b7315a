"""A fitted forecaster as one function of a window, for `tdegnn.export`: scaling, networks, their mean, the units."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.data.panel import Panel
from tdegnn.errors import InputError
from tdegnn.export import export_program
from tdegnn.forecasting.fitted import FittedForecaster
from tdegnn.nets.series_network import Frames

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def export_forecaster(fitted: FittedForecaster, lowest: float | None) -> ExportedProgram:
    """Return the program of a trained forecaster.

    Args:
        fitted: The trained forecaster.
        lowest: Lowest value of forecasts, if there is one.
    """
    maker = fitted.ensemble.maker
    values = torch.zeros(maker.window, *maker.scaler.center.shape, dtype=torch.float64)
    calendar = torch.zeros(maker.window + maker.horizon, maker.num_waves, dtype=torch.float64)
    return export_program(ForecastFunction(fitted, lowest), {"values": values, "calendar": calendar})


class ForecastFunction(nn.Module):
    """From the last steps of a panel, complete and in its units, to the forecast of the horizon. All in float64.

    Args:
        fitted: The trained forecaster.
        lowest: Lowest value of forecasts, if there is one.
    """

    center: Tensor
    scale: Tensor

    def __init__(self, fitted: FittedForecaster, lowest: float | None) -> None:
        super().__init__()
        ensemble, maker = fitted.ensemble, fitted.ensemble.maker
        if maker.known or ensemble.node_features is not None:
            what = "channels known ahead" if maker.known else "node features"
            raise InputError(f"Expected a forecaster of the series alone to export, got one with {what}.")
        networks = [deepcopy(network).to("cpu").requires_grad_(False) for network in ensemble.networks]
        self.networks, self._graph = nn.ModuleList(networks), ensemble.graph
        self._precision = next(self.networks[0].parameters()).dtype
        self._window, self._num_targets, self._lowest = maker.window, maker.num_targets, lowest
        self._num_masks = maker.num_targets if maker.has_mask else 0
        self.register_buffer("center", torch.as_tensor(maker.scaler.center))
        self.register_buffer("scale", torch.as_tensor(maker.scaler.scale))

    def forward(
        self, values: Float[Tensor, "window nodes channels"], calendar: Float[Tensor, "steps waves"]
    ) -> Float[Tensor, "horizon nodes targets"]:
        """Return the forecast.

        Args:
            values: The last steps of all channels, targets first, without gaps.
            calendar: Sines and cosines of the seasons in these steps and in those of the horizon, as
                `exported_inputs` computes them. It has no columns if there are no seasons.
        """
        scaled = (values - self.center) / self.scale
        observed = torch.ones_like(scaled[..., : self._num_masks])
        waves = calendar[:, None].expand(-1, scaled.shape[1], -1)
        window = torch.cat([scaled, observed, waves[: self._window]], dim=-1)
        frames = Frames(*(part[None].to(self._precision) for part in (window, waves[self._window :])))
        forecasts = torch.stack([network(frames, self._graph) for network in self.networks]).mean(dim=0)[0].double()
        targets = slice(self._num_targets)
        forecast = forecasts * self.scale[:, targets] + self.center[:, targets]
        return forecast if self._lowest is None else forecast.clamp(min=self._lowest)


def exported_inputs(fitted: FittedForecaster, panel: Panel) -> dict[str, Float[np.ndarray, "..."]]:
    """Return what an exported forecaster takes to forecast the steps after a panel.

    Args:
        fitted: The trained forecaster.
        panel: The series up to now, without gaps in its last window.
    """
    maker = fitted.ensemble.maker
    values = panel.values[-maker.window :]
    if np.isnan(values).any():
        raise InputError(
            "Expected a last window without gaps for an exported forecaster, got one with gaps. Fill them."
        )
    windows = maker.windows(panel[-maker.window :], dtype=torch.float64)
    if windows.waves is None:
        calendar = np.empty((maker.window + maker.horizon, 0))
    else:
        calendar = np.concatenate([part[-1, :, 0].numpy() for part in windows.waves])
    return {"values": np.ascontiguousarray(values, dtype=np.float64), "calendar": calendar}
