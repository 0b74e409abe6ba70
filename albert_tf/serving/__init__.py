"""SavedModels and TensorFlow Lite models for servers."""
