"""ALBERT for TensorFlow 2: model, training, answers and export."""
