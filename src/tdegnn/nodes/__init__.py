"""Classes and numbers at the nodes of a graph: `NodeClassifier`, `NodeRegressor` and what they are made of."""
