"""Looks up names that a user passes, and suggests the closest one, or what to use here for another library's name.

The pages in `docs/migration` list the same names of other libraries.
"""

import difflib
import inspect
import logging
import numbers
import re

log = logging.getLogger("keras_transfer")

_MISSING = ("nan", "none", "null", "na", "n/a", "<na>", "#n/a")

_HEAD = "Pass `{}=[...]`, the names in the order of the head."
_RATE = "Pass `{}=keras.optimizers.AdamW(2e-5)`, an optimizer with its learning rate."
_SAMPLER = "Pass `{}=...`, such as `generation.TopP(0.9, temperature=0.7)`, `TopK(50)` or `BeamSearch(4)`."
_BEAMS = "Pass `{}=generation.BeamSearch(4, length_penalty=..., early_stopping=...)`."
_EPOCHS = "num_train_epochs n_epochs num_epochs max_epochs nb_epoch"
_LENGTH = "It is `sequence_length` of `from_pretrained` and of preprocessors."

# Arguments: names elsewhere; a name here, which must be an argument of the called function, or "" if there is none; and
# a sentence, or what follows `Pass NAME=...`. The first row whose name here is an argument counts. `encoder={}` stands
# for an argument that is a dict of arguments of the encoder, and `num_layers` for an encoder.
_ADVICE = (
    ("num_labels n_classes", "num_classes", ", or `label_names=[...]` for labels with names"),
    ("id2label label2id class_names classes num_labels n_classes", "label_names", _HEAD),
    ("labels", "label_names", "Pass `{}=sorted(set(labels))`, the names in the order of the head."),
    ("problem_type", "multi_label", "Pass `{}=True`, or use `TextRegressor` for numbers."),
    ("pooling_mode pool", "pooling", ", such as 'first', 'last', 'mean' or 'max'"),
    ("normalize_embeddings", "normalize", "Pass `{}=True`."),
    ("ignore_mismatched_sizes", "head", "Pass `{}='new'` for a new head."),
    ("hidden_dropout_prob resid_pdrop", "encoder={}", "Pass `encoder={'dropout': ...}`."),
    ("hidden_dropout_prob resid_pdrop", "num_layers", "Pass `dropout=...`."),
    ("hidden_size d_model n_embd", "num_layers", "Pass `hidden_dim=...`."),
    ("torch_dtype dtype", "encoder={}", "Pass `encoder={'dtype': ...}`."),
    ("fp16 bf16", "encoder={}", "Pass `encoder={'dtype': 'mixed_bfloat16'}`."),
    ("fp16 bf16", "recipe", "Pass `{}=get_recipe(name, precision='mixed_bfloat16')`."),
    ("revision", "source", "Append it to the name: 'hf://organization/name@revision'."),
    ("trust_remote_code", "source", "No code of a checkpoint is run."),
    (
        "padding",
        "sequence_length",
        "Texts are padded to the longest one of a batch. To change the limit, pass `{}=...`.",
    ),
    ("stride", "doc_stride", ", how far apart windows begin, or `overlap=...`, how many tokens they share"),
    ("sep delimiter encoding", "text_column", "Read it with `pandas.read_csv`, and pass its columns to `fit`."),
    ("test_size val_size", "validation_split", ", a fraction of the rows"),
    ("stratify", "validation_split", "Each class has the same fraction of its rows in both parts."),
    ("shuffle", "validation_split", "Rows are always chosen at random, and keep their order."),
    ("lr learning_rate weight_decay", "learning_rate", "Pass `{}=...`."),
    ("lr learning_rate weight_decay", "optimizer", _RATE),
    ("lr learning_rate warmup_steps warmup_ratio", "recipe", "Pass `{}=get_recipe(name, learning_rate=...)`."),
    (_EPOCHS, "epochs", "Pass `{}=...`."),
    (f"{_EPOCHS} epochs", "recipe", "Pass `{}=get_recipe(name, epochs=...)`."),
    ("train_dataset", "x", ", and the labels as `y=...`"),
    ("early_stopping patience", "callbacks", "Pass `{}=[keras.callbacks.EarlyStopping(restore_best_weights=True)]`."),
    ("target_modules", "targets", ", such as `LoRA(targets=['query', 'value'])`"),
    ("use_dora", "magnitude", "Pass `{}=True`."),
    ("use_rslora", "rank_stabilized", "Pass `{}=True`."),
    ("do_sample temperature top_k top_p min_p typical_p", "sampler", _SAMPLER),
    ("length_penalty early_stopping", "sampler", _BEAMS),
    ("penalty_alpha", "sampler", "Pass `{}=generation.ContrastiveSearch(k, alpha)`."),
    ("min_length", "min_new_tokens", ", which does not count the tokens of the prompt"),
    ("bad_words_ids", "bad_words", "Pass `{}=[...]`."),
    ("suppress_tokens", "bad_words", "Pass `{}=[[token], ...]`."),
    ("stop_strings", "stop", "Pass `{}=[...]`."),
    ("streamer", "on_token", ", a function of the index and the new piece"),
    ("show_progress_bar", "verbose", "Pass `{}=1`."),
    ("num_beam_groups", "sampler", "Pass `{}=...`; diverse beams do not exist."),
    ("exist_ok", "overwrite", "Pass `{}=True`."),
    ("safe_serialization", "folder", "Weights are always written as safetensors."),
    ("input_signature opset_version", "folder", "The export determines it."),
)
# The same for names that differ only.
_RENAMED = """
num_labels=num_targets  num_classes=num_targets  pos_label=class_id  classifier_dropout=dropout
dropout_rate=dropout  dropout_prob=dropout  attention_probs_dropout_prob=attention_dropout
attn_pdrop=attention_dropout  num_hidden_layers=num_layers  n_layer=num_layers  num_attention_heads=num_heads
n_head=num_heads  vocab_size=vocabulary_size  intermediate_size=intermediate_dim  hidden_act=activation
max_position_embeddings=max_sequence_length  n_positions=max_sequence_length  torch_dtype=dtype
max_length=sequence_length  max_seq_length=sequence_length  model_max_length=sequence_length
truncation=sequence_length  maxlen=sequence_length  max_length=max_new_tokens  tokenizer=preprocessor
do_lower_case=lowercase  vocab=vocabulary  vocab_file=vocabulary  sep=separator  delimiter=separator
text_col=text_column  content_column=text_column  label_col=label_column  target_column=label_column
target=label_column  random_state=seed  random_seed=seed  seed=random_state  optim=optimizer  criterion=loss
loss_fn=loss  compute_metrics=metrics  per_device_train_batch_size=batch_size  train_batch_size=batch_size
bs=batch_size  eval_dataset=validation_data  validation_dataset=validation_data  eval_data=validation_data
warmup_ratio=warmup_fraction  num_warmup_steps=warmup_steps  num_training_steps=total_steps
mlm_probability=mask_selection_rate  num_seeds=seeds  n_seeds=seeds  r=rank  lora_r=rank  lora_alpha=alpha
lora_dropout=dropout  num_virtual_tokens=length  top_k=k  topk=k  num_return_sequences=num_sequences
eos_token_id=end_token  no_repeat_ngram_size=no_repeat_ngram  forced_bos_token_id=forced_first
forced_eos_token_id=forced_last  save_directory=folder  output_dir=folder  filepath=folder
"""
# What no argument of the function replaces.
_OTHERWISE = (
    ("normalize_embeddings", "", "It is `normalize=True` of the `TextEmbedder`."),
    ("from_logits", "", "Tasks return logits, which losses and metrics of this library expect."),
    ("hidden_dropout_prob resid_pdrop", "", "It is `dropout` of the encoder."),
    ("attention_probs_dropout_prob attn_pdrop", "", "It is `attention_dropout` of the encoder."),
    ("hidden_size d_model n_embd", "", "It is `hidden_dim` of the encoder."),
    ("output_hidden_states", "", "Use `encoders.encode(encoder, inputs, hidden_states=True)`."),
    ("output_attentions", "", "Use `analysis.attention_weights(model, texts)`."),
    ("device device_map", "", "Keras chooses the device."),
    ("max_length max_seq_length model_max_length truncation maxlen", "", _LENGTH),
    ("padding", "", "Texts are padded to the longest one of a batch."),
    ("lr learning_rate weight_decay", "", "It belongs to the optimizer: `compile(keras.optimizers.AdamW(2e-5))`."),
    (f"{_EPOCHS} epochs", "", "It is an argument of `fit`."),
    ("convert_to_numpy convert_to_tensor", "", "The answer is a NumPy array."),
)
_ARGUMENTS = (*_ADVICE, *((*pair.split("="), "") for pair in _RENAMED.split()), *_OTHERWISE)

