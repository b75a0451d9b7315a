from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from tdegnn import Graph, InputError
from tdegnn.data.panel import Panel
from tdegnn.data.times.seasons import Season, season_waves, step_numbers
from tdegnn.forecasting import frames as frame_maker
from tdegnn.forecasting.frames import FrameMaker

STEPS, NODES, TRAINING = 30, 3, 20
NAMES = ["north", "south", "west"]
SEASONS = (Season(7.0, 3),)
DOUBLE = dict(dtype=torch.float64)


def make_panel(num_channels=1, num_targets=1, missing=0.0, seed=0, zone=None):
    draw = np.random.default_rng(seed)
    values = 10 * draw.normal(size=(STEPS, NODES, num_channels)) + np.arange(1, NODES + 1)[:, None]
    values[draw.random(values.shape) < missing] = np.nan
    return Panel.from_array(
        values,
        times=pd.date_range("2021-03-20", periods=STEPS, freq="D", tz=zone),
        nodes=NAMES,
        num_targets=num_targets,
        graph=Graph([[0, 1], [1, 2]], NODES),
    )


def make_frames(panel, window=4, horizon=2, **options):
    maker = FrameMaker.fit(panel[:TRAINING], window, horizon, **options)
    return maker, maker.windows(panel, **DOUBLE)


def scaled_by_hand(panel):
    training = panel.values[:TRAINING]
    return (panel.values - np.nanmean(training, axis=0)) / np.nanstd(training, axis=0)


def test_scales_are_those_of_the_training_part():
    panel = make_panel(2)
    changed = replace(panel, values=np.where(np.arange(STEPS)[:, None, None] < TRAINING, panel.values, 1e6))
    maker, windows = make_frames(panel)
    other, changed_windows = make_frames(changed)
    np.testing.assert_allclose(maker.scaler.center, panel.values[:TRAINING].mean(axis=0))
    np.testing.assert_allclose(maker.scaler.scale, panel.values[:TRAINING].std(axis=0))
    for name in ("center", "scale"):
        np.testing.assert_array_equal(getattr(maker.scaler, name), getattr(other.scaler, name))
    early = windows.predicting(range(TRAINING))
    assert torch.equal(early.inputs, changed_windows.predicting(range(TRAINING)).inputs)
    assert torch.equal(early.targets, changed_windows.predicting(range(TRAINING)).targets)


@pytest.mark.parametrize(("window", "horizon"), [(1, 1), (4, 2), (5, 3)])
def test_windows_are_those_cut_by_hand(window, horizon):
    panel = make_panel(3, num_targets=2)
    _, windows = make_frames(panel, window, horizon, seasons=SEASONS)
    scaled = scaled_by_hand(panel)
    assert len(windows) == STEPS - window + 1
    assert windows.first_target_steps == range(window, STEPS + 1)
    for number, first in enumerate(windows.first_target_steps):
        frames, targets = windows.batch(torch.tensor([number]))
        np.testing.assert_allclose(frames.window[0, ..., :3], scaled[first - window : first])
        known = scaled[first : first + horizon, :, :2]  # fewer at the end of the series
        np.testing.assert_allclose(targets[0, : len(known)], known)
        assert targets[0, len(known) :].isnan().all()


def test_a_part_has_the_windows_whose_targets_lie_in_it():
    _, windows = make_frames(make_panel(2), seasons=SEASONS)
    part = windows.predicting(range(10, 16))
    assert part.first_target_steps == range(10, 15)
    every_frames, every_targets = windows.batch()
    frames, targets = part.batch()
    for own, whole in zip((*frames, targets), (*every_frames, every_targets), strict=True):
        assert torch.equal(own, whole[6:11])
    assert len(windows.predicting(range(10, 11))) == 0
    assert len(windows.predicting(range(STEPS))) == STEPS - 4 - 2 + 1  # none that reaches beyond the series


