"""What users touch first: estimators with fit, predict, save and load, in the manner of scikit-learn."""
