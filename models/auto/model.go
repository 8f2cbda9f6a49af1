package auto

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/audio"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/llava"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/quantized"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/text/chat"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/vision"
)

// Model is an encoder or decoder with a head and its tokenizer, image processor or feature extractor.
type Model struct {
	nn.Mode

	// Tokenizer neither pads nor truncates. It is nil if the folder has none.
	Tokenizer *text.Tokenizer
	// ChatTemplate turns conversations into text. It is nil if the tokenizer's folder has none, and
	// is saved with the tokenizer. A template without special tokens gets those of the folder.
	ChatTemplate *chat.Template
	// ImageProcessor prepares images as preprocessor_config.json of the folder says. It is nil if
	// there is none, and in a model of texts. It is saved with the model.
	ImageProcessor *vision.Processor
	// LlavaProcessor says how many tokens an image becomes in a text, as processor_config.json of the
	// folder and the model's config say. It is nil in other models than LLaVA, and is saved with it.
	LlavaProcessor *llava.Processor
	// FeatureExtractor prepares speech as preprocessor_config.json of the folder says. It is nil if
	// there is none, and in other models. It is saved with the model.
	FeatureExtractor *audio.FeatureExtractor
	// WaveformExtractor prepares sound as preprocessor_config.json of the folder says, for a model that
	// takes it as it is. It is nil if there is none, and in other models. It is saved with the model.
	WaveformExtractor *audio.WaveformExtractor
	// CTCTokenizer is that of a model of CTC. It is nil if the folder has none, and in other models. It
	// is saved with the model.
	CTCTokenizer *text.CTCTokenizer
	// Report says what was missing in the files, what was there but not used, and what was drawn.
	// It is nil for a model with random weights.
	Report *pretrained.Report

	blueprint transformer.Blueprint
	backbone  transformer.Backbone
	head      head
	task      task
	dir       string        // the folder that it was loaded from
	source    string        // the folder or the name on the Hub that was asked for
	revision  string        // the revision on the Hub
	adapter   *lora.Adapter // may be nil

	architectures []string // of the config.json that it was loaded from

	quantization *quantized.Config // nil if the weights are not quantized

	tokenizerDir string          // the folder that its tokenizer was loaded from
	loaded       *text.Tokenizer // the tokenizer that was loaded; may be nil
	loadedCTC    *text.CTCTokenizer
	asLoaded     *text.Tokenizer // another tokenizer found to be equivalent to the loaded one, see Save

	tokenizerConfig tokenizerConfig // of the folder
	loadedTemplate  *chat.Template  // the template that was loaded
	specialTokens   map[string]string
	spaced          bool // unlike the folder's tokenizer, loaded adds a space before words

	processor vision.ProcessorConfig // from the folder; WriteConfig replaces the options by those of ImageProcessor

	languages        *languages // of an mBART; nil: those of its tokenizer
	speech           spoken     // of a model of speech
	adapterLanguages [2]string  // source and target, as the files of an adapter say; empty: they say nothing

	paddingFree bool
	dtypeSeen   torch.DType // see dtype
	padTokenID  *int64      // the last of SetPadTokenID; nil: that of config.json
}

var (
	_ inputs.PackedModel = (*Model)(nil)
	_ classify.Model     = (*Model)(nil)
	_ nn.ModuleLister    = (*Model)(nil)
	_ nn.TiedWeights     = (*Model)(nil)
	_ nn.FileForm        = (*Model)(nil)
	_ inputs.AuxModel    = (*Model)(nil)
)

// newModel builds encoder and head in the order of transformers' class.
func newModel(p transformer.Blueprint, t task, b transformer.Builder) *Model {
	m := &Model{blueprint: p, task: t}
	if m.headFirst() {
		m.head = t.newHead(p, b)
		m.backbone = p.Build(b, false)
	} else if m.backbone = p.Build(b, t.pooler); m.backbone.OutputEmbeddings != nil {
		m.head = &innerHead{m.backbone.OutputEmbeddings}
	} else {
		m.head = t.newHead(p, b)
	}
	if draw := m.backbone.InitWeights; !b.Undrawn && draw != nil {
		draw(m.head)
	} else if !b.Undrawn {
		p.InitWeights(m.head, nil)
	}
	if h, ok := m.head.(tiedHead); ok && !p.Untied {
		h.tie(m.tiedEmbeddings())
	}
	m.dtype() // sees it
	return m
}