def test_the_last_window_forecasts_what_comes_after():
    panel = make_panel()
    maker, windows = make_frames(panel, horizon=3)
    frames, targets = windows.batch(slice(-1, None))
    np.testing.assert_allclose(frames.window[0], scaled_by_hand(panel)[-4:])
    assert targets.isnan().all()
    # The same window, of a panel that is nothing but this window.
    alone, _ = maker.windows(panel[-4:], **DOUBLE).batch()
    assert torch.equal(alone.window, frames.window)
    assert len(maker.windows(panel[-4:])) == 1


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_seasons_are_known_for_past_and_future(zone):
    panel = make_panel(zone=zone)  # the clocks change on March 28
    maker, windows = make_frames(panel, horizon=3, seasons=SEASONS)
    times = panel.times.append(panel.future_times(3))
    waves = season_waves(step_numbers(times, maker.step_length), *SEASONS[0])
    frames, _ = windows.batch(slice(-1, None))
    for node in range(NODES):
        np.testing.assert_allclose(frames.window[0, :, node, 1:], waves[STEPS - 4 : STEPS])
        np.testing.assert_allclose(frames.future[0, :, node], waves[STEPS:])
    if zone is None:  # there a week is seven steps, to the digit
        future = windows.waves.future
        torch.testing.assert_close(future[7:], future[:-7], atol=1e-9, rtol=0)
    later, _ = maker.windows(panel[-10:], **DOUBLE).batch(slice(-1, None))
    torch.testing.assert_close(later.future, frames.future)


def test_gaps_are_filled_from_the_same_window_alone():
    values = np.arange(float(STEPS * NODES)).reshape(STEPS, NODES, 1)
    values[10:12, 0] = np.nan
    panel = replace(make_panel(), values=values)
    maker, windows = make_frames(panel, window=3, horizon=1)
    scaled = torch.as_tensor((values - maker.scaler.center) / maker.scaler.scale)
    cases = {
        11: [8, 9, 9],  # the gap at the end: the last value
        12: [9, 9, 9],
        13: [12, 12, 12],  # at the beginning: the first one after it
        14: [12, 12, 13],
    }
    for first, steps in cases.items():
        frames, _ = windows.batch(torch.tensor([first - 3]))
        torch.testing.assert_close(frames.window[0, :, 0, 0], scaled[steps, 0, 0])
        torch.testing.assert_close(frames.window[0, :, 1, 0], scaled[first - 3 : first, 1, 0])
    assert windows.targets[10 - 3, 0, 0].isnan().all()  # targets are never filled


def test_a_window_without_anything_is_the_mean():
    panel = make_panel()
    panel.values[5:8, 1] = np.nan
    _, windows = make_frames(panel, window=3, horizon=1)
    frames, _ = windows.batch(torch.tensor([5]))  # steps 5, 6, 7
    assert frames.window[0, :, 1, 0].tolist() == [0.0, 0.0, 0.0]
    assert frames.window[0, :, 0, 0].all()


def test_a_mask_says_what_was_observed():
    panel = make_panel(2, missing=0.2)
    panel.values[25, 0, 0] = np.nan
    maker, windows = make_frames(panel)
    assert maker.has_mask
    assert maker.sizes(NODES).num_channels == 3
    for number, first in enumerate(windows.first_target_steps):
        frames, _ = windows.batch(torch.tensor([number]))
        seen = panel.observed[first - 4 : first, :, 0]
        np.testing.assert_array_equal(frames.window[0, ..., 2], seen.astype(float))
        assert frames.window.isfinite().all()


def test_gaps_of_other_channels_or_later_parts_take_no_mask():
    panel = make_panel(2)
    panel.values[3, 0, 1] = np.nan
    panel.values[25, 0, 0] = np.nan
    maker, windows = make_frames(panel)
    assert not maker.has_mask
    frames, _ = windows.batch()
    assert frames.window.shape[-1] == maker.sizes(NODES).num_channels == 2
    assert frames.window.isfinite().all()