# Functions and classes: of each subpackage, the name here and the names elsewhere.
_NAMES_OF = {
    "tasks": "TextClassifier=AutoModelForSequenceClassification,BertTextClassifier "
    "TokenClassifier=AutoModelForTokenClassification SpanExtractor=AutoModelForQuestionAnswering "
    "MultipleChoice=AutoModelForMultipleChoice MaskedLM=AutoModelForMaskedLM CausalLM=AutoModelForCausalLM "
    "Seq2SeqLM=AutoModelForSeq2SeqLM BertPretraining=BertForPreTraining,AlbertForPreTraining "
    "ReplacedTokenDetection=ElectraForPreTraining PermutationLM=XLNetLMHeadModel "
    "TextEmbedder=SentenceTransformer BidirectionalLM=BidirectionalLanguageModel",
    "encoders": "Encoder.from_pretrained=AutoModel EncoderDecoder.from_encoders=EncoderDecoderModel "
    "ElmoEncoder=ElmoTokenEmbedder BertEncoder=backbone,BertBackbone XlmEncoder=XLMModel "
    "AWDLSTMEncoder=AWD_LSTM,RNNRegularizer",
    "checkpoints": "load_preprocessor=AutoTokenizer ModelCard=ModelCard",
    "text": "BertPreprocessor=BertTextClassifierPreprocessor ByteBPETokenizer=BytePairTokenizer "
    "train_vocabulary=compute_word_piece_vocabulary batches=DataCollatorWithPadding "
    "part_batches=InputExample fastai_texts=SpacyTokenizer",
    "datasets": "read_table=load_dataset hold_out=train_test_split",
    "objectives": "TokenMasking=DataCollatorForLanguageModeling,DataCollatorForWholeWordMask,MaskedLMMaskGenerator "
    "PermutationLanguageModel=DataCollatorForPermutationLanguageModeling "
    "SpanCorruption=FlaxDataCollatorForT5MLM Denoising=FlaxDataCollatorForBartDenoisingLM",
    "layers": "SequencePooling=Pooling,Seq2VecEncoder RotaryPositions=RotaryEmbedding "
    "OutputEmbeddings=ReversibleEmbedding AdaptiveSoftmax=AdaptiveLogSoftmaxWithLoss "
    "ProjectedLSTM=WeightDropout VariationalDropout=RNNDropout",
    "metrics": "calibration_bins=CalibratedClassifierCV,calibration_curve Rouge=RougeN,RougeL "
    "EntityF1=SpanBasedF1Measure",
    "losses": "SparseCategoricalFocalCrossentropy=CategoricalFocalCrossentropy "
    "SmoothedCrossentropy=CategoricalCrossentropy",
    "generation": "TopK=TopKSampler TopP=TopPSampler Greedy=GreedySampler BeamSearch=BeamSampler",
    "adaptation": "add_adapters=get_peft_model,enable_lora,add_adapter LoRA=LoraConfig IA3=IA3Config "
    "Prefix=PrefixTuningConfig Prompt=PromptTuningConfig Houlsby=DoubleSeqBnConfig "
    "Pfeiffer=SeqBnConfig Parallel=ParBnConfig Compacter=CompacterConfig Fusion=Fuse "
    "trainable_summary=print_trainable_parameters merge_adapters=merge_and_unload "
    "set_active_adapter=set_adapter,set_active_adapters remove_adapters=delete_adapter "
    "load_adapters=PeftModel fine_tune=Trainer,TrainingArguments,Learner "
    "setfit=SetFitTrainer,SetFitModel sample_pairs=sentence_pairs_generation trim_vocabulary=VocabularyPruner "
    "rematerialize=gradient_checkpointing_enable freeze=freeze freeze_to=freeze_to unfreeze=unfreeze",
    "optimizers": "FusedAdamW=AdamW NTASGD=ASGD",
    "optimizers.schedules": "LinearWarmupDecay=create_optimizer,get_linear_schedule_with_warmup "
    "WarmupCosine=CosineDecay OneCycle=fit_one_cycle",
    "callbacks": "GenerationMetrics=Seq2SeqTrainer TrainingCheckpoint=BackupAndRestore",
    "analysis": "report=classification_report attention_weights=bertviz",
    "hub": "HubLayer=KerasLayer",
    "serving": "export=ORTModelForSequenceClassification,ORTQuantizer Predictor=KeyDataset",
    "wrappers": "KerasTransferClassifier=KerasClassifier",
}
_NAMES = {
    "a task, such as `kt.tasks.TextClassifier.from_pretrained(source).predict_labels(texts)`": "pipeline",
    "`metrics=[...]` of `compile`": "KerasMetricCallback",
}
_NAMES |= {
    f"kt.{place}.{own}": names.replace(",", " ")
    for place, pairs in _NAMES_OF.items()
    for own, names in (pair.split("=") for pair in pairs.split())
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
    "Penalty": ("a penalty", "`optimizers.LayerwiseOptimizer(optimizer, model, penalty=...)`"),
    "LearningRateSchedule": ("a schedule", "an optimizer: `compile(keras.optimizers.AdamW(schedule))`"),
    "Optimizer": ("an optimizer", "`compile(optimizer=...)`"),
    "TextMetric": ("a metric of texts", "`callbacks.GenerationMetrics(sources, targets, metric)`"),
    "Metric": ("a metric", "`compile(metrics=[...])`"),
    "Loss": ("a loss", "`compile(loss=...)`"),
    "AdapterKind": ("a kind of adapters", "`adaptation.add_adapters(model, ...)`"),
    "Recipe": ("a recipe", "`adaptation.fine_tune(model, x, y, recipe=...)`"),
    "Sampler": ("a sampler", "`generate(..., sampler=...)`"),
    "Preprocessor": ("a preprocessor", "the constructor of a task"),
}


