r"""Fine-tunes ALBERT to make vectors of texts whose cosines say how near the texts are.

    python run_scripts/run_embedding.py --task_name=sts-b --data_dir=glue \
        --loss=cosine --init_checkpoint=albert_base --output_dir=vectors --do_eval
    python run_scripts/run_embedding.py --train_file=questions.jsonl \
        --dev_file=dev.jsonl --text_column=question --text_pair_column=answer \
        --init_checkpoint=albert_base --output_dir=search --do_eval

Pairs, pairs with scores (--label_column), or triplets (--negative_column). embed.py
makes vectors with the model.
"""

from absl import flags

from albert_tf.storage import as_path
from data_prep.fine_tuning.predictions import write_cosines
from flags import closing_report, common_flags, embedding_flags, fine_tuning_flags

FLAGS = flags.FLAGS


def main():
    model, tokenizer = fine_tuning_flags.read_model(
        lambda weights: embedding_flags.task_of(weights, None)
    )
    data = embedding_flags.read_data(tokenizer, model.checkpoint, model.task_config)
    outcome = fine_tuning_flags.run(model, data)
    for name in data.test if not outcome.preempted else ():
        file = as_path(FLAGS.output_dir) / f"{name}_results.tsv"
        write_cosines(outcome.predictions[name], file)
        print(f"Cosines of {name}: {file}", flush=True)
    closing_report.print_fine_tuning(outcome, FLAGS.output_dir)


if __name__ == "__main__":
    embedding_flags.define_training_flags()
    fine_tuning_flags.define_fine_tuning_flags(
        num_train_epochs=3.0, learning_rate=2e-5, max_seq_length=128
    )
    common_flags.run(main)