// headFirst reports whether transformers' classes create the head before the encoder, as those of
// XLM-RoBERTa do. It determines the order of parameters and of random numbers.
func (m *Model) headFirst() bool { return m.blueprint.ModelType == "xlm-roberta" }

// OwnModules are the encoder and the modules of the head.
func (m *Model) OwnModules() []nn.Named {
	// Without a prefix, the encoder's modules are at the same level as those of the head.
	encoder := []nn.Named{{Name: m.prefix(), Module: m.backbone.Module}}
	if m.headFirst() {
		return append(nn.Children(m.head), encoder...)
	}
	modules := append(encoder, nn.Children(m.head)...)
	if h, ok := m.head.(*ownHead); ok {
		if r, ok := h.own.(transformer.RootParams); ok && r.RootParams() != nil {
			modules = append([]nn.Named{{Module: r.RootParams()}}, modules...) // before those of modules
		}
	}
	if h, ok := m.head.(*seq2seqHead); ok && h.bias != nil {
		modules = append(modules, nn.Named{Module: h.bias})
	}
	return modules
}

// prefix returns the name of the encoder among the modules, or the empty string if its modules are
// at the top level.
func (m *Model) prefix() string {
	if m.task.alone {
		return ""
	}
	return m.blueprint.Prefix
}

// tiedEmbeddings is the token embedding that the output layer has the weight of.
func (m *Model) tiedEmbeddings() *nn.Embedding {
	return cmp.Or(m.backbone.TiedEmbeddings, m.backbone.InputEmbeddings)
}

// TiedWeights are the other names of the token embedding that the output layer shares, besides its
// first one in the encoder or decoder.
func (m *Model) TiedWeights() (names []string) {
	tied := m.tiedEmbeddings()
	if tied == nil {
		return nil
	}
	embedding := func(t torch.Named) bool { return t.Tensor.Is(tied.Weight) }
	inBackbone := nn.StateDict(m.backbone.Module)
	own := inBackbone[slices.IndexFunc(inBackbone, embedding)].Name
	if p := m.prefix(); p != "" {
		own = p + "." + own
	}
	for _, t := range nn.StateDict(m) {
		if embedding(t) && t.Name != own {
			names = append(names, t.Name)
		}
	}
	return names
}

// IsDecoder reports whether the model is a decoder alone, such as Qwen3.
func (m *Model) IsDecoder() bool { return m.blueprint.LanguageModel != "" && !m.blueprint.Pair }

// PadToken is the token that the files of the tokenizer name for padding, or the empty string if
// they name none or there are none: pad_token.
func (m *Model) PadToken() string { return m.tokenizerConfig.special["pad_token"] }

// InFiles returns what files have in the place of the model's tensors, which differ in mixtures of
// experts: nn.FileForm.
func (m *Model) InFiles(state []torch.Named) []torch.Named {
	if m.blueprint.InFiles == nil {
		return state
	}
	return m.blueprint.InFiles(state)
}

// Architecture is the name of transformers' class, such as BertForTokenClassification.
func (m *Model) Architecture() string {
	if m.task.decoder {
		return m.blueprint.LanguageModel
	}
	return m.blueprint.Class + m.task.class
}

