"""Nothing is English only: sentences, words, and both tokenizers in other languages."""

import json
import re

import numpy as np
import pytest

from albert_tf.files import sha256
from albert_tf.records.sidecar import read_metadata
from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.corpus.reader import ReadingConfig, read_sentences
from data_prep.corpus.tokenize import TextConfig
from data_prep.pretraining.config import PretrainingDataConfig
from data_prep.pretraining.job import PretrainingDataJob, make_pretraining_data
from data_prep.pretraining.output_files import expand_outputs
from helpers.scripts import assert_one_line, run_script

# For each language sentences of a paragraph, and whether spaces are between them.
SENTENCES = {
    "zh": (["他说：“今天很冷！”", "她笑了。", "你呢？", "我很好……走吧。"], ""),
    "ja": (["今日は天気がいいです。", "散歩しましょうか？", "はい！"], ""),
    "ko": (["오늘은 날씨가 좋습니다.", "산책할까요?", "3.5 킬로미터를 걸었다."], " "),
    "de": (["Am 3. Oktober kam z. B. Dr. Müller.", "Warum?", "Um ca. 5 Uhr!"], " "),
    "ar": (["ذهب الولد إلى المدرسة.", "هل قرأ الكتاب؟", "نعم، قرأه!"], " "),
    "hi": (["राम घर गया।", "क्या वह खुश है?", "हाँ!"], " "),
    # A space ends no sentence there, and often nothing else does.
    "th": (["วันนี้อากาศดีมาก ฉันไปโรงเรียน", "คุณสบายดีไหม?", "ราคา 3.50 บาท"], "\n\n"),
}
# Letters and marks of these languages, with spaces and punctuation of theirs.
SCRIPTS = {
    "zh": ("\u4e00-\u9fa5", "，。！？“”《》"),
    "ja": ("\u3041-\u3096\u30a1-\u30fa\u4e00-\u4fff\uff66-\uff9d", "。、「」ー"),
    "ko": ("\uac00-\ud7a3\u1100-\u1112\u1161-\u1175", ".?! "),
    "de": ("A-Za-zÄ-ÜÄ-ÜäöüßẞÀ-ÿ", " .,-„“"),
    "ar": ("\u0621-\u064a\u064b-\u0652\u0660-\u0669", "،؟ ."),
    "hi": ("\u0904-\u0939\u093c-\u094d\u0966-\u096f", "।॥ ?"),
    "th": ("\u0e01-\u0e3a\u0e40-\u0e4e\u0e50-\u0e59", " ฯ"),
}


@pytest.fixture(scope="module")
def vocabularies(shared_data):
    """Constructor arguments of both kinds of vocabulary, for many languages."""
    folder = shared_data / "vocabulary"
    return [
        {"spm_model_file": folder / "xquad-16k.model"},
        {"vocab_file": folder / "vocab_chinese.txt"},
    ]


@pytest.mark.parametrize("language", SENTENCES)
def test_sentences_end_where_the_language_ends_them(tmp_path, language):
    sentences, space = SENTENCES[language]
    path = tmp_path / "raw.txt"
    path.write_text(space.join(sentences), encoding="utf-8")
    found = read_sentences([str(path)], ReadingConfig("raw", language=language))
    assert [sentence.text for sentence in found] == sentences


def alphabet(ranges):
    """The characters of a regular expression's class."""
    text, at = "", 0
    while at < len(ranges):
        if ranges[at + 1 : at + 2] == "-":
            text += "".join(map(chr, range(ord(ranges[at]), ord(ranges[at + 2]) + 1)))
            at += 3
        else:
            text += ranges[at]
            at += 1
    return text


def random_texts(count, seed):
    """Strings that mix at most three of the scripts, digits and English."""
    rng = np.random.default_rng(seed)
    kinds = [list(alphabet(ranges)) for ranges, _ in SCRIPTS.values()]
    kinds += [list(marks) for _, marks in SCRIPTS.values()]
    kinds += [list("0123456789,.%"), list("  eatonISR"), ["\u3000", "\u00a0", "\u200d"]]
    texts = []
    for _ in range(count):
        chosen = rng.integers(len(kinds), size=3)
        texts.append(
            "".join(
                kinds[kind][rng.integers(len(kinds[kind]))]
                for kind in rng.choice(chosen, rng.integers(1, 30))
            )
        )
    return texts


def test_python_and_graph_agree_on_random_strings_of_all_scripts(vocabularies):
    texts = random_texts(10_000, seed=7)
    assert len(set(texts)) > 9_000
    for files in vocabularies:
        for strip_accents in (True, False):
            tokenizer = AlbertTokenizer(**files, strip_accents=strip_accents)
            expected = tokenizer.encode_batch(texts)
            assert tokenizer.tf_encode(texts).to_list() == expected
            assert sum(map(len, expected)) > 50_000


