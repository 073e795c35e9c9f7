"""What Keras finds under the names in `.keras` files before the subpackages with the classes are imported."""

import sys

import keras

from keras_transfer.core.door import modules_of

NAMES = """
_Recurrence ActivationPenalty AdaptiveEmbedding AdaptiveSoftmax AlbertEncoder AttentionBias AUC AWDLSTMEncoder
AWDQRNNEncoder BackboneEncoder Bart BartEncoder BartSingleText BeamSearch BertEncoder BertPreprocessor BertPretraining
BidirectionalLM BitFit Bleu BothPlaces BottleneckAdapter ByteBPETokenizer CarriedState CausalLM ChainLoss ChainThaw
CharacterCNN Chrf Compacter ComposedEncoderDecoder ConditionalRandomField ContrastiveLoss ContrastiveSearch
ConvolutionBlock CosineSimilarityLoss DebertaV2Encoder Denoising DialogueModel DisentangledAttention DistanceEmbedding
DistilBertEncoder Dropout ElectraEncoder ElmoEncoder ElmoPreprocessor EmbeddingDropout EntityF1 EWC
ExpectedCalibrationError F1 FastaiTokenizer FeedForward FusedAdamW Fusion GatedFeedForward gelu_tanh GenerationMetrics
GPT2Encoder GPTEncoder GPTTokenizer GradualUnfreezing Greedy HitsAtK Houlsby HubEncoder HubLayer HubPreprocessor IA3
InverseSquareRoot L2SP LayerCopies LayerNormalization LayerwiseOptimizer LinearWarmupDecay LoRA Marian MarianTokenizer
MaskedLM Matryoshka MatthewsCorrelation MBart MeanReciprocalRank MinP ModernBertEncoder ModernBertFirstBlock
MPNetEncoder MultiHeadAttention MultipleChoice MultipleNegativesRanking NDCG NextToken NonMonotonicTrigger NTASGD
OneCycle OutputEmbeddings Packing PairFeatures PALs Parallel PearsonCorrelation Pegasus PenaltyLogger
PermutationLanguageModel PermutationLM Perplexity Pfeiffer PlainText PositionEmbedding PositionLogits Precision
PredictionPenalty Prefix PrefixLM ProjectedLSTM Prompt QRNN Random Recall RecallAtK RelativeAttention
RelativePositionBias RelativePositions ReplacedTokenDetection RobertaEncoder RotaryPositions Rouge SampledSoftmax
SampleTokens ScalarMix SegmentEmbedding SentenceBoundaries SentencePieceBPETokenizer Seq2SeqLM SequenceAutoencoder
SequencePooling SequentialUnfreezing SinusoidalPositions SlantedTriangular SmoothedCrossentropy SmoothInverseFrequency
SpanCorruption SpanExtractor SpanPrediction SparseFocalCrossentropy SpeakerEmbedding SpearmanCorrelation Squad Stage
StagedTraining T5 T5Encoder TakePositions TakeQueryStream Ter TextClassifier TextEmbedder TextRegressor
TokenClassifier TokenMasking TokenPreprocessor TopK TopP TrainingCheckpoint TransformerBlock TransformerEncoder
TranslationMasking TripletLoss TruncatedNormal TwoStreams Typical UnigramTokenizer UniLM UsedPlaces VariationalDropout
WarmupCosine WindowPreprocessor WindowRate WithoutBoundaries WordAccuracy WordPieceTokenizer WordPreprocessor
WordTokenizer WordVectorEncoder XlmEncoder XLNetEncoder
"""


class StandIn:
    """Stands in Keras's registry for a class or a function, which replaces it when its subpackage is imported."""

    def __init__(self, name):
        self.name = name

    def from_config(self, config, **options):
        """Imports all classes, and creates an object of the class from its config."""
        modules_of(sys.modules["keras_transfer"])
        # Inside this call, `keras.saving.get_registered_object` finds what was registered before it.
        return keras.saving.get_custom_objects()[self.name].from_config(config, **options)


def register_names():
    """Registers a stand-in for each name that is not registered yet."""
    registry = keras.saving.get_custom_objects()
    for name in NAMES.split():
        registry.setdefault(f"keras_transfer>{name}", StandIn(f"keras_transfer>{name}"))