// Forward maps token ids, [B, L], to logits:
//
//   - [B, labels] for texts;
//   - [B, L, labels] for tokens;
//   - [B, L, 2] for the starts and ends of answers;
//   - [B, L, vocabulary] for masked and next words.
//
// The attention mask, [B, L], has 0 for padding; undefined means that there is none. Token types,
// [B, L], tell a second text from the first; undefined means 0. An [EncoderModel] returns hidden
// states, [B, L, hidden]. A text-to-text model has [Seq2SeqLanguageModel.ForwardPair] instead, an
// image model [ImageClassifier.Forward], [SemanticSegmenter.Forward], [ObjectDetector.Predictions]
// or [ImageToTextModel.ForwardPair], a model of texts with images
// [ImageTextToTextModel.ForwardImages], a model of speech [SpeechToTextModel.ForwardPair], a model of
// sound [CTCModel.Forward] or [AudioClassifier.Forward], and a model that compares texts with
// images the methods of [ZeroShotImageClassifier].
func (m *Model) Forward(ids, mask, types torch.Tensor) torch.Tensor {
	if m.backbone.Dual != nil {
		panic(torch.Errorf("auto.Model.Forward", torch.ErrNotSupported, "%s takes texts and images: TextFeatures, "+
			"ImageFeatures and Similarities of ZeroShotImageClassifier", m.Architecture()))
	}
	if m.backbone.ImageTexts != nil {
		panic(torch.Errorf("auto.Model.Forward", torch.ErrNotSupported, "%s takes texts with images: "+
			"ImageTextToTextModel.ForwardImages", m.Architecture()))
	}
	if m.task.images {
		panic(torch.Errorf("auto.Model.Forward", torch.ErrNotSupported,
			"%s takes pictures: ImageClassifier.Forward, SemanticSegmenter.Forward, ObjectDetector.Predictions or "+
				"ImageToTextModel.ForwardPair",
			m.Architecture()))
	}
	if m.task.speech {
		panic(torch.Errorf("auto.Model.Forward", torch.ErrNotSupported, "%s takes speech: SpeechToTextModel.ForwardPair",
			m.Architecture()))
	}
	if m.task.sound {
		panic(torch.Errorf("auto.Model.Forward", torch.ErrNotSupported,
			"%s takes sound: CTCModel.Forward, or AudioClassifier.Forward", m.Architecture()))
	}
	if m.backbone.Forward == nil || m.task.class == seq2seqLM.class {
		panic(torch.Errorf("auto.Model.Forward", torch.ErrNotSupported, "%s takes two texts: ForwardPair", m.Architecture()))
	}
	return torch.Return(func() torch.Tensor {
		hidden := m.backbone.Forward(ids, mask, types)
		if m.task.ofTexts && m.backbone.Text != nil {
			hidden = m.backbone.Text(hidden, mask)
		}
		logits := m.head.forward(m.backbone, hidden)
		if h, ok := m.head.(*scoreHead); ok {
			return h.last(logits, ids)
		}
		return logits
	})
}

// HasAuxLoss reports whether the loss of the model as a language model has a part that does not
// depend on labels: the load-balancing loss of a mixture of experts, with output_router_logits.
func (m *Model) HasAuxLoss() bool {
	return m.backbone.ForwardAux != nil && m.task.class == causalLM.class
}

// ForwardAux is [Model.Forward] that also returns that part of the loss, a scalar; undefined: the
// model has none.
func (m *Model) ForwardAux(ids, mask, types torch.Tensor) (logits, aux torch.Tensor) {
	if !m.HasAuxLoss() {
		return m.Forward(ids, mask, types), torch.Tensor{}
	}
	out := torch.ReturnAll(func() []torch.Tensor {
		hidden, aux := m.backbone.ForwardAux(ids, mask)
		return []torch.Tensor{m.head.forward(m.backbone, hidden), aux}
	})
	return out[0], out[1]
}

