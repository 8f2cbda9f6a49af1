package transformer

import (
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Blueprint is an encoder or decoder that is not built yet: what its heads must know of it, and how
// to build it. Each package of one makes it of a config.json.
type Blueprint struct {
	ModelType string // model_type: bert
	Class     string // what transformers' classes begin with: Bert
	Prefix    string // base_model_prefix, its name in a model with a head: bert

	HiddenSize    int64
	EmbeddingSize int64 // of the token embedding; HiddenSize but for ELECTRA

	Activation        Activation // hidden_act
	LayerNormEps      float64
	InitializerRange  float64
	Dropout           float64 // of hidden states
	ClassifierDropout float64 // in front of a classifier of texts
	AnswerDropout     float64 // in front of the layer that finds answers: DistilBERT alone has one

	Head   classify.Head // what the logits of a classifier mean
	Limits inputs.Limits
	Images classify.ImageLimits // of a model of pictures

	LanguageModel string // of a decoder: transformers' class with a head, GPT2LMHeadModel
	// Pair says that it is an encoder with a decoder, of which the second text begins with
	// DecoderStartTokenID, and has its hidden states multiplied by OutputScale for the output layer.
	Pair                bool
	DecoderStartTokenID int64
	OutputScale         float64
	Logits              Logits                   // of a decoder: what they pass through
	EOSTokenIDs         []int64                  // of a decoder: they end a text
	Untied              bool                     // the output layer of a language model has a weight of its own
	NoWeights           []string                 // endings of tensors' names in older files that are no weights
	Rename              func(name string) string // turns other names in files into its own; nil: there are none
	NoFloat16           bool                     // its hidden states are too large for float16

	// Heads are heads that are like no other model's, by what transformers' classes end with, such as
	// ForMaskedLM. Package auto has the others.
	Heads map[string]func(b Builder) Head

	// Document is config.json for transformers' class of that name.
	Document func(architecture string) (pretrained.Document, error)
	// Build makes the encoder, with a pooler if it has one and the head uses it.
	Build func(b Builder, pooler bool) Backbone
}

// Backbone is an encoder or decoder that heads are put on.
type Backbone struct {
	Module any // the model itself, as package nn finds its parameters

	// Forward maps token ids, [B, L], to hidden states, [B, L, hidden]. Mask and types, [B, L], may
	// be undefined.
	Forward func(ids, mask, types torch.Tensor) torch.Tensor
	// Pool is what the pooler makes of hidden states, [B, hidden]; nil: there is none.
	Pool func(hidden torch.Tensor) torch.Tensor

	// Text is what stands for a text in front of a classifier, of hidden states and their mask, [B, 1,
	// hidden]; nil: its first token, or what the pooler makes of it.
	Text func(hidden, mask torch.Tensor) torch.Tensor

	// ForwardPacked maps a packed batch to the hidden states of its tokens, [T, hidden]; nil: the
	// encoder needs padding.
	ForwardPacked func(p *inputs.Packed) torch.Tensor

	// Decode maps the next tokens of texts, [B, L], to their hidden states, [B, L, hidden], and adds
	// them to the past. L is 1 unless the past is empty. Nil, as NewPast then is: an encoder.
	Decode func(ids torch.Tensor, past *Past) torch.Tensor
	// NewPast makes room for so many tokens of each of so many texts.
	NewPast func(texts, capacity int64) *Past
	// Rereads is at how many tokens a text that grows is seen anew from its beginning, after
	// [Past.Forget]; 0: never.
	Rereads int64

	// Of an encoder with a decoder, nil in others: Encode maps a text to what the decoder attends to, [B,
	// L, hidden], ForwardPair two texts to the hidden states of the second, [B, T, hidden], and
	// DecodePair begins texts that are written token by token, [B, 1] to [B, 1, hidden].
	Encode      func(ids, mask torch.Tensor) torch.Tensor
	ForwardPair func(ids, mask, decoderIDs torch.Tensor) torch.Tensor
	DecodePair  func(hidden, mask torch.Tensor, capacity int64) (next func(ids torch.Tensor) torch.Tensor, past *Past)
	// Of a model of pictures, nil in others, as Forward is in it: ForwardImages maps pixels, [B, channels,
	// height, width], to hidden states, [B, L, hidden], of which the first stand for the pictures.
	// InterpolatePosEncoding makes it take pictures of any size.
	ForwardImages          func(pixels torch.Tensor) torch.Tensor
	InterpolatePosEncoding func(on bool) error

	// InitWeights draws the weights of a head, and what is drawn beside them; nil: [InitWeights].
	InitWeights func(head any)

	InputEmbeddings          *nn.Embedding // of tokens; nil in a model of pictures
	SetGradientCheckpointing func(on bool)
	FuseQKVProjections       func(on bool) // nil: they cannot be
}
