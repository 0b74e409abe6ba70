"""Text to token ids and back, and ids to rows; with TensorFlow twins."""