def closest(name, names):
    """Returns the name that is most similar to `name`, ignoring case, or None if none is similar."""
    lower = {str(each).lower(): each for each in names}
    close = difflib.get_close_matches(str(name).lower(), lower, n=1)
    return lower[close[0]] if close else None


def did_you_mean(name, names):
    """Returns `" Did you mean 'label'?"` with the closest of the names, or an empty string."""
    near = closest(name, names)
    return "" if near is None else f" Did you mean {near!r}?"


def why_no_expression(pattern):
    """Returns `", which is not a regular expression: REASON"`, or an empty string for any other pattern."""
    try:
        re.compile(pattern)
    except (re.error, TypeError) as error:
        return f", which is not a regular expression: {error}" if isinstance(pattern, str) else ""
    return ""


def listed(names, most=10):
    """Returns names as a list in a string, of which only the first `most` are shown."""
    names = list(names)
    shown = ", ".join(map(repr, names[:most]))
    return f"[{shown}]" if len(names) <= most else f"[{shown}, ... and {len(names) - most:,} more]"


def look_up(name, names, what):
    """Returns the name that equals `name`, except for case, hyphens and underscores."""
    found = [each for each in names if _plain(each) == _plain(name)]
    if not found:
        raise ValueError(
            f"Unknown {what}.{did_you_mean(name, names)} Expected one of {list(names)}. Received: {name!r}"
        )
    return found[0]


