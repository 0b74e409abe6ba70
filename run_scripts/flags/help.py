"""`--help` of the scripts: flags in groups, ordered by what users look for."""

import shutil
import textwrap
from collections.abc import Collection

from absl import flags

# Title of a group -> its flags, the most used first; all flags of all scripts.
GROUPS: dict[str, tuple[str, ...]] = {
    "What to do": (
        "do_train",
        "do_eval",
        "do_predict",
        "task_name",
        "num_runs",
        "dry_run",
        "small",
        "find_batch",
        "paper",
        "metadata",
        "check",
    ),
    "Input": (
        "input_file",
        "input_format",
        "data_dir",
        "train_file",
        "dev_file",
        "test_file",
        "predict_file",
        "eval_input_file",
        "text_column",
        "text_pair_column",
        "label_column",
        "negative_column",
        "score_bounds",
        "token_column",
        "tag_column",
        "regression",
        "multi_label",
        "label_separator",
        "label_names",
        "version_2_with_negative",
        "high_only",
        "middle_only",
        "candidate_labels",
        "hypothesis_template",
        "context",
        "question",
        "query",
        "vectors",
        "texts",
        "inputs",
        "models",
        "configs",
        "language",
        "languages",
        "train_language",
        "on_bad_text",
        "on_bad_row",
        "first_row",
        "rows",
        "max_rows",
        "text_copies",
    ),
    "Model": (
        "model",
        "from",
        "init_checkpoint",
        "checkpoints",
        "albert_config_file",
        "albert_config_files",
        "config_override",
        "from_scratch",
        "unshare",
        "init_from_group0",
        "multiple_choice",
        "strict",
        "use_ema",
        "run_source",
        "resize_vocabulary",
        "resize_positions",
        "position_method",
        "old_vocabulary",
    ),
    "Output": (
        "output_dir",
        "output_file",
        "to",
        "layout",
        "format",
        "model_prefix",
        "export_dir",
        "model_version",
        "text_signature",
        "signatures",
        "threshold_to_export",
        "tflite",
        "tflite_length",
        "tflite_options",
        "tflite_eval_data",
        "quantize",
        "onnx",
        "output_format",
        "cache_dir",
        "keep_text",
        "select_by",
        "average",
        "num_models",
    ),
    "Vocabulary and cleaning of text": (
        "spm_model_file",
        "vocab_file",
        "vocabulary",
        "do_lower_case",
        "strip_accents",
        "vocab_size",
        "character_coverage",
        "sample_sentences",
        "extra_symbol",
    ),
    "Rows": (
        "max_seq_length",
        "max_length",
        "max_predictions_per_seq",
        "masking",
        "dupe_factor",
        "masked_lm_prob",
        "masked_lm_prob_end",
        "masked_lm_prob_end_step",
        "ngram",
        "favor_shorter_ngram",
        "do_whole_word_mask",
        "replace_with_mask",
        "replace_with_random",
        "replace_with_keep",
        "short_seq_prob",
        "pair_objective",
        "random_next_sentence",
        "pack_documents",
        "max_documents_per_row",
        "chinese_segmenter",
        "window_pooling",
        "doc_stride",
        "max_windows",
        "max_query_length",
        "max_qa_length",
    ),
    "Training": (
        "train_batch_size",
        "learning_rate",
        "num_train_steps",
        "phases",
        "train_step",
        "num_train_epochs",
        "num_warmup_steps",
        "warmup_step",
        "warmup_proportion",
        "lr_schedule",
        "num_decay_steps",
        "lr_schedule_by",
        "optimizer",
        "ema_decay",
        "freeze",
        "head_learning_rate",
        "layer_decay",
        "classifier_dropout",
        "loss",
        "scale",
        "class_weights",
        "label_smoothing",
        "focal_gamma",
        "sentence_order_loss",
        "depth_schedule",
        "poly_power",
        "start_warmup_step",
        "early_stopping",
        "max_train_hours",
        "random_seed",
    ),
    "Checkpoints and evaluation": (
        "save_checkpoints_steps",
        "keep_checkpoint_max",
        "eval_steps",
        "eval_batch_size",
        "batch_size",
        "predict_batch_size",
        "max_eval_steps",
        "iterations_per_loop",
    ),
    "Answers": (
        "top_k",
        "pooling",
        "normalize",
        "layer",
        "n_best",
        "n_best_size",
        "max_answer_length",
        "null_threshold",
        "tune_threshold",
        "start_n_top",
        "end_n_top",
    ),
    "Server": ("server", "model_name", "signature", "protocol", "timeout"),
    "Devices, memory and speed": (
        "tpu",
        "tpu_name",
        "tpu_zone",
        "gcp_project",
        "precision",
        "gradient_accumulation_steps",
        "rematerialize",
        "jit_compile",
        "batching",
        "hard_examples",
        "length_buckets",
        "num_workers",
        "scheduler",
        "shard_range",
        "work_dir",
        "topology",
        "batch_per_core",
        "cores",
        "compiler_python",
    ),
    "Measuring": (
        "measures",
        "batch_sizes",
        "precisions",
        "rematerializations",
        "benchmark_steps",
        "benchmark_rows",
        "benchmark_seconds",
        "max_workers",
        "repeats",
        "short_steps",
        "padded_steps",
        "tokens",
        "threads",
        "peers",
        "attention_window",
        "clients",
        "requests",
        "load",
        "kills",
        "max_minutes",
    ),
}
_CLOSING = """\
In general:
  --flagfile=FILE
      Read flags from a file, one a line, as the recipes in configs/ are.
  --only_check_args
      Check the flags and stop.
  --verbosity=1
      Show library messages, and the traceback of an error.
  --helpfull
      List the flags of libraries as well."""


def script_help(usage: str, names: Collection[str]) -> str:
    """The text of `--help`.

    Args:
      usage: the script's docstring: what it does, with example commands.
      names: the script's flags.
    """
    lines = [usage.strip()]
    for title, group in GROUPS.items():
        shown = [name for name in group if name in names]
        if shown:
            lines += ["", f"{title}:", *map(_describe, shown)]
    return "\n".join([*lines, "", _CLOSING])


def _describe(name: str) -> str:
    """A flag, its default, and its help, indented."""
    flag = flags.FLAGS[name]
    prefix = "--[no]" if flag.boolean else "--"
    default = "" if flag.default in (None, "", []) else f"={flag.default_as_str}"
    if flag.boolean and flag.default is not None:
        default = f" (default: {str(flag.default).lower()})"
    if any("other than None" in validator.message for validator in flag.validators):
        default = " (required)"
    # absl notes how often a flag may be given.
    text = flag.help.split(";\n    repeat this option")[0]
    width = min(shutil.get_terminal_size((88, 24)).columns, 100)
    body = textwrap.fill(text, width, initial_indent=" " * 6, subsequent_indent=" " * 6)
    return f"  {prefix}{name}{default.replace(chr(39), '')}\n{body}"
