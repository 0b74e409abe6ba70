r"""Fine-tunes ALBERT to tag words: another name of `run_tagging.py`.

    python run_scripts/run_ner.py --data_dir=ner --init_checkpoint=albert_base \
        --output_dir=ner_model --do_eval --do_predict
"""

from run_tagging import main

from flags import common_flags, fine_tuning_flags, tagging_data

if __name__ == "__main__":
    tagging_data.define_flags()
    fine_tuning_flags.define_fine_tuning_flags(num_train_epochs=3.0)
    common_flags.run(main)
