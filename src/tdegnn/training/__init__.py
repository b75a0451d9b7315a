"""Training: the loop, members that are trained together, and the device they are trained on."""
