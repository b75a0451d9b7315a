"""Numbers printed in the paper that experiments are compared with."""

# The paper's tables of pendulum coefficients and of the moduli of their roots, by order.
PENDULUM_COEFFICIENTS: dict[int, tuple[float, ...]] = {
    2: (2.0, -1.0),
    3: (1.4, 0.2, -0.6),
    4: (0.975, 0.675, -0.25, -0.4),
    5: (-0.08, 1.68, 0.153, 0.006, -0.759),
}
PENDULUM_ROOT_MODULI: dict[int, tuple[float, ...]] = {
    2: (1.0, 1.0),
    3: (1.0, 0.6, 1.0),
    4: (1.0, 1.0, 0.629, 0.629),
    5: (1.0, 0.73, 0.73, 1.4, 1.0),
}
