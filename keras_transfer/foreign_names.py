"""The names of other libraries and what to use here instead, which the pages in `docs/migration` also list."""

import re

_HEAD = "Pass `{}=[...]`, the names in the order of the head."
_RATE = "Pass `{}=keras.optimizers.AdamW(2e-5)`, an optimizer with its learning rate."
_SAMPLER = "Pass `{}=...`, such as `generation.TopP(0.9, temperature=0.7)`, `TopK(50)` or `BeamSearch(4)`."
_BEAMS = "Pass `{}=generation.BeamSearch(4, length_penalty=..., early_stopping=...)`."
_DTYPE = "Pass `{}={{'dtype': ...}}`."
_EPOCHS = "num_train_epochs n_epochs num_epochs max_epochs nb_epoch"
_LENGTH = "It is `sequence_length` of `from_pretrained` and of preprocessors."

# Arguments: names elsewhere; a name here, which must be an argument of the called function, or "" if there is none; and
# a sentence, or what follows `Pass NAME=...`. The first row whose name here is an argument counts.
_ARGUMENTS = (
    # The head and the labels
    ("num_labels n_classes", "num_classes", ", or `label_names=[...]` for labels with names"),
    ("num_labels num_classes", "num_targets", ""),
    ("id2label label2id class_names classes", "label_names", _HEAD),
    ("labels", "label_names", "Pass `{}=sorted(set(labels))`, the names in the order of the head."),
    ("problem_type", "multi_label", "Pass `{}=True`, or use `TextRegressor` for numbers."),
    ("pooling_mode pool", "pooling", ", such as 'first', 'last', 'mean' or 'max'"),
    ("normalize_embeddings", "normalize", "Pass `{}=True`."),
    ("normalize_embeddings", "", "It is `normalize=True` of the `TextEmbedder`."),
    ("ignore_mismatched_sizes", "head", "Pass `{}='new'` for a new head."),
    ("pos_label", "class_id", ""),
    ("from_logits", "", "Tasks return logits, which losses and metrics of this library expect."),
    # Encoders. `encoder={}` stands for an argument that is a dict of their arguments, and `num_layers` for an encoder.
    ("hidden_dropout_prob resid_pdrop", "encoder={}", "Pass `encoder={'dropout': ...}`."),
    ("hidden_dropout_prob resid_pdrop", "num_layers", "Pass `dropout=...`."),
    ("hidden_dropout_prob resid_pdrop", "", "It is `dropout` of the encoder."),
    ("classifier_dropout dropout_rate dropout_prob", "dropout", ""),
    ("attention_probs_dropout_prob attn_pdrop", "attention_dropout", ""),
    ("attention_probs_dropout_prob attn_pdrop", "", "It is `attention_dropout` of the encoder."),
    ("hidden_size d_model n_embd", "num_layers", "Pass `hidden_dim=...`."),
    ("hidden_size d_model n_embd", "", "It is `hidden_dim` of the encoder."),
    ("num_hidden_layers n_layer", "num_layers", ""),
    ("num_attention_heads n_head", "num_heads", ""),
    ("vocab_size", "vocabulary_size", ""),
    ("intermediate_size", "intermediate_dim", ""),
    ("hidden_act", "activation", ""),
    ("max_position_embeddings n_positions", "max_sequence_length", ""),
    ("torch_dtype dtype", "encoder={}", "Pass `encoder={'dtype': ...}`."),
    ("torch_dtype", "dtype", ""),
    ("fp16 bf16", "encoder={}", "Pass `encoder={'dtype': 'mixed_bfloat16'}`."),
    ("fp16 bf16", "recipe", "Pass `{}=get_recipe(name, precision='mixed_bfloat16')`."),
    ("output_hidden_states", "", "Use `encoders.encode(encoder, inputs, hidden_states=True)`."),
    ("output_attentions", "", "Use `analysis.attention_weights(model, texts)`."),
    ("revision", "source", "Append it to the name: 'hf://organization/name@revision'."),
    ("trust_remote_code", "source", "No code of a checkpoint is run."),
    ("device device_map", "", "Keras chooses the device."),
    # Texts and tables
    ("max_length max_seq_length model_max_length truncation maxlen", "sequence_length", ""),
    ("max_length", "max_new_tokens", ", since a target has no prompt"),
    ("max_length max_seq_length model_max_length truncation maxlen", "", _LENGTH),
    (
        "padding",
        "sequence_length",
        "Texts are padded to the longest one of a batch. To change the limit, pass `{}=...`.",
    ),
    ("padding", "", "Texts are padded to the longest one of a batch."),
    ("tokenizer", "preprocessor", ""),
    ("do_lower_case", "lowercase", ""),
    ("vocab vocab_file", "vocabulary", ""),
    ("stride", "doc_stride", ", how far apart windows begin, or `overlap=...`, how many tokens they share"),
    ("sep delimiter", "separator", ""),
    (
        "sep delimiter encoding",
        "text_column",
        "Read it with `pandas.read_csv`, and pass its columns to `fit`.",
    ),
    ("text_col content_column", "text_column", ""),
    ("label_col target_column target", "label_column", ""),
    ("test_size val_size", "validation_split", ", a fraction of the rows"),
    ("random_state random_seed", "seed", ""),
    ("seed", "random_state", ""),
    ("stratify", "validation_split", "Each class has the same fraction of its rows in both parts."),
    ("shuffle", "validation_split", "Rows are always chosen at random, and keep their order."),
    # Training
    ("lr learning_rate weight_decay", "learning_rate", ""),
    ("lr learning_rate weight_decay", "optimizer", _RATE),
    ("lr learning_rate warmup_steps warmup_ratio", "recipe", "Pass `{}=get_recipe(name, learning_rate=...)`."),
    (
        "lr learning_rate weight_decay",
        "",
        "It belongs to the optimizer: `compile(keras.optimizers.AdamW(2e-5))`.",
    ),
    ("optim", "optimizer", ""),
    ("criterion loss_fn", "loss", ""),
    ("compute_metrics", "metrics", ""),
    (_EPOCHS, "epochs", ""),
    (f"{_EPOCHS} epochs", "recipe", "Pass `{}=get_recipe(name, epochs=...)`."),
    (f"{_EPOCHS} epochs", "", "It is an argument of `fit`."),
    ("per_device_train_batch_size train_batch_size bs", "batch_size", ""),
    ("eval_dataset validation_dataset eval_data", "validation_data", ""),
    ("train_dataset", "x", ", and the labels as `y=...`"),
    ("early_stopping patience", "callbacks", "Pass `{}=[keras.callbacks.EarlyStopping(restore_best_weights=True)]`."),
    ("warmup_ratio", "warmup_fraction", ""),
    ("num_warmup_steps", "warmup_steps", ""),
    ("num_training_steps", "total_steps", ""),
    ("mlm_probability", "mask_selection_rate", ""),
    ("num_seeds n_seeds", "seeds", ""),
    # Adapters
    ("r lora_r", "rank", ""),
    ("lora_alpha", "alpha", ""),
    ("lora_dropout", "dropout", ""),
    ("target_modules", "targets", ", such as `LoRA(targets=['query', 'value'])`"),
    ("use_dora", "magnitude", "Pass `{}=True`."),
    ("use_rslora", "rank_stabilized", "Pass `{}=True`."),
    ("num_virtual_tokens", "length", ""),
    # Answers and generation
    ("top_k topk", "k", ""),
    ("do_sample temperature top_k top_p min_p typical_p", "sampler", _SAMPLER),
    ("length_penalty early_stopping", "sampler", _BEAMS),
    ("penalty_alpha", "sampler", "Pass `{}=generation.ContrastiveSearch(k, alpha)`."),
    ("min_length", "min_new_tokens", ", which does not count the tokens of the prompt"),
    ("num_return_sequences", "num_sequences", ""),
    ("eos_token_id", "end_token", ""),
    ("no_repeat_ngram_size", "no_repeat_ngram", ""),
    ("bad_words_ids", "bad_words", "Pass `{}=[...]`."),
    ("suppress_tokens", "bad_words", "Pass `{}=[[token], ...]`."),
    ("forced_bos_token_id", "forced_first", ""),
    ("forced_eos_token_id", "forced_last", ""),
    ("stop_strings", "stop", "Pass `{}=[...]`."),
    ("streamer", "on_token", ", a function of the index and the new piece"),
    ("convert_to_numpy convert_to_tensor", "", "The answer is a NumPy array."),
    ("show_progress_bar", "verbose", "Pass `{}=1`."),
    ("num_beam_groups", "sampler", "Pass `{}=...`; diverse beams do not exist."),
    # Files
    ("save_directory output_dir filepath", "folder", ""),
    ("exist_ok", "overwrite", "Pass `{}=True`."),
    ("safe_serialization", "folder", "Weights are always written as safetensors."),
    ("input_signature opset_version", "folder", "The export determines it."),
)

