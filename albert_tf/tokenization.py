"""Old path of `albert_tf.text.tokenizer`, kept for code that imports it."""

from albert_tf.text.tokenizer import AlbertTokenizer as AlbertTokenizer