def _plain(name):
    return str(name).lower().replace("-", "").replace("_", "")


def hint_for(name, known):
    """Returns a sentence on what to pass instead of an argument that does not exist, preceded by a space, or `""`."""
    found = equivalent(name, known)
    return did_you_mean(name, [each for each in known if each.isidentifier()]) if found is None else f" {found[1]}"


def argument_names(cls):
    """Returns the names of the arguments of the constructors of a class and of its bases, except those of Keras."""
    bases = [base for base in cls.__mro__ if "__init__" in vars(base) and not base.__module__.startswith("keras.")]
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = [
        each for base in bases if base is not object for each in inspect.signature(base.__init__).parameters.values()
    ]
    names = dict.fromkeys(each.name for each in parameters if each.kind in kinds)
    return [name for name in names if name != "self"]


def check_arguments(what, given, known):
    """Raises a `TypeError` for the first argument that does not exist, with what to pass instead."""
    for name, value in given.items():
        if name not in known:
            raise TypeError(
                f"`{what}` has no argument `{name}`.{hint_for(name, known)} Received: {name}={value!r:.100}"
            )


def check_spaces(names, received):
    """Raises a `ValueError` if two names of classes differ only in the spaces around them.

    It also logs a warning if two names differ only in case, or if one is a missing value in words, such as `nan`.

    Args:
        received: String. Where the names come from, the beginning of the error message.
    """
    found, names = {}, sorted(names)
    for name in names:
        other = found.setdefault(name.strip(), name)
        if other != name:
            raise ValueError(
                f"{received}: Names of classes must not differ only in the spaces around them. Remove these with "
                f"`label.strip()`. Received: {other!r} and {name!r}"
            )
    if missing := [name for name in names if name.strip().lower() in _MISSING]:
        log.warning(
            "%s: The class %r looks like a missing value. If it is one, leave out its rows, such as with "
            "`DataFrame.dropna(subset=[...])` before labels become strings.",
            received,
            missing[0],
        )
    by_lower = {}
    for name in names:
        by_lower.setdefault(name.lower(), []).append(repr(name))
    if alike := [" and ".join(group) for group in by_lower.values() if len(group) > 1]:
        log.warning(
            "%s: The classes %s%s differ only in case. If they are one class, convert the labels with `label.lower()`.",
            received,
            ", ".join(alike[:3]),
            f", and {len(alike) - 3:,} more groups," if len(alike) > 3 else "",
        )


