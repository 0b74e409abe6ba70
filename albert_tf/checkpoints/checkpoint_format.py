"""Names of checkpoint formats; loads no TensorFlow."""

# Formats in which a model's folder can be written.
WRITABLE_FORMATS = ("own", "tensorflow1", "hugging_face", "model_garden")