# Functions and classes: the name here, and the names elsewhere.
_NAMES = {
    "kt.tasks.TextClassifier": "AutoModelForSequenceClassification BertTextClassifier",
    "kt.tasks.TokenClassifier": "AutoModelForTokenClassification",
    "kt.tasks.SpanExtractor": "AutoModelForQuestionAnswering",
    "kt.tasks.MultipleChoice": "AutoModelForMultipleChoice",
    "kt.tasks.MaskedLM": "AutoModelForMaskedLM",
    "kt.tasks.CausalLM": "AutoModelForCausalLM",
    "kt.tasks.Seq2SeqLM": "AutoModelForSeq2SeqLM",
    "kt.tasks.BertPretraining": "BertForPreTraining AlbertForPreTraining",
    "kt.tasks.ReplacedTokenDetection": "ElectraForPreTraining",
    "kt.tasks.PermutationLM": "XLNetLMHeadModel",
    "kt.tasks.TextEmbedder": "SentenceTransformer",
    "kt.tasks.BidirectionalLM": "BidirectionalLanguageModel",
    "kt.encoders.Encoder.from_pretrained(source)": "AutoModel",
    "kt.encoders.EncoderDecoder.from_encoders(source, source)": "EncoderDecoderModel",
    "kt.encoders.ElmoEncoder": "ElmoTokenEmbedder",
    "kt.encoders.BertEncoder": "backbone BertBackbone",
    "kt.encoders.XlmEncoder": "XLMModel",
    "kt.encoders.AWDLSTMEncoder": "AWD_LSTM RNNRegularizer",
    "kt.checkpoints.load_preprocessor(source)": "AutoTokenizer",
    "kt.checkpoints.ModelCard": "ModelCard",
    "kt.text.BertPreprocessor": "BertTextClassifierPreprocessor",
    "kt.text.ByteBPETokenizer": "BytePairTokenizer",
    "kt.text.train_vocabulary": "compute_word_piece_vocabulary",
    "kt.text.batches(x, y, preprocessor=preprocessor)": "DataCollatorWithPadding",
    "kt.text.part_batches(x, y, preprocessor=preprocessor)": "InputExample",
    "kt.text.fastai_texts": "SpacyTokenizer",
    "kt.datasets.read_table": "load_dataset",
    "kt.datasets.hold_out(split, 0.2)": "train_test_split",
    "kt.objectives.TokenMasking": "DataCollatorForLanguageModeling DataCollatorForWholeWordMask MaskedLMMaskGenerator",
    "kt.objectives.PermutationLanguageModel": "DataCollatorForPermutationLanguageModeling",
    "kt.objectives.SpanCorruption": "FlaxDataCollatorForT5MLM",
    "kt.objectives.Denoising": "FlaxDataCollatorForBartDenoisingLM",
    "kt.layers.SequencePooling": "Pooling Seq2VecEncoder",
    "kt.layers.RotaryPositions": "RotaryEmbedding",
    "kt.layers.OutputEmbeddings": "ReversibleEmbedding",
    "kt.layers.AdaptiveSoftmax": "AdaptiveLogSoftmaxWithLoss",
    "kt.layers.ProjectedLSTM": "WeightDropout",
    "kt.layers.VariationalDropout": "RNNDropout",
    "kt.metrics.calibration_bins": "CalibratedClassifierCV calibration_curve",
    "kt.metrics.Rouge": "RougeN RougeL",
    "kt.metrics.EntityF1": "SpanBasedF1Measure",
    "kt.losses.SparseCategoricalFocalCrossentropy": "CategoricalFocalCrossentropy",
    "kt.losses.SmoothedCrossentropy": "CategoricalCrossentropy",
    "kt.generation.TopK": "TopKSampler",
    "kt.generation.TopP": "TopPSampler",
    "kt.generation.Greedy": "GreedySampler",
    "kt.generation.BeamSearch": "BeamSampler",
    'kt.adaptation.add_adapters(model, "lora")': "get_peft_model enable_lora add_adapter",
    "kt.adaptation.LoRA": "LoraConfig",
    "kt.adaptation.IA3": "IA3Config",
    "kt.adaptation.Prefix": "PrefixTuningConfig",
    "kt.adaptation.Prompt": "PromptTuningConfig",
    "kt.adaptation.Houlsby": "DoubleSeqBnConfig",
    "kt.adaptation.Pfeiffer": "SeqBnConfig",
    "kt.adaptation.Parallel": "ParBnConfig",
    "kt.adaptation.Compacter": "CompacterConfig",
    "kt.adaptation.Fusion": "Fuse",
    "kt.adaptation.trainable_summary(model)": "print_trainable_parameters",
    "kt.adaptation.merge_adapters(model)": "merge_and_unload",
    'kt.adaptation.set_active_adapter(model, "name")': "set_adapter set_active_adapters",
    'kt.adaptation.remove_adapters(model, name="name")': "delete_adapter",
    'kt.adaptation.load_adapters(model, "folder")': "PeftModel",
    'kt.adaptation.fine_tune(model, x, y, recipe="bert")': "Trainer TrainingArguments Learner",
    "kt.adaptation.set_fit(model, x, y)": "SetFitTrainer SetFitModel",
    "kt.adaptation.sample_pairs": "sentence_pairs_generation",
    "kt.adaptation.LinearWarmupDecay": "create_optimizer get_linear_schedule_with_warmup",
    "kt.adaptation.WarmupCosine": "CosineDecay",
    "kt.adaptation.FusedAdamW": "AdamW",
    "kt.adaptation.NTASGD": "ASGD",
    "kt.adaptation.trim_vocabulary(model, texts)": "VocabularyPruner",
    "kt.adaptation.OneCycle": "fit_one_cycle",
    "kt.adaptation.GenerationMetrics": "Seq2SeqTrainer",
    "kt.adaptation.TrainingCheckpoint": "BackupAndRestore",
    "kt.adaptation.rematerialize(model)": "gradient_checkpointing_enable",
    'kt.adaptation.freeze(model, below="block_4")': "freeze",
    "kt.adaptation.freeze_to(model, -2)": "freeze_to",
    "kt.adaptation.unfreeze(model)": "unfreeze",
    "kt.analysis.report(model, x, y)": "classification_report",
    "kt.analysis.attention_weights(model, texts)": "bertviz",
    "kt.hub.HubLayer": "KerasLayer",
    'kt.serving.export(model, "small", format="onnx")': "ORTModelForSequenceClassification ORTQuantizer",
    "kt.serving.Predictor": "KeyDataset",
    "kt.wrappers.KerasTransferClassifier": "KerasClassifier",
    "a task, such as `kt.tasks.TextClassifier.from_pretrained(source).predict_labels(texts)`": "pipeline",
    "`metrics=[...]` of `compile`": "KerasMetricCallback",
    "`keras.callbacks`, and the callbacks in `kt.adaptation`": "callbacks",
    "`keras.optimizers`, and the optimizers in `kt.adaptation`": "optimizers",
    "`keras.optimizers.schedules`, and the schedules in `kt.adaptation`": "schedules",
}
# Methods and attributes of models: names elsewhere, the names here, of which the model must have one, and a sentence.
_ATTRIBUTES = (
    ("predict_classes predict_class", "predict_labels"),
    ("encode", "embed"),
    ("semantic_search", "search"),
    ("from_preset", "from_pretrained"),
    ("save_to_preset", "save_pretrained"),
    ("tokenizer", "preprocessor"),
    ("backbone", "encoder"),
    ("config", "get_config"),
    ("num_parameters", "count_params"),
    ("parameters", "weights"),
    ("train", "fit"),
    ("eval", "evaluate"),
)
_FAMILY = re.compile(r"(?:TF|Flax)?[A-Z]\w*?(For[A-Z]\w+|LMHeadModel|Tokenizer(?:Fast)?|Config)")
_FAMILIES = {"LMHeadModel": "ForCausalLM", "Tokenizer": "Tokenizer", "TokenizerFast": "Tokenizer"}
# Classes of objects: what they are called, and where they belong.
_PLACES = {
    "Callback": ("a callback", "`fit(..., callbacks=[...])`"),
    "Penalty": ("a penalty", "`adaptation.LayerwiseOptimizer(optimizer, model, penalty=...)`"),
    "LearningRateSchedule": ("a schedule", "an optimizer: `compile(keras.optimizers.AdamW(schedule))`"),
    "Optimizer": ("an optimizer", "`compile(optimizer=...)`"),
    "TextMetric": ("a metric of texts", "`adaptation.GenerationMetrics(sources, targets, metric)`"),
    "Metric": ("a metric", "`compile(metrics=[...])`"),
    "Loss": ("a loss", "`compile(loss=...)`"),
    "AdapterKind": ("a kind of adapters", "`adaptation.add_adapters(model, ...)`"),
    "Recipe": ("a recipe", "`adaptation.fine_tune(model, x, y, recipe=...)`"),
    "Sampler": ("a sampler", "`generate(..., sampler=...)`"),
    "Preprocessor": ("a preprocessor", "the constructor of a task"),
}


