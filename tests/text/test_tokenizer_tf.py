"""The tokenizer in a graph gives the ids of the Python tokenizer."""

import pytest
import tensorflow as tf

from albert_tf.text.tokenizer import AlbertTokenizer
from helpers.tokenization_cases import (
    is_same,
    nasty_texts,
)


def test_graph_cleans_every_character_as_python_does(tokenizers):
    # These planes and the tags hold all that is assigned; surrogates are not text.
    code_points = [*range(0xD800), *range(0xE000, 0x33000), *range(0xE0000, 0xE1000)]
    characters = [chr(c) for c in code_points]
    # Between letters and before a sigma, which looks at its neighbours.
    texts = [
        "".join(f"b{c}Σ {c}Σ" for c in characters[start : start + 64])
        for start in range(0, len(characters), 64)
    ]
    for tokenizer in tokenizers:
        cleaned = tokenizer.graph_tokenizer().normalize(texts).numpy()
        for text, graph in zip(texts, cleaned, strict=True):
            assert tokenizer.normalize(text) == graph.decode()


def test_graph_ids_equal_pythons_eagerly_and_in_a_dataset(tokenizers):
    texts = [*nasty_texts(1200, seed=6), "", " ", "in 2013, a13, 17,a", "ΑΣΣ ΣΑΣ"]
    for tokenizer in tokenizers:
        expected = tokenizer.encode_batch(texts)
        dataset = tf.data.Dataset.from_tensor_slices(texts).batch(400)
        batches = list(dataset.map(tokenizer.tf_encode))
        streamed = [ids for batch in batches for ids in batch.to_list()]
        eager = tokenizer.tf_encode(texts)
        assert eager.dtype == tf.int32
        assert eager.to_list() == streamed
        for python, graph in zip(expected, streamed, strict=True):
            assert is_same(python, graph)


@pytest.mark.parametrize(
    "vocabulary",
    [{"spm_model_file": "30k-clean.model"}, {"vocab_file": "vocab_chinese.txt"}],
    ids=["SentencePiece", "WordPiece"],
)
def test_graph_ids_equal_pythons_on_real_text(shared_data, vocabulary):
    [(kind, name)] = vocabulary.items()
    tokenizer = AlbertTokenizer(**{kind: shared_data / "vocabulary" / name})
    for file in sorted((shared_data / "text").glob("*.txt")):
        lines = file.read_text("utf-8").split("\n")[:5000]
        assert tokenizer.tf_encode(lines).to_list() == tokenizer.encode_batch(lines)


def test_graph_tokenizer_survives_a_saved_model(tmp_path, tokenizers):
    texts = ["Rat in 2013, für", "ΑΣ ﬁn 中文 doing"]
    for number, tokenizer in enumerate((tokenizers[0], tokenizers[-1])):
        module, folder = tf.Module(), str(tmp_path / str(number))
        module.tokenizer = tokenizer.graph_tokenizer()
        module.encode = tf.function(
            module.tokenizer, input_signature=[tf.TensorSpec([None], tf.string)]
        )
        tf.saved_model.save(module, folder)
        loaded = tf.saved_model.load(folder)
        ids = loaded.encode(tf.constant(texts)).to_list()
        assert ids == tokenizer.encode_batch(texts)


def test_graph_asks_for_a_batch(tokenizers):
    for texts in ("rat", [["rat"]]):
        for encode in (
            tokenizers[0].tf_encode,
            tokenizers[0].graph_tokenizer().encode_with_offsets,
        ):
            with pytest.raises(ValueError, match=r"takes a batch of texts, \[B\]"):
                encode(texts)
