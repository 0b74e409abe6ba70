"""Each "[MASK]" of a text is the mask token; the text around it is as any text."""

import numpy as np
import sentencepiece
import tensorflow as tf

from albert_tf.text.tokenizer import AlbertTokenizer
from helpers.tokenization_cases import is_same, nasty_texts


def segments_and_texts(count, seed):
    """Random segments, and the texts that masks between them make."""
    rng = np.random.default_rng(seed)
    plain = [text.replace("[MASK]", "") for text in nasty_texts(count, seed)]
    ends = np.flatnonzero(rng.random(count) < 0.4)
    groups = [g.tolist() for g in np.split(np.array(plain, object), ends)]
    return groups, ["[MASK]".join(group) for group in groups]


def test_segments_of_wordpiece_are_encoded_alone(vocab_file):
    groups, texts = segments_and_texts(900, seed=4)
    for lower_case in (True, False):
        tokenizer = AlbertTokenizer(vocab_file=vocab_file, lower_case=lower_case)
        found = tokenizer.graph_tokenizer().encode_with_masks(texts).to_list()
        for group, ids in zip(groups, found, strict=True):
            assert ids == joined(map(tokenizer.encode, group), tokenizer.mask_id)


def test_segments_of_sentencepiece_begin_a_word_where_a_space_is(spm_model_file):
    groups, texts = segments_and_texts(900, seed=5)
    whole = sentencepiece.SentencePieceProcessor(model_file=spm_model_file)
    whole.override_normalizer_spec(add_dummy_prefix=False)
    goes_on = 0
    for lower_case in (True, False):
        tokenizer = AlbertTokenizer(spm_model_file, lower_case=lower_case)

        def rest(segment, tokenizer=tokenizer):
            nonlocal goes_on
            marked = tokenizer.normalize(f"|{segment}")
            if not segment or marked.startswith("| "):
                return tokenizer.encode(segment)
            goes_on += 1
            ids = whole.encode(tokenizer.normalize(segment))
            return tokenizer._vocabulary._expand(ids)

        found = tokenizer.graph_tokenizer().encode_with_masks(texts).to_list()
        for (first, *others), ids in zip(groups, found, strict=True):
            parts = [tokenizer.encode(first), *map(rest, others)]
            assert is_same(joined(parts, tokenizer.mask_id), ids)
    assert goes_on > 200


def test_text_goes_on_after_a_mask_as_after_a_word(tokenizers):
    # A word that no token joins with what follows it.
    for tokenizer in tokenizers:
        encode = tokenizer.graph_tokenizer().encode_with_masks
        for rest in (",", " to", " ,", "", " 2013, a", ", 3 to"):
            word = tokenizer.encode("中")
            expected = tokenizer.encode(f"中{rest}")
            [[mask, *found]] = encode([f"[MASK]{rest}"]).to_list()
            assert mask == tokenizer.mask_id
            assert found == expected[len(word) :]


def test_only_masks_are_the_mask_token(tokenizers):
    texts = ["[MASK]", "[mask] [ MASK ] MASK [MASK", "", "[MASK][MASK] [CLS][MASK]]"]
    for tokenizer in tokenizers:
        encode = tokenizer.graph_tokenizer().encode_with_masks
        counts = [ids.count(tokenizer.mask_id) for ids in encode(texts).to_list()]
        assert counts == [1, 0, 0, 3]
        assert encode(texts).dtype == tf.int32
        assert encode(tf.constant([], tf.string)).to_list() == []
        plain = nasty_texts(60, seed=9)
        assert encode(plain).to_list() == tokenizer.tf_encode(plain).to_list()


def joined(parts, mask_id):
    first, *others = parts
    return first + [i for part in others for i in (mask_id, *part)]
