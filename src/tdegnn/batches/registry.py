"""The ways to make batches by name. To add one, write a file in this folder and add a line here."""

from __future__ import annotations

from tdegnn.batches.base import Batches
from tdegnn.batches.neighborhoods import Neighborhoods
from tdegnn.batches.partitions import Partitions, Ranges
from tdegnn.parts import Family

BATCHES = Family("batches", Batches, {"partitions": Partitions, "ranges": Ranges, "neighborhoods": Neighborhoods})
