"""Training: the one loop, and the device it runs on."""
