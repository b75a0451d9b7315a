"""Read users' tables of series, nodes and node features from CSV files, Parquet files and frames."""
