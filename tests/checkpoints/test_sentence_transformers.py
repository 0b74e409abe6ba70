"""Folders of sentence-transformers say how their vectors are made."""

import json

import pytest

from albert_tf.checkpoints import sentence_transformers
from albert_tf.task_config import Embedding


@pytest.mark.parametrize("pooling", ["mean", "first"])
@pytest.mark.parametrize("normalize", [True, False])
def test_what_is_written_is_read(tmp_path, pooling, normalize):
    task = Embedding("toy", pooling=pooling, normalize=normalize, max_seq_length=33)
    for name, content in sentence_transformers.files(task, 24).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    found = sentence_transformers.read_pooling(tmp_path)
    known = found.pooling, found.normalize, found.max_seq_length
    assert known == (pooling, normalize, 33)
    values = json.loads((tmp_path / "1_Pooling/config.json").read_text())
    assert values["word_embedding_dimension"] == 24
    types = [m["type"] for m in json.loads((tmp_path / "modules.json").read_text())]
    assert len(types) == 2 + normalize


def test_other_folders_and_other_poolings(tmp_path):
    assert sentence_transformers.read_pooling(tmp_path) is None
    (tmp_path / "1_Pooling").mkdir()
    for values in (
        {"pooling_mode_max_tokens": True},
        {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True},
        {},
    ):
        (tmp_path / "1_Pooling/config.json").write_text(json.dumps(values))
        with pytest.raises(ValueError, match="is known here"):
            sentence_transformers.read_pooling(tmp_path)
    known = {"pooling_mode_cls_token": True}
    (tmp_path / "1_Pooling/config.json").write_text(json.dumps(known))
    (tmp_path / "sentence_bert_config.json").write_text('{"max_seq_length": "long"}')
    with pytest.raises(ValueError, match="must be a whole number"):
        sentence_transformers.read_pooling(tmp_path)