def test_known_channels_are_those_of_the_future():
    panel = make_panel(3)
    maker, windows = make_frames(panel, horizon=2, known=["channel 2"], seasons=SEASONS)
    scaled = scaled_by_hand(panel)
    for number, first in enumerate(windows.first_target_steps[:-2]):
        frames, _ = windows.batch(torch.tensor([number]))
        np.testing.assert_allclose(frames.future[0, ..., 0], scaled[first : first + 2, :, 2])
    assert maker.sizes(NODES) == (4, 2, NODES, 3 + 6, 1 + 6, 1, 6, 7)


def test_the_future_is_given_by_name_and_time():
    panel = make_panel(3)
    maker, _ = make_frames(panel, horizon=2, known=["channel 2", "channel 1"])
    future = Panel.from_array(
        np.arange(3.0 * NODES * 2).reshape(3, NODES, 2),
        times=panel.future_times(3),
        nodes=NAMES,
        channels=["channel 1", "channel 2"],
    )
    frames, _ = maker.windows(panel, future=future, **DOUBLE).batch(slice(-1, None))
    for place, name in enumerate(["channel 2", "channel 1"]):
        channel, given = panel.channels.index(name), future.channels.index(name)
        expected = (future.values[:2, :, given] - maker.scaler.center[:, channel]) / maker.scaler.scale[:, channel]
        np.testing.assert_allclose(frames.future[0, ..., place], expected)


def test_a_gap_in_what_is_known_ahead_is_filled():
    panel = make_panel(2)
    panel.values[9, 1, 1] = np.nan
    _, windows = make_frames(panel, known=["channel 1"])
    frames, _ = windows.predicting(range(STEPS)).batch()
    assert frames.future.isfinite().all()
    assert windows.batch(torch.tensor([8 - 4]))[0].future[0, 1, 1] == windows.future[8 - 4, 0, 1]


@pytest.mark.parametrize("num_targets", [1, 2])
def test_units_come_back(num_targets):
    panel = make_panel(3, num_targets)
    maker, windows = make_frames(panel)
    targets = windows.predicting(range(STEPS)).targets.numpy()
    hand_cut = np.stack([panel.values[first : first + 2, :, :num_targets] for first in range(4, STEPS - 1)])
    np.testing.assert_allclose(maker.to_units(targets), hand_cut)
    np.testing.assert_allclose(maker.target_scales, panel.values[:TRAINING, :, :num_targets].std(axis=0))
    assert maker.to_units(targets[0]).shape == (2, NODES, num_targets)


def test_windows_are_kept_where_and_in_which_numbers_one_asks(device):
    panel = make_panel(2)
    maker, _ = make_frames(panel, known=["channel 1"])
    windows = maker.windows(panel, device=device)
    frames, targets = windows.batch(torch.tensor([3, 1], device=device))
    for tensor in (*frames, targets):
        assert (tensor.dtype, tensor.device.type, len(tensor)) == (torch.float32, device.type, 2)
    expected = maker.windows(panel, **DOUBLE).batch(torch.tensor([3, 1]))[0].window
    torch.testing.assert_close(frames.window.double().cpu(), expected, atol=1e-5, rtol=1e-5)


def test_windows_keep_the_series_once_and_seasons_for_one_node(monkeypatch):
    panel = make_panel(3, missing=0.1)
    maker, whole = make_frames(panel, known=["channel 2"], seasons=SEASONS)
    monkeypatch.setattr(frame_maker, "NUMBERS_AT_ONCE", 2 * NODES * 3)  # blocks of two steps
    windows = maker.windows(panel, **DOUBLE)
    num_steps, size = STEPS + 2, torch.float64.itemsize
    assert windows.inputs.untyped_storage().nbytes() == num_steps * NODES * 4 * size  # three channels and the mask
    assert windows.waves.window.untyped_storage().nbytes() == num_steps * 6 * size
    for part, other in zip(windows.batch()[0], whole.batch()[0], strict=True):
        assert torch.equal(part, other)


