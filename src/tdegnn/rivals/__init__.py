"""Published systems that ours are compared with. Only experiments import them."""
