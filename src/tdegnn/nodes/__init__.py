"""Classes and numbers at the nodes of a graph: `NodeClassifier`, `NodeRegressor` and their parts."""
