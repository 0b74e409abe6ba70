"""Blanks are filled in as the pipeline of transformers fills them in."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf
import transformers

from albert_tf.checkpoints.model_dir import ModelDir
from albert_tf.model.heads import PretrainingModel
from albert_tf.serving import export
from albert_tf.serving.fill_mask import Candidate, ServedFillMask
from albert_tf.text.tokenizer import AlbertTokenizer
from helpers.fine_tuning_toys import TASK_CONFIG, config
from helpers.served_models import (
    LABELS,
    export_folder,
    signature,
    write_classifier,
    write_model,
)
from helpers.tokenization_cases import train, write_wordpieces
from helpers.transformers_models import (
    POSITIONS,
    bert_config,
    load_transformers,
    random_bert_tensors,
    random_tensors,
    transformers_config,
    write_folder,
)

TOP_K = 7
TEXTS = {
    "BERT": ["The cat is [MASK].", "[MASK]", "[MASK]a [MASK][MASK], b", "un[MASK] Ö"],
    # Of a text that goes on without a space it makes other tokens.
    "ALBERT": [
        "The cat is [MASK] now.",
        "[MASK]",
        "[MASK] tree [MASK][MASK]",
        "un[MASK]",
    ],
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Models of classes that have the masked-LM head alone, and no pooler."""
    place = tmp_path_factory.mktemp("pretrained")
    bert, albert = place / "bert", place / "albert"
    bert.mkdir(), albert.mkdir()
    write_wordpieces(bert / "vocab.txt")
    train(albert / "spiece.model")
    rng = np.random.default_rng(8)
    config = bert_config(
        architectures=["BertForMaskedLM"],
        vocab_size=AlbertTokenizer(vocab_file=bert / "vocab.txt").vocab_size,
    )
    tensors = random_bert_tensors(config, rng, {"cls.predictions": 0}, False)
    write_folder(bert, config, tensors)
    config = transformers_config(
        architectures=["AlbertForMaskedLM"],
        vocab_size=AlbertTokenizer(albert / "spiece.model").vocab_size,
    )
    tensors = random_tensors(config, rng, {"predictions": 0})
    tensors = {n: v for n, v in tensors.items() if "pooler" not in n}
    write_folder(albert, config, tensors)
    return {"BERT": bert, "ALBERT": albert}


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """An own model as pretraining leaves it, with its vocabulary."""
    folder = tmp_path_factory.mktemp("own")
    shape = config(initializer_range=0.4)
    write_model(folder, TASK_CONFIG, PretrainingModel(shape, seed=4), shape)
    (folder / "task.json").unlink()
    return folder


def pipeline(kind, folder):
    if kind == "BERT":
        tokenizer = transformers.BertTokenizer(str(folder / "vocab.txt"))
        model = load_transformers("BertForMaskedLM", folder)
    else:
        tokenizer = transformers.AlbertTokenizer(str(folder / "spiece.model"))
        model = load_transformers("AlbertForMaskedLM", folder)
    return transformers.FillMaskPipeline(
        model=model, tokenizer=tokenizer, framework="tf", top_k=TOP_K
    )


@pytest.mark.parametrize("kind", TEXTS)
def test_tokens_and_probabilities_are_those_of_transformers(kind, folders):
    fill = pipeline(kind, folders[kind])
    model = ServedFillMask.from_model_dir(ModelDir.read(folders[kind]), TOP_K)
    found = model.fill(TEXTS[kind])
    assert [len(masks) for masks in found] == [t.count("[MASK]") for t in TEXTS[kind]]
    for text, masks in zip(TEXTS[kind], found, strict=True):
        theirs = fill(text)
        for own, expected in zip(
            masks, [theirs] if len(masks) == 1 else theirs, strict=True
        ):
            assert [each.token_id for each in own] == [e["token"] for e in expected]
            np.testing.assert_allclose(
                [each.probability for each in own],
                [each["score"] for each in expected],
                rtol=0,
                atol=1e-5,
            )


def test_texts_together_are_filled_in_as_alone(folders):
    model = ServedFillMask.from_model_dir(ModelDir.read(folders["BERT"]), 3)
    texts = [f"{'a b ' * (n % 5)}[MASK]{' [MASK]' * (n % 3)}" for n in range(11)]
    for text, masks in zip(texts, model.fill(texts), strict=True):
        [alone] = model.fill([text])
        assert len(masks) == len(alone) == text.count("[MASK]")
        for own, expected in zip(masks, alone, strict=True):
            assert [e.token_id for e in own] == [e.token_id for e in expected]
            some, others = ([e.probability for e in each] for each in (own, expected))
            np.testing.assert_allclose(some, others, rtol=0, atol=1e-5)
    assert model.fill([]) == []


def test_all_tokens_of_the_vocabulary_share_the_probability(folders, tmp_path):
    folder = ModelDir.read(folders["ALBERT"])
    size = folder.config.vocab_size
    [[candidates]] = ServedFillMask.from_model_dir(folder, size).fill(["a [MASK]"])
    assert sorted(each.token_id for each in candidates) == list(range(size))
    assert abs(sum(each.probability for each in candidates) - 1) < 1e-4
    tokenizer = folder.tokenizer()
    best = candidates[0]
    assert best == Candidate(
        tokenizer.id_to_token(best.token_id), best.token_id, best.probability
    )


