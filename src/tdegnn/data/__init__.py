"""Where states come from: simulators with a known order, and windows over what was observed."""
