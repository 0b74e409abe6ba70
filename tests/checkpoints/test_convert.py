"""Weights are converted unchanged, with all that belongs to them."""

import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import (
    formats,
    model_dir,
    tensorflow_files,
    verify,
    writers,
)
from albert_tf.config import AlbertConfig
from albert_tf.storage import as_path
from helpers import tiny
from helpers.bucket_files import copies_of, files_of, new_bucket, upload
from helpers.disks import full_disk
from helpers.tiny_weights import (
    HEAD_SHAPES,
    TOKENS,
    assert_same_weights,
    convert,
    files_in,
    model_with_head,
    random_model,
    write_model,
)


@pytest.fixture
def released(tmp_path):
    """A released folder with a vocabulary of too few pieces; its weights."""
    config, weights = random_model()
    folder = write_model(tmp_path / "released", weights, config)
    (folder / "vocab_chinese.txt").write_text("\n".join(TOKENS) + "\n")
    return folder, weights


CONFIG = tiny.tiny_config()
SHARING = {
    "all shared": {},
    "groups": {"num_hidden_groups": 2},
    "inner groups": {"inner_group_num": 2},
    "attention shared": {"ffn_groups": 4},
    "mixed": {"attention_groups": 2, "ffn_groups": 4},
    "as BERT": {"embedding_size": 12, "num_hidden_groups": 4},
}


@pytest.mark.parametrize("sharing", SHARING)
@pytest.mark.parametrize("target_format", ["own", "tensorflow1", "hugging_face"])
def test_a_round_trip_keeps_outputs_and_plain_weights_to_the_bit(
    target_format, sharing, tmp_path
):
    config, weights = random_model(**SHARING[sharing])
    source = write_model(tmp_path / "source", weights, config)
    results = convert(source, tmp_path / "there", target_format)
    assert set(results["largest_differences"]["reload"]) == {
        "sequence_output",
        "pooled_output",
        "cls/seq_relationship/logits",
        "cls/predictions/logits",
    }
    convert(tmp_path / "there", tmp_path / "back", "tensorflow1")
    some, others = (formats.read_weights(f) for f in (source, tmp_path / "back"))
    if sharing in ("all shared", "groups", "inner groups"):
        assert_same_weights(some.weights, others.weights)
        assert some.config == others.config
    batch = verify.random_batch(config, np.random.default_rng(6))
    differences = verify.largest_difference(
        verify.outputs(some, batch), verify.outputs(others, batch)
    )
    assert len(differences) == 4 and max(differences.values()) < 1e-5


def test_an_exported_base_model_has_the_released_names(shared_data, tmp_path):
    released = shared_data / "checkpoints" / "albert_base_zh"
    names = dict(tf.train.list_variables(str(released / "model.ckpt-best")))
    config = AlbertConfig.from_json(released / "albert_config.json")
    rng = np.random.default_rng(0)
    values = {n: rng.random(s, np.float32) for n, s in names.items() if s}
    source = write_model(tmp_path / "source", values, config)
    convert(source, tmp_path / "exported", "tensorflow1")
    prefix = str(tmp_path / "exported" / "model.ckpt-best")
    assert dict(tf.train.list_variables(prefix)) == names
    again = formats.read_weights(tmp_path / "exported")
    assert_same_weights(again.weights, values)


def test_steps_and_training_state(released, tmp_path):
    folder, weights = released
    slots = {f"{name}/adam_m": value for name, value in weights.items()}
    tensorflow_files.write_named(
        folder / "model.ckpt-best", {**weights, **slots, "global_step": np.int64(9)}
    )
    results = convert(folder, tmp_path / "own", "own")
    assert results["weights"]["ignored"] == sorted([*slots, "global_step"])
    assert tensorflow_files.read_global_step(str(tmp_path / "own/model.ckpt-9")) == 9


def test_the_report_lies_beside_the_weights(released, tmp_path):
    results = convert(released[0], tmp_path / "own", "own")
    stored = json.loads((tmp_path / "own" / "conversion.json").read_text())
    assert stored == results
    assert results["weights"]["loaded"] == sorted(released[1])
    assert results["weights"]["fresh"] == results["weights"]["unused"] == []
    assert results["source_layout"] == "tensorflow1"


# -- heads


@pytest.mark.parametrize("target_format", ["own", "tensorflow1"])
@pytest.mark.parametrize("head", HEAD_SHAPES)
def test_heads_of_tasks_travel_along(head, target_format, tmp_path):
    source, values = model_with_head(tmp_path / "source", head)
    convert(source, tmp_path / "there", target_format)
    there = formats.read_weights(tmp_path / "there").weights
    assert_same_weights({n: v for n, v in there.items() if n in values}, values)


# -- strictness


def test_a_target_in_use_is_left_alone(released, tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "mine").write_text("x")
    with pytest.raises(ValueError, match="in use"):
        convert(released[0], tmp_path / "there", "own")
    assert files_in(tmp_path / "there") == ["mine"]


