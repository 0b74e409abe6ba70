r"""Answers questions on a text, at the terminal, with a model of `run_squad.py`.

    python run_scripts/ask.py --model=squad --context=article.txt \
        --question="Who wrote it?" --question="When?"
"""

import sys
from pathlib import Path

from absl import flags

from data_prep.fine_tuning.squad import Paragraph, Question
from data_prep.fine_tuning.squad_windows import (
    ConversionReport,
    WindowSettings,
    make_rows,
)
from flags import common_flags

FLAGS = flags.FLAGS

_ROWS_AT_A_TIME = 8


def main():
    from albert_tf.checkpoints import model_dir
    from albert_tf.checkpoints.load import HEADS, load_weights
    from albert_tf.tasks import answers, squad

    folder = model_dir.read(FLAGS.model)
    settings = squad.SquadSettings.from_dict(folder.task)
    text = _read_text(FLAGS.context)
    asked = [Question(str(i), text) for i, text in enumerate(FLAGS.question)]
    windows = WindowSettings(
        settings.max_seq_length, settings.doc_stride, settings.max_query_length
    )
    rows = list(
        make_rows(
            [Paragraph(text, tuple(asked))],
            folder.tokenizer(),
            windows,
            ConversionReport(),
            for_training=False,
        )
    )
    task = squad.squad_task(settings)
    model = task.build_model(folder.config, 0, "none")
    load_weights(model, folder.checkpoint, unused_ok=HEADS)
    predicted = squad.predict(task, model, rows, _ROWS_AT_A_TIME)
    contexts = {question.question_id: text for question in asked}
    proposals = answers.propose(rows, predicted, contexts, settings.rules)
    final = proposals.predictions(settings.threshold)
    for question in asked:
        if len(asked) > 1:
            print(f"{question.text}")
        if not final[question.question_id]:
            print("(no answer in the text)")
        found = proposals.candidates[question.question_id]
        shown = FLAGS.n_best if FLAGS.n_best > 1 else bool(final[question.question_id])
        for candidate in found[:shown]:
            print(f"{candidate.text}  ({candidate.probability:.1%})", flush=True)


def _read_text(name: str) -> str:
    if name == "-":
        return sys.stdin.read()
    try:
        return Path(name).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{name} is not UTF-8 text.") from None


if __name__ == "__main__":
    flags.DEFINE_string(
        "model", None, "Output folder of run_squad.py: the model.", required=True
    )
    flags.DEFINE_string(
        "context", None, "File of the text, of any length; -: the input.", required=True
    )
    flags.DEFINE_multi_string(
        "question", None, "What to ask. May be repeated.", required=True
    )
    flags.DEFINE_integer(
        "n_best", 1, "Answers to list of each question.", lower_bound=1
    )
    common_flags.run(main)
