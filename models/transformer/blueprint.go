package transformer

import (
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/ctc"
	"github.com/gotrainer/gotrainer/models/detect"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Blueprint is an encoder or decoder that has not been built yet: what its heads need to know
// about it, and how to build it. Each package of a model makes one from a config.json.
type Blueprint struct {
	ModelType string // model_type: bert
	Class     string // prefix of transformers' class names: Bert
	Prefix    string // base_model_prefix, its name in a model with a head: bert

	HiddenSize    int64
	EmbeddingSize int64 // of the token embedding; HiddenSize except for ELECTRA

	Activation        Activation // hidden_act
	LayerNormEps      float64
	InitializerRange  float64
	Truncated         bool    // initial weights are those of InitTruncated
	Flax              bool    // initial weights are those of InitFlax
	Dropout           float64 // of hidden states
	ClassifierDropout float64 // before a classifier of texts
	AnswerDropout     float64 // before the layer that finds answers: only in DistilBERT

	Head   classify.Head // what the logits of a classifier mean
	Limits inputs.Limits
	Images classify.ImageLimits // of a model of pictures
	Speech inputs.SpeechLimits  // of a model of speech that takes features
	// ImageTokens are those of a decoder whose texts have images.
	ImageTokens inputs.ImageTokens
	// Waveforms are those of a model that takes sound as it is, and CTC is its loss.
	Waveforms inputs.WaveformLimits
	CTC       ctc.Settings
	Detection detect.LossSettings // of a model that finds objects
	// ImageProcessor is the image processor of a model of pictures whose files name none:
	// ViTImageProcessor.
	ImageProcessor string
	// MapsHead builds the head for semantic segmentation of a model of pictures, and IgnoreIndex is
	// the label of pixels that its loss leaves out; nil: the model has no such head.
	MapsHead    func(b Builder) MapsHead
	IgnoreIndex int64

	LanguageModel string // of a decoder: transformers' class with a head, GPT2LMHeadModel
	// Pair says that it is an encoder with a decoder. A generated second text starts with
	// DecoderStartTokenID; the targets of training do too, or with WrapsLabels, each with its own
	// last token. The hidden states of the second text are multiplied by OutputScale for the output
	// layer, and with LogitsBias, final_logits_bias is added to the logits.
	Pair                bool
	DecoderStartTokenID int64
	WrapsLabels         bool
	OutputScale         float64
	LogitsBias          bool
	Logits              Logits // of a decoder: applied to the logits
	// TiedWeights are the names in files of the weights of the token embedding and of the output
	// layer of a Pair, by which the files decide whether they are one; empty: those of T5 and BART.
	TiedWeights       [2]string
	EOSTokenIDs       []int64                  // of a decoder or a Dual: they end a text
	PadTokenID        *int64                   // of a decoder: pad_token_id, which may be no id; nil: none
	AbsolutePositions bool                     // of a decoder: padding in front of a text moves it to other positions
	Bidirectional     bool                     // of a decoder: tokens attend to later ones too, so that it cannot write
	Untied            bool                     // the output layer of a language model has its own weight
	Untrained         []string                 // names of parameters that are not trained
	Drawn             []string                 // names of parameters that older files lack, and that are drawn
	NoWeights         []string                 // suffixes of tensor names in older files that are not weights
	Rename            func(name string) string // maps other names in files to the model's; nil: there are none
	// InMemory maps names of modules to those that transformers has in memory, which peft puts into
	// files; nil: they are the same.
	InMemory func(name string) string
	// InFiles is [nn.FileForm]: what the files of the model have in the place of its tensors; nil: the
	// same.
	InFiles   func(state []torch.Named) []torch.Named
	NoFloat16 bool // its hidden states are too large for float16

	// Heads are heads specific to this model, by the suffix of transformers' class names, such as
	// ForMaskedLM. Package auto has the others.
	Heads map[string]func(b Builder) Head

	// Document returns the config.json for transformers' class of the given name.
	Document func(architecture string) (pretrained.Document, error)
	// Build builds the encoder, with a pooler if it has one and the head uses it.
	Build func(b Builder, pooler bool) Backbone
}

// InitWeights draws the weights with the given names, or all if missing is nil: [InitWeights],
// [InitTruncated] or [InitFlax].
func (p Blueprint) InitWeights(m any, missing map[string]bool) {
	switch {
	case p.Truncated:
		InitTruncated(m, p.InitializerRange, missing)
	case p.Flax:
		InitFlax(m, p.InitializerRange, missing)
	default:
		InitWeights(m, p.InitializerRange, missing)
	}
}

// Backbone is an encoder or decoder that heads are attached to.
type Backbone struct {
	Module any // the model itself, as package nn finds its parameters

	// Forward maps token ids, [B, L], to hidden states, [B, L, hidden]. Mask and types, [B, L], may
	// be undefined.
	Forward func(ids, mask, types torch.Tensor) torch.Tensor
	// ForwardAux is Forward that also returns a loss of the model itself, a scalar, which is added to
	// that of a language model; undefined: none. It is nil if the model has no such loss.
	ForwardAux func(ids, mask torch.Tensor) (hidden, aux torch.Tensor)
	// Pool applies the pooler to hidden states, [B, hidden]; nil if there is none.
	Pool func(hidden torch.Tensor) torch.Tensor

	// Text returns the representation of a text for a classifier, from hidden states and their
	// mask, [B, 1, hidden]; nil means its first token, or the pooler's output for it.
	Text func(hidden, mask torch.Tensor) torch.Tensor

	// ForwardPacked maps a packed batch to the hidden states of its tokens, [T, hidden]; nil if
	// the encoder needs padding.
	ForwardPacked func(p *inputs.Packed) torch.Tensor

	// Decode maps the next tokens of texts, [B, L], to their hidden states, [B, L, hidden], and
	// adds them to the past. L is 1 unless the past is empty. For an encoder, Decode and NewPast
	// are nil.
	Decode func(ids torch.Tensor, past *Past) torch.Tensor
	// NewPast allocates a past for the given numbers of texts and of tokens per text.
	NewPast func(texts, capacity int64) *Past
	// Rereads is the number of tokens at which a growing text is processed again from its start,
	// after [Past.Forget]; 0: never.
	Rereads int64

	// For an encoder with a decoder, nil otherwise. Encode maps a text to what the decoder attends
	// to, [B, L, hidden]. ForwardPair maps two texts to the hidden states of the second, [B, T,
	// hidden]. DecodePair starts texts that are generated token by token, [B, 1] to [B, 1,
	// hidden].
	Encode      func(ids, mask torch.Tensor) torch.Tensor
	ForwardPair func(ids, mask, decoderIDs torch.Tensor) torch.Tensor
	DecodePair  func(hidden, mask torch.Tensor, capacity int64) (next func(ids torch.Tensor) torch.Tensor, past *Past)
	// For a model that reads images or hears speech: EncodeSignal maps pixels, [B, channels, height,
	// width], or log-mel features, [B, bins, frames], to what the decoder attends to, and
	// ForwardSignalPair maps them and a text to the hidden states of the text. They take the places of
	// Encode and ForwardPair.
	EncodeSignal      func(signal torch.Tensor) torch.Tensor
	ForwardSignalPair func(signal, decoderIDs torch.Tensor) torch.Tensor

	// ForwardImages maps pixels, [B, channels, height, width], to what the head takes, [B, hidden].
	// InterpolatePosEncoding makes it take pictures of any size; nil: there are no positions. Both
	// belong to models of pictures and are nil in others; in models of pictures, Forward is nil.
	ForwardImages          func(pixels torch.Tensor) torch.Tensor
	InterpolatePosEncoding func(on bool) error
	// FeatureMaps maps pixels to the maps that a [MapsHead] takes; nil: the model has no such head.
	FeatureMaps func(pixels torch.Tensor) []torch.Tensor
	Dual        *Dual // nil unless it compares texts with images
	// ImageTexts is nil unless it is a decoder whose texts have images.
	ImageTexts *ImageTexts

	// ForwardQueries maps pixels and their mask, [B, height, width], which is 1 where there is image and
	// may be undefined, to the hidden states of the queries that find objects, [B, queries, hidden], and
	// to those of all layers if the loss includes the earlier ones, [layers, B, queries, hidden];
	// otherwise the second result is undefined. FreezeBackbone excludes the whole network that it begins
	// with from training, or only what usually is; nil: there is none. In models that find no objects
	// both are nil.
	ForwardQueries func(pixels, mask torch.Tensor) (last, all torch.Tensor)
	FreezeBackbone func(whole bool)

	// Hear maps the samples of sound, [B, samples], of which each row has its own number, to hidden
	// states; nil lengths mean that all are sound. In models of sound, Forward is nil; in others, Hear
	// is.
	Hear func(values torch.Tensor, lengths []int64) Heard
	// MaskGenerator is that of the masks that a model draws over sound in training (SpecAugment); nil:
	// it draws none.
	MaskGenerator *torch.Generator

	// InitWeights draws the weights of a head, and those drawn along with them; nil means
	// Blueprint.InitWeights.
	InitWeights func(head any)
	// DrawMissing draws the weights with the given names, which a file lacks; nil means
	// [InitWeights] of all.
	DrawMissing func(missing map[string]bool)

	// OutputEmbeddings is the output layer of a decoder that has it inside; nil: the head has it.
	OutputEmbeddings *nn.Linear
	InputEmbeddings  *nn.Embedding // of tokens; nil in a model of pictures
	// TiedEmbeddings are those that the output layer has the weight of; nil: InputEmbeddings.
	TiedEmbeddings           *nn.Embedding
	SetGradientCheckpointing func(on bool) // nil if not supported
	FuseQKVProjections       func(on bool) // nil if not supported
}

// Heard are the hidden states of sound.
type Heard struct {
	Hidden torch.Tensor // [B, frames, hidden]
	// Layers are the input of the first layer and the outputs of all, for heads that take them.
	Layers []torch.Tensor
	// Padding is true where there is no sound, [B, frames], and Counts are the frames of sound in each
	// row, [B, 1]; undefined: the lengths are not known.
	Padding, Counts torch.Tensor
}

// ImageTexts is a decoder of texts in which image tokens stand for images. Features may be undefined:
// the texts have no images.
type ImageTexts struct {
	// Features maps the pixels of images, [N, channels, height, width], to what takes the places of
	// their tokens, [N, tokens, hidden].
	Features func(pixels torch.Tensor) torch.Tensor
	// Forward is Backbone.Forward for texts with images.
	Forward func(ids, mask, features torch.Tensor) torch.Tensor
	// Decode is Backbone.Decode for texts with images.
	Decode func(ids, features torch.Tensor, past *Past) torch.Tensor
}

// Dual is an encoder of texts and one of images, whose vectors can be compared.
type Dual struct {
	// Texts maps token ids, [B, L], to vectors, [B, size]. The mask, [B, L], may be undefined.
	Texts func(ids, mask torch.Tensor) torch.Tensor
	// Images maps pixels, [B, channels, height, width], to vectors, [B, size].
	Images func(pixels torch.Tensor) torch.Tensor
	// Similarities compares the vectors of texts, [T, size], with those of images, [I, size]. The
	// softmax of the result, [T, I], over texts or images says which belongs to which, or, if Sigmoid
	// is set, the sigmoid of each number says whether the two belong together.
	Similarities func(texts, images torch.Tensor) torch.Tensor
	Sigmoid      bool
	// FullLength says that texts are padded to the largest number of tokens.
	FullLength bool
}