# -- vocabulary


TABLE = "bert/embeddings/word_embeddings"


def test_the_vocabulary_and_its_cleaning_travel_along(released, tmp_path):
    folder = released[0]
    file = folder / "vocab_chinese.txt"
    cased = model_dir.VocabularyFile(file, True, False)
    convert(folder, tmp_path / "own", "own", vocabulary=cased)
    assert model_dir.read_cleaning(tmp_path / "own") == {
        "lower_case": True,
        "strip_accents": False,
    }
    convert(tmp_path / "own", tmp_path / "theirs", "hugging_face")
    settings = json.loads((tmp_path / "theirs/tokenizer_config.json").read_text())
    assert settings == {
        "do_lower_case": True,
        "strip_accents": False,
        "tokenizer_class": "BertTokenizer",
    }
    values = json.loads((tmp_path / "theirs/config.json").read_text())
    assert (values["pad_token_id"], values["bos_token_id"]) == (0, 2)
    results = convert(tmp_path / "theirs", tmp_path / "again", "own")
    some, others = (tmp_path / name / "tokenizer.json" for name in ("own", "again"))
    assert some.read_bytes() == others.read_bytes()
    assert (tmp_path / "again/vocab.txt").read_text().split() == TOKENS
    assert results["notes"] == ["vocab.txt has 15 tokens, the model 61 rows."]


def test_a_vocabulary_of_another_model_is_refused(released, tmp_path):
    folder = released[0]
    (folder / "vocab_chinese.txt").write_text(
        "\n".join([*TOKENS, *map(str, range(99))])
    )
    with pytest.raises(ValueError, match="114 tokens, the model 61"):
        convert(folder, tmp_path / "there", "own")
    (folder / "vocab_chinese.txt").write_text("\n".join(TOKENS))
    metadata = {
        "vocabulary_sha256": "f" * 64,
        "lower_case": True,
        "strip_accents": True,
    }
    (folder / "tokenizer.json").write_text(json.dumps(metadata))
    with pytest.raises(ValueError, match=r"not the vocabulary .*expected ffffff"):
        convert(folder, tmp_path / "there", "own")
    (folder / "vocab_other.txt").write_text("\n".join(TOKENS))
    with pytest.raises(ValueError, match=r"several.*vocab_chinese\.txt, vocab_other"):
        convert(folder, tmp_path / "there", "own")


def test_a_grown_vocabulary_keeps_its_old_ids(released, tmp_path):
    folder = released[0]
    old = model_dir.read_vocabulary(folder)

    def with_file(name, pieces):
        (tmp_path / name).write_text("\n".join(pieces))
        return model_dir.VocabularyFile(
            tmp_path / name, old.lower_case, old.strip_accents
        )

    longer = with_file("longer.txt", [*TOKENS, "k", "l"])
    convert(folder, tmp_path / "there", "own", vocab_size=63, vocabulary=longer)
    assert model_dir.read_metadata(tmp_path / "there")["vocab_size"] == 17
    other = with_file("other.txt", [*TOKENS[:-1], "k", "j"])
    with pytest.raises(ValueError, match="does not have 'j' at 14"):
        convert(folder, tmp_path / "x", "own", vocab_size=63, vocabulary=other)


def test_without_the_old_vocabulary_a_new_one_is_refused_until_it_is_named(
    released, tmp_path
):
    folder = released[0]
    old = model_dir.read_vocabulary(folder)
    metadata = old.tokenizer().metadata()
    (folder / "tokenizer.json").write_text(json.dumps(metadata))
    (folder / "vocab_chinese.txt").rename(tmp_path / "old.txt")

    def grow(name, pieces, **changes):
        (tmp_path / name).write_text("\n".join(pieces) + "\n")
        new = model_dir.VocabularyFile(tmp_path / name, True, True)
        return convert(
            folder,
            tmp_path / "there",
            "own",
            vocab_size=63,
            vocabulary=new,
            **changes,
        )

    longer = [*TOKENS, "k", "l"]
    with pytest.raises(ValueError, match="pass that as --old_vocabulary"):
        grow("foreign.txt", longer)
    other = model_dir.VocabularyFile(tmp_path / "foreign.txt", True, True)
    with pytest.raises(ValueError, match=r"foreign\.txt is not the vocabulary that"):
        grow("longer.txt", longer, old_vocabulary=other)
    known = model_dir.VocabularyFile(tmp_path / "old.txt", True, True)
    with pytest.raises(ValueError, match=r"shorter\.txt does not have 'j' at 14"):
        grow("shorter.txt", TOKENS[:-1], old_vocabulary=known)
    grow("longer.txt", longer, old_vocabulary=known)
    assert model_dir.read_metadata(tmp_path / "there")["vocab_size"] == 17