def advice_on_label(label):
    """Returns what to do about a label that is neither a name nor an integer, as a sentence after a space, or `""`."""
    if type(label).__name__ in ("bool", "bool_"):  # Python's and NumPy's.
        return " Convert booleans to names with `labels.astype(str)`."
    if label is None or label != label:
        return " Leave out rows without a label, such as with `table.dropna(subset=[...])`."
    if not isinstance(label, numbers.Real) or isinstance(label, numbers.Integral):
        return ""
    if label % 1:
        return " For measurements, use a `TextRegressor`. If they are classes, convert them with `labels.astype(str)`."
    return (
        " A column of integers with an empty cell is float. Leave out the rows without a label, and convert the others "
        "with `labels.astype(int)`."
    )


def check_order(found, names):
    """Raises a `ValueError` if the names of classes in a file are those of a model in another order.

    Args:
        found: List of strings, dict of these for several heads, or `None`. The names in the file.
    """
    if isinstance(found, dict) and isinstance(names, dict):
        for head in found.keys() & names.keys():
            check_order(found[head], names[head])
    elif isinstance(found, list) and isinstance(names, list) and found != names and sorted(found) == sorted(names):
        raise ValueError(
            "The weights belong to a model with the same classes in another order, so their labels would be mixed up. "
            "Create the model with the `label_names` of the file, and rename its classes afterwards. "
            f"Received: a file with {listed(found)}, and a model with {listed(names)}"
        )


def equivalent(name, known):
    """Returns the argument that replaces one of another library, and a sentence, or `None` if the table has no row.

    The argument is one of `known`, or `""` if the sentence names no argument of the function.
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
