"""Old path of `albert_tf.model.encoder`, kept for code that imports it."""

from albert_tf.model.encoder import AlbertEncoder as AlbertEncoder
from albert_tf.model.encoder import FactorizedEmbedding as FactorizedEmbedding
from albert_tf.model.encoder import FeedForward as FeedForward
from albert_tf.model.encoder import SelfAttention as SelfAttention
from albert_tf.model.encoder import TransformerBlock as TransformerBlock
