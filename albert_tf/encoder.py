"""Old path of `albert_tf.model.encoder`, kept for code that imports it."""

from albert_tf.model.blocks import FeedForward as FeedForward
from albert_tf.model.blocks import SelfAttention as SelfAttention
from albert_tf.model.blocks import TransformerBlock as TransformerBlock
from albert_tf.model.encoder import AlbertEncoder as AlbertEncoder
from albert_tf.model.encoder import FactorizedEmbedding as FactorizedEmbedding
