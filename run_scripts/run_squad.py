r"""Fine-tunes ALBERT to answer questions on a paragraph: SQuAD v1.1 or v2.0.

    python run_scripts/run_squad.py --flagfile=configs/recipes/squad-v2.flags \
        --train_file=train-v2.0.json --predict_file=dev-v2.0.json \
        --init_checkpoint=albert_base --output_dir=squad --do_eval --tune_threshold
    python run_scripts/run_squad.py --nodo_train --do_predict \
        --output_dir=squad --predict_file=new.json
"""

from absl import flags

from albert_tf.task_config import Squad
from flags import closing_report, common_flags, fine_tuning_flags, squad_data

FLAGS = flags.FLAGS


def main():
    model, tokenizer = fine_tuning_flags.read_model()
    data = squad_data.read_data(tokenizer, model.task_config)
    outcome = fine_tuning_flags.run(model, data)
    closing_report.print_fine_tuning(outcome, FLAGS.output_dir)


if __name__ == "__main__":
    squad_data.define_flags()
    fine_tuning_flags.define_fine_tuning_flags(
        max_seq_length=Squad.max_seq_length, num_train_epochs=3.0
    )
    common_flags.run(main)
