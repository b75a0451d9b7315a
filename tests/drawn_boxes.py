"""Where a figure has texts, and where it has lines and dots, in pixels: what overlaps cannot be read."""

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.transforms import Bbox


def marks_of(panel):
    """Yield the boxes of the lines, the intervals and the dots in a panel."""
    yield from (line.get_window_extent() for line in panel.lines)
    for collection in panel.collections:
        if isinstance(collection, LineCollection):
            for segment in collection.get_segments():
                yield Bbox(panel.transData.transform(segment))
        else:
            # The size of a dot is its area in points, of which an inch has 72.
            radii = np.sqrt(collection.get_sizes() / np.pi) * panel.figure.dpi / 72
            for center, radius in zip(panel.transData.transform(collection.get_offsets()), radii, strict=True):
                yield Bbox([center - radius, center + radius])


def texts_of(figure):
    """Return the boxes of the texts in all panels and of all legends."""
    FigureCanvasAgg(figure).draw()
    legends = [*figure.legends, *(panel.get_legend() for panel in figure.axes if panel.get_legend())]
    texts = [text for panel in figure.axes for text in panel.texts]
    return [drawn.get_window_extent() for drawn in (*texts, *legends)]


def assert_texts_are_free(figure):
    """Check that no line or dot runs through a text, and that no text lies on another one."""
    boxes = texts_of(figure)
    marks = [mark for panel in figure.axes for mark in marks_of(panel)]
    assert not any(box.overlaps(mark) for box in boxes for mark in marks)
    assert not any(box.overlaps(other) for place, box in enumerate(boxes) for other in boxes[:place])
