"""What Keras finds under the names in `.keras` files before the subpackages with the classes are imported."""

import importlib

import keras

NAMES = {
    "adaptation": """
        BitFit Compacter Ensemble Fusion Houlsby IA3 LayerCopies LoRA Movement PALs Parallel Pfeiffer Prefix Prompt
        SliceClassifier WeightPruning
    """,
    "encoders": """
        AlbertEncoder AWDLSTMEncoder AWDQRNNEncoder BackboneEncoder Bart BartEncoder BartSingleText BertEncoder
        ComposedEncoderDecoder DebertaV2Encoder DistilBertEncoder ElectraEncoder ElmoEncoder GPT2Encoder GPTEncoder
        Marian MBart ModernBertEncoder ModernBertFirstBlock MPNetEncoder Pegasus RobertaEncoder SentenceBoundaries
        SmoothInverseFrequency T5 T5Encoder TransformerEncoder UniLM WithoutBoundaries WordVectorEncoder XlmEncoder
        XLNetEncoder
    """,
    "generation": """
        BeamSearch ContrastiveSearch Greedy MinP Random TopK TopP Typical
    """,
    "hub": """
        HubEncoder HubLayer HubPreprocessor
    """,
    "layers": """
        _Recurrence ActivationPenalty AdaptiveEmbedding AdaptiveSoftmax AttentionBias BottleneckAdapter CharacterCNN
        ConditionalRandomField ConvolutionBlock DisentangledAttention DistanceEmbedding Dropout EmbeddingDropout
        FeedForward GatedFeedForward gelu_tanh LayerNormalization MultiHeadAttention OutputEmbeddings PairFeatures
        PositionEmbedding PositionLogits ProjectedLSTM QRNN RelativeAttention RelativePositionBias RelativePositions
        RotaryPositions SampledSoftmax SampleTokens ScalarMix SegmentEmbedding SequencePooling SinusoidalPositions
        SpeakerEmbedding TakePositions TakeQueryStream TransformerBlock TruncatedNormal TwoStreams VariationalDropout
    """,
    "losses": """
        ContrastiveLoss CosineSimilarityLoss DistillationLoss MarginMSELoss Matryoshka MultipleNegativesRanking
        PredictionPenalty SmoothedCrossentropy SparseFocalCrossentropy TripletLoss
    """,
    "metrics": """
        AUC Bleu Chrf EntityF1 ExpectedCalibrationError F1 HitsAtK MatthewsCorrelation MeanReciprocalRank NDCG
        PearsonCorrelation Perplexity Precision Recall RecallAtK Rouge SpearmanCorrelation Squad Ter WordAccuracy
    """,
    "objectives": """
        Denoising NextToken PermutationLanguageModel PrefixLM SequenceAutoencoder SpanCorruption SpanPrediction
        TokenMasking TranslationMasking
    """,
    "tasks": """
        BertPretraining BidirectionalLM BothPlaces CarriedState CausalLM ChainLoss DialogueModel MaskedLM MultiTask
        MultipleChoice PermutationLM ReplacedTokenDetection Seq2SeqLM SpanExtractor TextClassifier TextEmbedder
        TextRegressor TokenClassifier UsedPlaces
    """,
    "text": """
        BertPreprocessor ByteBPETokenizer ElmoPreprocessor FastaiTokenizer GPTTokenizer MarianTokenizer Packing
        PlainText SentencePieceBPETokenizer TokenPreprocessor UnigramTokenizer WindowPreprocessor WordPieceTokenizer
        WordPreprocessor WordTokenizer
    """,
    "training": """
        ChainThaw EWC FusedAdamW GenerationMetrics GradualUnfreezing InverseSquareRoot L2SP LayerwiseOptimizer
        LinearWarmupDecay NonMonotonicTrigger NTASGD OneCycle PenaltyLogger SequentialUnfreezing SlantedTriangular Stage
        StagedTraining TrainingCheckpoint WarmupCosine WindowRate
    """,
}


class StandIn:
    """Stands in Keras's registry for a class or a function, which replaces it when its subpackage is imported."""

    def __init__(self, name, subpackage):
        self.name, self.subpackage = name, subpackage

    def from_config(self, config, **options):
        """Imports the subpackage of the class, and creates an object of the class from its config."""
        importlib.import_module(f"keras_transfer.{self.subpackage}")
        # Inside this call, `keras.saving.get_registered_object` finds what was registered before it.
        return keras.saving.get_custom_objects()[self.name].from_config(config, **options)


def register_names():
    """Registers a stand-in for each name that is not registered yet."""
    registry = keras.saving.get_custom_objects()
    for subpackage, names in NAMES.items():
        for name in names.split():
            registry.setdefault(f"keras_transfer>{name}", StandIn(f"keras_transfer>{name}", subpackage))
