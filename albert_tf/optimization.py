"""Old path of `albert_tf.training.optimization`, kept for code that imports it."""

from albert_tf.training.optimization import LAMB as LAMB
from albert_tf.training.optimization import AdamW as AdamW
from albert_tf.training.optimization import clip_gradients as clip_gradients
from albert_tf.training.optimization import create_optimizer as create_optimizer
from albert_tf.training.optimization import is_decayed as is_decayed
from albert_tf.training.optimization import learning_rate as learning_rate
