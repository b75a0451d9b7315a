"""Reports: one HTML page about one or several runs, which needs no network."""
