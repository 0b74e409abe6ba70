"""SavedModels, TensorFlow Lite models and ONNX files for servers."""
