"""Tasks as values: model, losses, predictions and metrics of each."""
