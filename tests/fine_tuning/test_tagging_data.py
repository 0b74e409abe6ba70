"""Files of sentences as splits."""

import pytest

from albert_tf.records.reader import read_rows
from albert_tf.task_config import Tagging
from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.fine_tuning.tagging_data import read_files, tagging, tagging_files
from helpers.fine_tuning_toys import write_vocabulary
from helpers.tagged_toys import LABELS, sentences, write_conll, write_tokens


@pytest.fixture
def tokenizer(tmp_path):
    return AlbertTokenizer(vocab_file=write_vocabulary(tmp_path))


def test_files_of_a_folder_become_splits(tmp_path, tokenizer):
    write_tokens(tmp_path / "train.jsonl", sentences(9, 1))
    write_conll(tmp_path / "valid.txt", sentences(7, 2))
    (tmp_path / "test.conll").write_text("worda\nlovely\n\nwordb\n")
    files = tagging_files(tmp_path, ["train", "dev", "test"])
    assert [path.name for path in files.values()] == [
        *("train.jsonl", "valid.txt", "test.conll")
    ]
    cache = tmp_path / "cache"
    lengths = {"max_seq_length": 11, "doc_stride": 4}
    data = tagging(read_files(files), tokenizer, **lengths, cache_dir=cache)
    assert data.task_config == Tagging("tagging", LABELS, **lengths)
    assert len({row["sentence"] for row in read_rows(data.train.paths[0])}) == 9
    assert data.dev["dev"].metadata["labelled"]
    assert not data.test["test"].metadata["labelled"]
    assert data.test["test"].total_rows == 2
    assert data.notes[1].startswith("dev: 7 sentences, ")
    assert data.notes[2] == "test: 2 sentences, 3 words, no tags"
    # A second time the rows are those of the cache, and labels those of the model.
    again = tagging({"dev": files["dev"]}, tokenizer, data.task_config, cache_dir=cache)
    assert again.dev["dev"].paths == data.dev["dev"].paths and again.train is None


def test_tags_of_another_kind_are_no_labels_of_a_file_to_predict(tmp_path, tokenizer):
    config = Tagging("tagging", LABELS, 16)
    path = tmp_path / "new.txt"
    path.write_text("worda NN\nlovely JJ\n")
    cache = {"cache_dir": tmp_path}
    data = tagging({"test": path}, tokenizer, config, **cache)
    assert not data.test["test"].metadata["labelled"]
    with pytest.raises(ValueError, match="tags are plain, the model's are of entities"):
        tagging({"dev": path}, tokenizer, config, **cache)
    write_conll(path, sentences(3, 1))
    plain = Tagging("tagging", ["JJ", "NN"], 16)
    with pytest.raises(ValueError, match="tags are of entities, the model's are plain"):
        tagging({"dev": path}, tokenizer, plain, **cache)


def test_what_cannot_be_read_is_refused(tmp_path, tokenizer):
    with pytest.raises(FileNotFoundError, match=r"no file dev or valid or validation"):
        tagging_files(tmp_path, ["dev"])
    for name in ("dev.txt", "valid.jsonl"):
        (tmp_path / name).write_text("")
    with pytest.raises(ValueError, match=r"has dev\.txt and valid\.jsonl: name"):
        tagging_files(tmp_path, ["dev"])
    with pytest.raises(ValueError, match="Received 'other'"):
        tagging({"other": "x"}, tokenizer)
    path = write_conll(tmp_path / "x.txt", sentences(2, 1))
    with pytest.raises(ValueError, match="to train on are needed"):
        tagging({"dev": path}, tokenizer)
