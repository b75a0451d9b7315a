"""Networks put together from the parts in `tdegnn.core`."""
