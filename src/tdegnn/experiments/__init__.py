"""One file for each table or figure of the paper."""
