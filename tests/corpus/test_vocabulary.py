"""A trained vocabulary has the reserved tokens and fits the text and tokenizer."""

import pickle
from collections import Counter

import numpy as np
import pytest
import sentencepiece

from albert_tf.storage import as_path
from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.corpus import vocabulary
from data_prep.corpus.inputs import expand_inputs
from data_prep.corpus.reader import BAD_UTF8, ReadingConfig, read_sentences
from data_prep.corpus.vocabulary import VocabularyConfig
from helpers.letters import made_up_text

SYMBOLS = vocabulary.PUNCTUATION_SYMBOLS


def train(sentences, counts=None, **settings):
    config = VocabularyConfig(**({"vocab_size": 110} | settings))
    counts = Counter() if counts is None else counts
    trained = vocabulary.train_vocabulary(sentences, config, counts)
    return trained, sentencepiece.SentencePieceProcessor(model_proto=trained.model)


def test_reserved_pieces_and_symbols_have_the_released_ids():
    _, processor = train(made_up_text(300))
    pieces = [processor.id_to_piece(i) for i in range(13)]
    assert pieces == ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]", *SYMBOLS]
    assert [processor.is_control(i) for i in range(6)] == [
        True,
        False,
        *[True] * 3,
        False,
    ]
    assert processor.is_unknown(1)
    assert processor.get_piece_size() == 110
    assert processor.bos_id() == processor.eos_id() == -1


def test_reserved_pieces_are_those_of_the_released_vocabulary(shared_data):
    content = (shared_data / "vocabulary" / "30k-clean.model").read_bytes()
    vocabulary.check_vocabulary(content, SYMBOLS)


def test_each_symbol_is_cut_out_of_words():
    _, processor = train(made_up_text(300), extra_symbols=("::", "c++"))
    for symbol in (*SYMBOLS, "::", "c++"):
        assert symbol in processor.encode(f"nu{symbol}mo", out_type=str)
    assert processor.piece_to_id("::") == 13


def test_a_vocabulary_of_real_text_fits_the_tokenizer(tmp_path, shared_data):
    paths = expand_inputs(f"{shared_data}/text/ENG18652*")
    texts = [s.text for s in read_sentences(paths, ReadingConfig("raw"))]
    vocabulary.write_vocabulary(train(texts, vocab_size=2000)[0].model, tmp_path / "v")
    tokenizer = AlbertTokenizer(spm_model_file=tmp_path / "v.model")
    ids = np.concatenate([tokenizer.encode(text) for text in texts])
    assert tokenizer.mask_id == 4
    assert np.mean(ids == tokenizer.unk_id) < 1e-3
    assert tokenizer.tokenize("Alice (the “Queen”).")[:2] == ["▁alice", "▁"]


def test_control_symbols_do_not_come_out_of_text():
    _, processor = train(made_up_text(300))
    assert not set(processor.encode("[CLS] one [MASK] <pad> [SEP]")) & {0, 2, 3, 4}


def test_text_is_cleaned_as_the_tokenizer_does():
    sentences = [f"{word} ÉTÉ schön ﬁt" for word in made_up_text(300)]
    characters = {}
    for lower_case, strip_accents in [(True, True), (False, False)]:
        _, processor = train(
            sentences, lower_case=lower_case, strip_accents=strip_accents
        )
        pieces = [processor.id_to_piece(i) for i in range(13, 110)]
        characters[lower_case] = set("".join(pieces))
    assert characters[True] >= set("esconfit") and not characters[True] & set("ÉTöﬁ")
    assert characters[False] >= set("ÉTö") and "ﬁ" not in characters[False]


def test_no_sentence_is_lost_for_its_length_or_a_block_character():
    # SentencePiece alone would drop both, with a line in its log.
    long = " ".join(["zebra"] * 1900)
    assert len(long) > 10_000
    text = [*made_up_text(80), long, *["▅ quokka"] * 50]
    trained, processor = train(text, vocab_size=125)
    assert trained.sampled_sentences == trained.sentences == len(text)
    for word in ("zebra", "quokka"):
        # Their letters b, k, q and z stand nowhere else.
        assert 1 not in processor.encode(word)


def test_a_vocabulary_too_large_is_an_error_that_names_the_largest_possible():
    text = made_up_text(300)
    with pytest.raises(ValueError, match=r"at most (\d+) .* Received 9000") as error:
        train(text, vocab_size=9000)
    largest = int(str(error.value).split("at most ")[1].split()[0])
    assert train(text, vocab_size=largest)[1].get_piece_size() == largest
    with pytest.raises(ValueError, match=f"at most {largest} "):
        train(text, vocab_size=largest + 1)


