"""The names of other libraries and what to use here instead, which the pages in `docs/migration` also list."""

import re

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
    "set_fit=SetFitTrainer,SetFitModel sample_pairs=sentence_pairs_generation "
    "LinearWarmupDecay=create_optimizer,get_linear_schedule_with_warmup WarmupCosine=CosineDecay "
    "FusedAdamW=AdamW NTASGD=ASGD trim_vocabulary=VocabularyPruner OneCycle=fit_one_cycle "
    "GenerationMetrics=Seq2SeqTrainer TrainingCheckpoint=BackupAndRestore "
    "rematerialize=gradient_checkpointing_enable freeze=freeze freeze_to=freeze_to unfreeze=unfreeze",
    "analysis": "report=classification_report attention_weights=bertviz",
    "hub": "HubLayer=KerasLayer",
    "serving": "export=ORTModelForSequenceClassification,ORTQuantizer Predictor=KeyDataset",
    "wrappers": "KerasTransferClassifier=KerasClassifier",
}
_NAMES = {
    "a task, such as `kt.tasks.TextClassifier.from_pretrained(source).predict_labels(texts)`": "pipeline",
    "`metrics=[...]` of `compile`": "KerasMetricCallback",
    "`keras.callbacks`, and the callbacks in `kt.adaptation`": "callbacks",
    "`keras.optimizers`, and the optimizers in `kt.adaptation`": "optimizers",
    "`keras.optimizers.schedules`, and the schedules in `kt.adaptation`": "schedules",
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
