"""The folder of a training, and the files in it."""
