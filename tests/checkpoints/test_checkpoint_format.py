"""Names of formats are those of the flag --layout and of reports."""

from albert_tf.checkpoints.checkpoint_format import WRITABLE_FORMATS, CheckpointFormat


def test_names_of_formats_stay():
    names = [known.value for known in CheckpointFormat]
    assert names == [
        "own",
        "tensorflow1",
        "bert",
        "albert_zh",
        "hugging_face",
        "model_garden",
    ]
    assert [known.value for known in WRITABLE_FORMATS] == [
        "own",
        "tensorflow1",
        "hugging_face",
        "model_garden",
    ]