def test_parts_of_windows_are_views_of_them():
    maker, windows = make_frames(make_panel(2, missing=0.1), seasons=SEASONS)
    whole, targets = windows.batch()
    cases = {
        "every": (windows.every(3), (slice((len(windows) - 1) % 3, None, 3),)),
        "nodes": (windows.at_nodes(slice(1, 3)), (slice(None), slice(None), slice(1, 3))),
    }
    for part, places in cases.values():
        assert part.inputs.untyped_storage().data_ptr() == windows.inputs.untyped_storage().data_ptr()
        frames, of_part = part.batch()
        for own, all_of_them in zip((*frames, of_part), (*whole, targets), strict=True):
            torch.testing.assert_close(own, all_of_them[places], rtol=0, atol=0, equal_nan=True)
    assert windows.every(1) is windows
    assert windows.every(3).first_target_steps[-1] == windows.first_target_steps[-1]
    sizes = maker.sizes(NODES)
    in_a_window = NODES * (4 * sizes.num_channels + 2 * sizes.num_known + 2)
    blocks = list(windows.blocks(5 * in_a_window))
    assert [len(windows.some(block)) for block in blocks[:-1]] == [5] * (len(blocks) - 1)
    assert [step for block in blocks for step in windows.first_target_steps[block]] == [*windows.first_target_steps]


def one_line(error):
    message = str(error.value)
    assert "\n" not in message
    assert message.startswith("Expected")
    return message


def test_a_target_is_not_known_ahead():
    with pytest.raises(InputError, match="known ahead among channel 1, got 'channel 0'. A target is") as error:
        make_frames(make_panel(2), known=["channel 0"])
    one_line(error)
    with pytest.raises(InputError, match="that are not forecast .there are none., got 'rain'"):
        make_frames(make_panel(), known=["rain"])


def test_other_channels_than_those_of_the_training_are_refused():
    maker, _ = make_frames(make_panel(2))
    with pytest.raises(InputError, match="channels of the training, channel 0, channel 1, got value") as error:
        maker.windows(make_panel())
    one_line(error)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(channels=["rain"]), "future values of channel 'channel 1', got none"),
        (dict(first=1), "future values of 2 steps from 2021-04-19 00:00:00 on, of all nodes, got none"),
        (dict(nodes=["a", "b", "c"]), "future values of 2 steps .* of all nodes, got none. Give them, or leave known="),
    ],
)
def test_a_future_without_what_is_known_is_refused(change, message):
    panel = make_panel(2)
    maker, _ = make_frames(panel, known=["channel 1"])
    first = change.get("first", 0)
    future = Panel.from_array(
        np.ones((2, NODES)),
        times=panel.future_times(3)[first : first + 2],
        nodes=change.get("nodes", NAMES),
        channels=change.get("channels", ["channel 1"]),
    )
    with pytest.raises(InputError, match=message) as error:
        maker.windows(panel, future=future)
    one_line(error)


def test_a_panel_shorter_than_a_window_is_refused():
    maker, _ = make_frames(make_panel())
    with pytest.raises(InputError, match="at least 6 steps for a window of 4 and a horizon of 2, got 5") as error:
        maker.windows(make_panel()[:3])
    one_line(error)


def test_windows_are_found_by_the_steps_they_forecast():
    _, windows = make_frames(make_panel())
    chosen = windows.starting_at(range(6, 20, 5))
    assert len(chosen) == 3
    for place, first in enumerate((6, 11, 16)):
        torch.testing.assert_close(chosen.targets[place], windows.targets[first - 4])
        torch.testing.assert_close(chosen.inputs[place], windows.inputs[first - 4])
    for steps in (range(3, 8), range(29, 40), range(6, 6)):
        with pytest.raises(InputError, match=r"Expected first target steps within range\(4, \d+\), got range"):
            windows.starting_at(steps)