def equivalent(name, known):
    """Returns the argument that replaces one of another library, and a sentence.

    Args:
        name: String. The argument of another library.
        known: Collection of the arguments of the called function.

    Returns:
        `(own, sentence)`: one of `known`, or `""` if the sentence names no argument of the function. `None` if the
        table has no row for the name and the function.
    """
    for foreign, own, sentence in _ARGUMENTS:
        if name in foreign.split() and (not own or own in known):
            if not sentence or sentence[0] == ",":
                sentence = f"Pass `{{}}=...`{sentence}."
            return own, sentence.replace("{}", own) if "encoder={" not in sentence else sentence
    return None


def elsewhere(name):
    """Returns what to use instead of a function or a class of another library, as a string, or None."""
    by_name = {foreign: own for own, names in _NAMES.items() for foreign in names.split()}
    if name not in by_name and (found := _FAMILY.fullmatch(name)):
        name = f"AutoModel{_FAMILIES.get(found[1], found[1])}".replace("ModelTokenizer", "Tokenizer")
    own = by_name.get(name)
    return own if own is None or "`" in own else f"`{own}`"


def attribute_elsewhere(name, cls):
    """Returns what to use instead of a method or an attribute of a model of another library, or None."""
    for foreign, own in _ATTRIBUTES:
        if name in foreign.split() and hasattr(cls, own):
            return f"`{own}`"
    return elsewhere(name)


def belongs(value, *accepted):
    """Returns a sentence on where an object belongs, preceded by a space, or `""` for one of an accepted kind."""
    cls = value if isinstance(value, type) else type(value)
    for base in cls.__mro__:
        if base.__name__ in _PLACES and base.__module__.startswith(("keras.", "keras_transfer.")):
            kind, place = _PLACES[base.__name__]
            return "" if base.__name__ in accepted else f" `{cls.__name__}` is {kind}, which belongs in {place}."
    return ""
