"""Tables of the user: series, nodes, and features of nodes, from CSV, Parquet and frames."""
