"""Old path of `albert_tf.model.heads` and `span_heads`, for code that imports it."""

from albert_tf.model.heads import ClassificationModel as ClassificationModel
from albert_tf.model.heads import MultipleChoiceModel as MultipleChoiceModel
from albert_tf.model.heads import PretrainingModel as PretrainingModel
from albert_tf.model.span_heads import AnswerableSpanModel as AnswerableSpanModel
from albert_tf.model.span_heads import SpanModel as SpanModel
