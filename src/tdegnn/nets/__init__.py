"""Networks: encoder, integration and readout, put together from the parts in `tdegnn.core`."""