def test_what_cannot_be_filled_in_is_refused(folders, tmp_path):
    folder = ModelDir.read(folders["BERT"])
    model = ServedFillMask.from_model_dir(folder)
    room = POSITIONS - 2
    assert model.fill(["a " * (room - 1) + "[MASK]"])
    with pytest.raises(ValueError, match=f"has {room + 1} tokens, .* at most {room}"):
        model.fill(["[MASK]", "a " * room + "[MASK]"])
    with pytest.raises(ValueError, match=r"'a \[mask\]' has no \[MASK\]"):
        model.fill(["[MASK]", "a [mask]"])
    size = folder.config.vocab_size
    with pytest.raises(ValueError, match=f"vocabulary's size, {size}. Received 0"):
        ServedFillMask.from_model_dir(folder, 0)
    with pytest.raises(ValueError, match=f"Received {size + 1}"):
        ServedFillMask.from_model_dir(folder, size + 1)
    small = folder.config.replace(vocab_size=size - 1)
    with pytest.raises(ValueError, match=f"{size} tokens, the model {size - 1}"):
        ServedFillMask(None, small, folder.tokenizer())
    classifier = ModelDir.read(write_classifier(tmp_path, LABELS, pair=False))
    with pytest.raises(ValueError, match=r"no masked-LM head \(heads: classifier\)"):
        ServedFillMask.from_model_dir(classifier)
    vocabulary = tmp_path / "other.txt"
    lines = (folders["BERT"] / "vocab.txt").read_text().replace("[MASK]", "[M]")
    vocabulary.write_text(lines)
    with pytest.raises(ValueError, match=r"has no line \[MASK\]"):
        ServedFillMask.from_model_dir(
            dataclasses.replace(folder, vocabulary=vocabulary)
        )


def exported_signature(folder, target, **options):
    version = export_folder(folder, target, fill_mask=4, **options)
    return version, signature(version, "fill_mask")


def test_the_signature_gives_what_python_gives(pretrained, tmp_path):
    version, serve = exported_signature(pretrained, tmp_path, embeddings=True)
    texts = ["worda [MASK] [MASK].", "no mask", "[MASK]", "worda " * 23 + "[MASK]"]
    answers = {n: v.numpy() for n, v in serve(text=tf.constant(texts)).items()}
    assert answers["truncated"].tolist() == [False, False, False, True]
    counts = [2, 0, 1, 0]
    model = ServedFillMask.from_model_dir(ModelDir.read(pretrained), 4)
    for row, count in enumerate(counts):
        tokens, ids, probabilities = (
            answers[name][row] for name in ("tokens", "token_ids", "probabilities")
        )
        assert tokens.shape == ids.shape == probabilities.shape == (2, 4)
        assert np.all(tokens[count:] == b"") and np.all(ids[count:] == -1)
        assert not np.any(probabilities[count:])
        expected = model.fill([texts[row]])[0] if count else []
        for mask, candidates in enumerate(expected):
            assert [t.decode() for t in tokens[mask]] == [c.token for c in candidates]
            assert ids[mask].tolist() == [c.token_id for c in candidates]
            np.testing.assert_allclose(
                probabilities[mask],
                [c.probability for c in candidates],
                rtol=0,
                atol=1e-6,
            )
    empty = serve(text=tf.constant([], tf.string))
    assert empty["tokens"].shape == (0, 0, 4)
    card = json.loads((version / "assets.extra/model_card.json").read_text())
    custom = ["text", "embeddings_text", "fill_mask"]
    assert card["signatures_with_custom_operations"] == custom


def test_a_signature_of_bfloat16_gives_nearly_the_same(pretrained, tmp_path):
    _, exact = exported_signature(pretrained, tmp_path / "exact")
    _, rough = exported_signature(pretrained, tmp_path / "rough", precision="bfloat16")
    text = tf.constant(["worda [MASK] wordb"])
    some, others = (each(text=text)["probabilities"] for each in (exact, rough))
    np.testing.assert_allclose(some, others, rtol=0.05)


def test_the_report_counts_the_head_as_loaded(pretrained, tmp_path):
    exported = export.from_model_dir(ModelDir.read(pretrained), fill_mask=2)
    _, report = export.export_model(exported, tmp_path)
    assert "cls/predictions/output_bias" in report.loaded
    assert {name.split("/")[1] for name in report.unused} == {"seq_relationship"}


def test_a_signature_that_cannot_be_is_refused(pretrained, tmp_path):
    with pytest.raises(ValueError, match="fill_mask takes texts"):
        exported_signature(pretrained, tmp_path / "new", text=False)
    (tmp_path / "tuned").mkdir()
    classifier = write_classifier(tmp_path / "tuned", LABELS, pair=False)
    with pytest.raises(ValueError, match="no masked-LM head"):
        exported_signature(classifier, tmp_path / "new")
    assert not (tmp_path / "new").exists()