def test_a_vocabulary_too_small_is_an_error_that_names_the_smallest_possible():
    text = made_up_text(300)
    with pytest.raises(ValueError, match=r"at least (\d+) .* Received 20") as error:
        train(text, vocab_size=20)
    smallest = int(str(error.value).split("at least ")[1].split()[0])
    assert 20 < smallest < 60


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"vocab_size": 13}, "at least 14.* Received 13"),
        ({"character_coverage": 99.995}, "character_coverage .* Received 99.995"),
        ({"sample_sentences": 0}, "sample_sentences .* Received 0"),
        ({"random_seed": -1}, "random_seed .* Received -1"),
        ({"extra_symbols": ("£",)}, "'£' is in the vocabulary already"),
        ({"extra_symbols": ("::", "::")}, "'::' is in the vocabulary already"),
        ({"extra_symbols": ("[MASK]",)}, r"'\[MASK\]' is in the vocabulary already"),
        ({"extra_symbols": ("a b",)}, "no white space.* 'a b'"),
        ({"extra_symbols": ("",)}, "no white space.* ''"),
        ({"extra_symbols": ("…",)}, r"'…' never occurs.* into '\.\.\.'"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        VocabularyConfig(**settings)


def test_a_symbol_with_capitals_is_right_where_case_is_kept():
    settings = {"extra_symbols": ("[ENT]",), "lower_case": False}
    _, processor = train(made_up_text(300), **settings)
    assert "[ENT]" in processor.encode("nu [ENT] mo", out_type=str)
    with pytest.raises(ValueError, match=r"'\[ENT\]' never occurs"):
        VocabularyConfig(extra_symbols=("[ENT]",))


def test_symbols_glued_together_are_found():
    # What SentencePiece makes of the symbols as the original's README gives them.
    model = _train_raw(user_defined_symbols='(,),",-,.,–,£,€')
    glued = r"Received .*'\(', '\)', ',-,\.,–,£,€'"
    with pytest.raises(ValueError, match=glued):
        vocabulary.check_vocabulary(model, SYMBOLS)


def test_a_vocabulary_without_mask_is_found():
    model = _train_raw(control_symbols="[CLS],[SEP]")
    with pytest.raises(ValueError, match=r"must be .*'\[MASK\]'\]\. Received"):
        vocabulary.check_vocabulary(model, [])


def _train_raw(**settings):
    from io import BytesIO

    model = BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(made_up_text(300)),
        model_writer=model,
        vocab_size=110,
        minloglevel=2,
        **{
            "pad_id": 0,
            "unk_id": 1,
            "bos_id": -1,
            "eos_id": -1,
            "control_symbols": "[CLS],[SEP],[MASK]",
        }
        | settings,
    )
    return model.getvalue()


def test_too_much_lost_text_is_an_error():
    counts = Counter({BAD_UTF8: 30})
    with pytest.raises(ValueError, match=r"may be lost. Received 9\.1%.*30 lines that"):
        train(made_up_text(300), counts)
    with pytest.raises(ValueError, match=r"Received 10\.0%.* cleaning leaves empty"):
        train(made_up_text(270) + ["▅"] * 30)
    few = Counter({BAD_UTF8: 5})
    assert train([*made_up_text(300), "▅"], few)[0].sampled_sentences == 300
    assert few == {BAD_UTF8: 5, vocabulary.VANISHED: 1}


# Sampling.


@pytest.mark.parametrize(("count", "size"), [(0, 3), (2, 3), (3, 3)])
def test_a_sample_of_few_sentences_is_all_of_them(count, size):
    sentences = [str(i) for i in range(count)]
    rng = np.random.default_rng(0)
    assert vocabulary.sample_sentences(sentences, size, rng) == (sentences, count)


def test_each_sentence_is_as_likely_in_a_sample():
    count, size, draws = 23, 5, 6000
    rng = np.random.default_rng(11)
    hits = Counter()
    for _ in range(draws):
        sample, seen = vocabulary.sample_sentences(map(str, range(count)), size, rng)
        assert seen == count
        assert len(set(sample)) == size
        hits.update(sample)
    expected = draws * size / count
    deviation = np.sqrt(expected * (1 - size / count))
    assert all(abs(hits[str(i)] - expected) < 4.5 * deviation for i in range(count))


def test_a_sample_depends_on_its_seed_alone():
    sentences = [str(i) for i in range(1000)]
    samples = [
        vocabulary.sample_sentences(sentences, 17, np.random.default_rng(seed))[0]
        for seed in (4, 4, 5)
    ]
    assert samples[0] == samples[1] != samples[2]


def test_training_uses_the_sample():
    trained, _ = train(made_up_text(900), sample_sentences=400)
    assert (trained.sentences, trained.sampled_sentences) == (900, 400)


# The files.


def test_the_vocab_file_lists_pieces_and_scores_like_the_released_one(
    tmp_path, shared_data
):
    released = shared_data / "vocabulary" / "30k-clean"
    content = released.with_suffix(".model").read_bytes()
    vocabulary.write_vocabulary(content, tmp_path / "copy")
    assert (tmp_path / "copy.model").read_bytes() == content
    expected = released.with_suffix(".vocab").read_bytes()
    assert (tmp_path / "copy.vocab").read_bytes() == expected


def test_a_vocabulary_goes_to_a_bucket_and_is_read_from_it(bucket, tmp_path):
    model = train(made_up_text(300))[0].model
    for folder in (bucket, tmp_path):
        vocabulary.check_model_prefix(f"{folder}/new/v")
        vocabulary.write_vocabulary(model, f"{folder}/new/v")
    for suffix in (".model", ".vocab"):
        stored = as_path(f"{bucket}/new/v{suffix}").read_bytes()
        assert stored == (tmp_path / "new" / f"v{suffix}").read_bytes()
    stored = AlbertTokenizer.from_file(f"{bucket}/new/v.model")
    assert stored.encode("a text") == AlbertTokenizer(
        tmp_path / "new" / "v.model"
    ).encode("a text")
    assert pickle.loads(pickle.dumps(stored)).metadata() == stored.metadata()
    for prefix in (f"{bucket}/new/", "s3://bucket"):
        with pytest.raises(ValueError, match="must end in a file name"):
            vocabulary.check_model_prefix(prefix)
    with pytest.raises(FileNotFoundError, match=f"no vocabulary file {bucket}/none"):
        AlbertTokenizer(f"{bucket}/none.model")