def test_wordpiece_ids_equal_model_gardens_on_chinese_questions(shared_data):
    library = pytest.importorskip("official.nlp.tools.tokenization")
    vocab_file = str(shared_data / "vocabulary" / "vocab_chinese.txt")
    original = library.FullTokenizer(vocab_file)
    data = json.loads((shared_data / "squad" / "xquad.zh.json").read_text("utf-8"))
    texts = []
    for article in data["data"]:
        for paragraph in article["paragraphs"]:
            texts.append(paragraph["context"])
            texts += [question["question"] for question in paragraph["qas"]]
    assert len(texts) > 1_190
    for text, ids in zip(
        texts, AlbertTokenizer(vocab_file=vocab_file).encode_batch(texts), strict=True
    ):
        assert ids == original.convert_tokens_to_ids(original.tokenize(text)), text


@pytest.mark.parametrize("language", ["ko", "de", "ar", "hi"])
def test_words_between_spaces_start_once(vocabularies, language):
    tokenizer = AlbertTokenizer(**vocabularies[0], strip_accents=False)
    text = " ".join(SENTENCES[language][0])
    words = re.findall(r"(?<!\S)([^\s\d.,!?؟،।]+)[.,!?؟،।]?(?!\S)", text)
    assert len(words) >= 6
    for word in words:
        starts = [tokenizer.starts_word(i) for i in tokenizer.encode(word)]
        assert starts == [True] + [False] * (len(starts) - 1)


def test_chinese_characters_are_words_of_their_own(vocabularies):
    text = "".join(SENTENCES["zh"][0])
    for files in vocabularies:
        tokenizer = AlbertTokenizer(**files)
        known = [i for i in tokenizer.encode(text) if i != tokenizer.unk_id]
        assert all(map(tokenizer.starts_word, known))
        assert len(known) > len(text) / 2


def test_random_replacements_are_pieces_that_chinese_text_may_have(vocabularies):
    tokenizer = AlbertTokenizer(**vocabularies[1])
    ordinary = set(tokenizer.ordinary_ids.tolist())
    assert tokenizer.token_to_id("##一") != tokenizer.unk_id
    assert tokenizer.token_to_id("##一") not in ordinary
    assert {tokenizer.token_to_id(piece) for piece in ("一", "##ment")} <= ordinary
    left_out = [
        tokenizer.id_to_token(i)
        for i in range(tokenizer.vocab_size)
        if i not in ordinary and tokenizer.id_to_token(i).startswith("##")
    ]
    assert len(left_out) == 7_322
    texts = [f"{before}{piece[2:]}a" for piece in left_out for before in "a中1が"]
    found = {i for ids in tokenizer.encode_batch(texts) for i in ids}
    assert not found & {tokenizer.token_to_id(piece) for piece in left_out}


def test_chinese_records_are_the_same_for_any_number_of_processes(
    shared_data, tmp_path
):
    tokenizer = AlbertTokenizer(
        vocab_file=shared_data / "vocabulary" / "vocab_chinese.txt"
    )
    digests = []
    for workers in (1, 2):
        job = PretrainingDataJob(
            input_paths=[str(shared_data / "text" / "zh_news.txt")],
            text_config=TextConfig("raw", language="zh"),
            tokenizer=tokenizer,
            config=PretrainingDataConfig(max_seq_length=128, dupe_factor=2),
            outputs=expand_outputs(f"{tmp_path}/{workers}/rows", ""),
            num_workers=workers,
        )
        report = make_pretraining_data(job)
        assert report["sentences"] > 200 and report["unknown_share"] < 0.05
        digests.append(sha256(job.outputs.paths[0]))
    assert digests[0] == digests[1]
    metadata = read_metadata(job.outputs.paths[0])
    assert metadata["vocab_size"] == 21_128 and metadata["rows"] > 100


def test_a_vocabulary_of_the_wrong_kind_is_refused_before_anything_is_written(
    shared_data, tmp_path
):
    folder = shared_data / "vocabulary"
    pieces = [
        line.split("\t")[0]
        for line in (folder / "30k-clean.vocab").read_text("utf-8").splitlines()
    ]
    # As a tool may export it; one piece reads like WordPiece's.
    own = "\n".join([*pieces, "##", "[PAD]", "[UNK]"])
    (tmp_path / "vocab.txt").write_text(own, encoding="utf-8")
    for flags, message in (
        ([f"--vocab_file={tmp_path}/vocab.txt"], 'marks words with "▁"'),
        ([f"--vocab_file={folder}/30k-clean.vocab"], 'marks words with "▁"'),
        ([f"--vocab_file={folder}/30k-clean.model"], "spm_model_file"),
        ([f"--spm_model_file={folder}/vocab_chinese.txt"], "vocab_file"),
    ):
        done = run_script(
            "create_pretraining_data.py",
            f"--input_file={shared_data}/text/zh_news.txt",
            f"--output_file={tmp_path}/out/rows.tfrecord",
            *flags,
            cwd=tmp_path,
        )
        assert_one_line(done, 1, message)
        assert not (tmp_path / "out").exists()
