r"""Answers questions on a text, at the terminal, with a model of `run_squad.py`.

    python run_scripts/ask.py --model=squad --context=article.txt \
        --question="Who wrote it?" --question="When?"
"""

from absl import flags

from albert_tf.task_config import Squad
from data_prep.fine_tuning.squad import Paragraph, Question
from data_prep.fine_tuning.squad_windows import WindowSettings, rows_to_answer
from flags import common_flags, text_files

FLAGS = flags.FLAGS

# Few, so that a model of base's size takes little memory beside a long text.
_ROWS_AT_A_TIME = 4


def main():
    from albert_tf.checkpoints.load import HEADS, load_weights
    from albert_tf.checkpoints.model_dir import ModelDir
    from albert_tf.tasks import answers, squad
    from albert_tf.tasks.create import create_task

    folder = ModelDir.read(FLAGS.model)
    config = folder.require_config()
    try:
        task_config = Squad.require(folder.task_config)
    except ValueError as error:
        raise ValueError(f"{FLAGS.model}: {error}") from None
    text = text_files.read_text("context", FLAGS.context)
    questions = [Question(str(i), asked) for i, asked in enumerate(FLAGS.question)]
    rows = rows_to_answer(
        Paragraph(text, tuple(questions)),
        folder.tokenizer(),
        WindowSettings.from_task_config(task_config),
    )
    task = create_task(task_config)
    model = task.build_model(config)
    load_weights(model, folder.checkpoint, unused_ok=HEADS)
    predicted = squad.predict(task, model, rows, _ROWS_AT_A_TIME)
    contexts = {question.question_id: text for question in questions}
    proposals = answers.propose(rows, predicted, contexts, task_config)
    final = proposals.predictions(task_config.threshold)
    for question in questions:
        if len(questions) > 1:
            print(f"{question.text}")
        answer = final[question.question_id]
        if not answer:
            print("(no answer in the text)")
        listed = FLAGS.n_best if FLAGS.n_best > 1 else bool(answer)
        for candidate in proposals.candidates[question.question_id][:listed]:
            print(f"{candidate.text}  ({candidate.probability:.1%})", flush=True)


if __name__ == "__main__":
    common_flags.define_model_flag("Output folder of run_squad.py: the model.")
    flags.DEFINE_string(
        "context",
        None,
        "File of the text, of any length; -: standard input.",
        required=True,
    )
    flags.DEFINE_multi_string(
        "question", None, "A question. May be repeated.", required=True
    )
    flags.DEFINE_integer("n_best", 1, "Answers listed a question.", lower_bound=1)
    common_flags.run(main)
