"""What a forecaster is compared with in a backtest: naive and classical forecasts, published networks, your own."""
