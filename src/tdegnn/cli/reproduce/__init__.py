"""`tdegnn reproduce`: tables and figures, one file each."""
