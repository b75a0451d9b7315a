"""Times: how they are written, how far apart they are, and which seasons they have."""