def test_the_models_own_vocabulary_may_be_named_when_rows_are_added(released, tmp_path):
    folder = released[0]
    old = model_dir.read_vocabulary(folder)
    (folder / "tokenizer.json").write_text(json.dumps(old.tokenizer().metadata()))
    (folder / "vocab_chinese.txt").rename(tmp_path / "old.txt")
    own = model_dir.VocabularyFile(tmp_path / "old.txt", True, True)
    convert(folder, tmp_path / "there", "own", vocab_size=63, vocabulary=own)
    assert model_dir.read_metadata(tmp_path / "there")["vocab_size"] == 15


def test_what_is_known_of_a_vocabulary_travels_without_its_file(released, tmp_path):
    folder = released[0]
    (folder / "vocab_chinese.txt").unlink()
    metadata = {
        "vocabulary_sha256": "0" * 64,
        "lower_case": True,
        "strip_accents": True,
    }
    (folder / "tokenizer.json").write_text(json.dumps(metadata))
    results = convert(folder, tmp_path / "own", "own")
    assert model_dir.read_metadata(tmp_path / "own") == metadata
    assert "none was copied" in results["notes"][0]


def test_of_two_conversions_at_once_one_wins_and_the_other_is_refused(
    released, tmp_path, monkeypatch
):
    folder, weights = released
    write, outcomes = writers.write, []

    def write_and_meet_another(*arguments):
        if not outcomes:
            outcomes.append(None)
            outcomes.append(convert(folder, tmp_path / "target", "own"))
        return write(*arguments)

    monkeypatch.setattr(writers, "write", write_and_meet_another)
    with pytest.raises(FileExistsError, match="target is in use"):
        convert(folder, tmp_path / "target", "own")
    assert files_in(tmp_path) == ["released", "target"]
    assert "conversion.json" in files_in(tmp_path / "target")
    assert_same_weights(formats.read_weights(str(tmp_path / "target")).weights, weights)


def test_a_full_disk_names_the_file_and_leaves_nothing(released, tmp_path):
    folder, _ = released
    with full_disk(100), pytest.raises(OSError, match="cannot be written") as caught:
        convert(folder, tmp_path / "target", "own")
    assert "\n" not in str(caught.value) and ".target." in str(caught.value)
    assert files_in(tmp_path) == ["released"]


@pytest.mark.parametrize("changes", [("hdfs://b/new", None), (None, "hdfs://b/model")])
def test_other_schemes_are_refused_before_anything_is_written(
    changes, released, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    target, source = changes
    with pytest.raises(ValueError, match=r"hdfs://b/.* is not a path of this machine"):
        convert(source or released[0], target or tmp_path / "target", "own")
    assert files_in(tmp_path) == ["released"]


@pytest.mark.parametrize("target_format", ["own", "hugging_face"])
def test_a_model_of_a_bucket_is_converted_to_the_same_bytes(
    target_format, released, tmp_path, monkeypatch
):
    source, bucket = upload(released[0], f"{new_bucket()}/released"), new_bucket()
    copied = copies_of(monkeypatch)
    results = convert(source, f"{bucket}/new", target_format, strict=False)
    assert results["source"] == f"{source}/model.ckpt-best"
    # Weights are copied once; other files are read where they are.
    parts = ["model.ckpt-best.data-00000-of-00001", "model.ckpt-best.index"]
    assert sorted(copied) == parts
    convert(released[0], tmp_path / "new", target_format, strict=False)
    there, here = files_of(f"{bucket}/new"), files_of(tmp_path / "new")
    reports = [json.loads(each.pop("conversion.json")) for each in (there, here)]
    for each in (there, here):
        # The library does not write its header in the same order twice.
        each.pop("model.safetensors", None)
    assert there == here and "vocab.txt" in there
    for report in reports:
        del report["source"]
    assert reports[0] == reports[1]
    copied.clear()
    reread = formats.read_weights(f"{bucket}/new")
    local = formats.read_weights(tmp_path / "new")
    assert_same_weights(reread.weights, local.weights)
    assert reread.global_step == local.global_step
    assert 0 < len(copied) == len(set(copied))


def test_a_half_written_model_of_a_bucket_is_named_and_written_again(released):
    target = as_path(new_bucket()) / "new"
    convert(released[0], target, "own")
    expected = files_of(target)
    with pytest.raises(ValueError, match="new is in use: convert into a new folder"):
        convert(released[0], target, "own")
    # A process was killed after the first files.
    (target / "conversion.json").unlink()
    names = ["old", "conversion.json"]
    (target / "old").write_bytes(b"")
    listed = json.dumps({"token": "1", "files": [*expected, *names]})
    (target / ".unfinished").write_text(listed)
    for read in (formats.read_weights, model_dir.ModelDir.read):
        with pytest.raises(ValueError, match="new is not complete: what wrote it was"):
            read(target)
    convert(released[0], target, "own")
    assert files_of(target) == expected