// SetPaddingFree makes the tasks that train the model leave out the padding of batches:
// [transformer.Encoder.SetPaddingFree]; in a language model, rows may then join several texts
// ([causallm.Pack]). In the place of padding, logits are 0, and for the starts and ends of answers
// -10000, and training ignores them. So, unlike with padding, no answer can be there, and the loss
// is that of each text by itself. MPNet and DeBERTa return an error, since their relative positions
// need rows of one width; so do the text-to-text models, and a mixture of experts whose routers are
// balanced by the loss.
func (m *Model) SetPaddingFree(on bool) error {
	switch {
	case on && m.backbone.ForwardPacked == nil:
		return fmt.Errorf("auto: %s cannot leave padding out (SetPaddingFree); BERT, RoBERTa, XLM-RoBERTa, DistilBERT, "+
			"ELECTRA, ModernBERT, GPT-2 and the models of package llama can", m.blueprint.Class)
	case on && m.HasAuxLoss():
		return errors.New("auto: output_router_logits is true, and the loss that balances the experts is computed of " +
			"padded batches; leave SetPaddingFree out, or set output_router_logits to false")
	}
	m.paddingFree = on
	return nil
}

// PaddingFree reports whether padding is left out: the last value given to [Model.SetPaddingFree].
func (m *Model) PaddingFree() bool { return m.paddingFree }

// ForwardPacked is [Model.Forward] of a packed batch.
func (m *Model) ForwardPacked(p *inputs.Packed) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		hidden := m.backbone.ForwardPacked(p)
		_, isScore := m.head.(*scoreHead)
		switch {
		case m.task.ofTexts && m.backbone.Text != nil:
			mask := p.Pad(hidden.Narrow(1, 0, 1).FullLike(1), 0).SqueezeDim(-1)
			return m.head.forward(m.backbone, m.backbone.Text(p.Pad(hidden, 0), mask))
		case isScore:
			return p.Last(m.head.forward(m.backbone, hidden))
		case m.task.ofTexts:
			return m.head.forward(m.backbone, p.First(hidden))
		}
		return p.Pad(m.head.forward(m.backbone, hidden), m.task.padding)
	})
}

// FuseQKVProjections makes each layer compute query, key and value as one matrix product, which
// changes the last bits: [transformer.Encoder.FuseQKVProjections]. MPNet, DeBERTa and ModernBERT
// return an error.
func (m *Model) FuseQKVProjections(on bool) error {
	if m.backbone.FuseQKVProjections == nil {
		return fmt.Errorf("auto: the layers of %s have no fused query, key and value (FuseQKVProjections); those of "+
			"BERT, RoBERTa, XLM-RoBERTa, DistilBERT, ELECTRA, ViT, DeiT, DINOv2, Swin, CLIP and SigLIP have, and "+
			"ModernBERT's are one layer",
			m.blueprint.Class)
	}
	if on && m.quantization != nil {
		return errors.New("auto: quantized weights cannot be fused (FuseQKVProjections)")
	}
	m.backbone.FuseQKVProjections(on)
	return nil
}

// Head says what the logits of a classifier mean.
func (m *Model) Head() classify.Head { return m.blueprint.Head }

// Limits says which inputs the model takes.
func (m *Model) Limits() inputs.Limits { return m.blueprint.Limits }

// InputEmbeddings is the token embedding, or nil in an image model: get_input_embeddings.
func (m *Model) InputEmbeddings() *nn.Embedding { return m.backbone.InputEmbeddings }

// OutputEmbeddings is the layer that gives each word of the vocabulary a logit, or nil if there is
// none: get_output_embeddings.
func (m *Model) OutputEmbeddings() *nn.Linear {
	if h, ok := m.head.(tiedHead); ok {
		return h.output()
	}
	return nil
}

// SetGradientCheckpointing makes training keep only the input of each layer and recompute the rest
// in the backward pass: gradient_checkpointing_enable of transformers. A ResNet cannot do it, since
// it would update its running statistics twice: SetGradientCheckpointing panics with
// [*torch.Error], and engine.New returns an error.
func (m *Model) SetGradientCheckpointing(on bool) {
	switch {
	case m.backbone.SetGradientCheckpointing != nil:
		m.backbone.SetGradientCheckpointing(on)
	case on:
		panic(torch.Errorf("auto.Model.SetGradientCheckpointing", torch.ErrNotSupported,
			"%s would update its running statistics twice", m.Architecture()))
	}
}
