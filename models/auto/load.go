package auto

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/audio"
	"github.com/gotrainer/gotrainer/models/bart"
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/clip"
	"github.com/gotrainer/gotrainer/models/convnext"
	"github.com/gotrainer/gotrainer/models/deberta"
	"github.com/gotrainer/gotrainer/models/detr"
	"github.com/gotrainer/gotrainer/models/dinov2"
	"github.com/gotrainer/gotrainer/models/distilbert"
	"github.com/gotrainer/gotrainer/models/electra"
	"github.com/gotrainer/gotrainer/models/gpt2"
	"github.com/gotrainer/gotrainer/models/llama"
	"github.com/gotrainer/gotrainer/models/llava"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/models/marian"
	"github.com/gotrainer/gotrainer/models/modernbert"
	"github.com/gotrainer/gotrainer/models/mpnet"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/resnet"
	"github.com/gotrainer/gotrainer/models/roberta"
	"github.com/gotrainer/gotrainer/models/segformer"
	"github.com/gotrainer/gotrainer/models/siglip"
	"github.com/gotrainer/gotrainer/models/swin"
	"github.com/gotrainer/gotrainer/models/t5"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/models/trocr"
	"github.com/gotrainer/gotrainer/models/vit"
	"github.com/gotrainer/gotrainer/models/wav2vec2"
	"github.com/gotrainer/gotrainer/models/whisper"
	"github.com/gotrainer/gotrainer/models/yolos"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/quantized"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/text/chat"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/vision"
)

// Options configures how a model is loaded. The zero value is transformers' from_pretrained.
type Options struct {
	Revision string // branch, tag or commit of a model on the Hub; zero: main

	// ID2Label has the texts of the classes; nil: those of config.json. ProblemType is for
	// classifiers of texts or images. If the number of classes differs from that of the files,
	// InitMismatched must be set.
	ID2Label    []string
	ProblemType classify.ProblemType

	Attention transformer.Attention // zero: sdpa, or eager for MPNet, DeBERTa and Gemma 2

	// DType is the type of the weights, in which the model computes: Float32 (the default),
	// BFloat16, Float16 or Float64. KeepDType takes the type of the files instead, as transformers
	// 5 does by default (dtype="auto"). Small updates vanish in weights of 16 bits. Use these for
	// generation, for adapters ([Model.AddLoRA]), whose own weights stay in float32, and with
	// optimizers made for them. To train faster in 16 bits, use autocast
	// (engine.Options.Precision).
	DType     torch.DType
	KeepDType bool

	// Quantize keeps the weights of all linear layers except the head's in four bits, a quarter of
	// the memory of BFloat16: load_in_4bit. Each weight is packed as soon as it is read. The model
	// is frozen, and an adapter is trained ([Model.AddLoRA]): QLoRA. Folders whose weights are
	// already packed are loaded without it.
	Quantize *quantized.Config

	InitMismatched bool // draw weights whose shape differs, such as a head for other classes: ignore_mismatched_sizes
	InitMissing    bool // draw missing weights of the encoder too
	// FromConfig draws all weights: from_config. The folder needs only config.json, and no weights
	// are fetched from the Hub. The model is in training mode, like any new one.
	FromConfig bool

	// CTCTokenizer takes the place of the tokenizer of a model of CTC, which then has as many letters:
	// vocab_size and pad_token_id. InitMismatched draws the layer for them if that of the files is for
	// others.
	CTCTokenizer *text.CTCTokenizer

	// BaseModel is the model that an adapter is for, a folder or a name on the Hub. Empty: the one
	// that its adapter_config.json names.
	BaseModel string

	// Warnings receives a table of the weights that were missing, drawn or not used. Nil: standard
	// error; io.Discard: nowhere. [Model].Report has the same.
	Warnings io.Writer
}

// task describes what a head is for.
type task struct {
	class      string // suffix of transformers' class names
	peft       string // peft's task_type; empty if there is none
	head       func(p transformer.Blueprint, b transformer.Builder) head
	pooler     bool
	withPooler bool    // the head sees the pooler's output in all models that have one
	decoder    bool    // the model attends only to earlier tokens
	images     bool    // for images
	speech     bool    // for features of speech
	sound      bool    // for sound as it is
	texts      bool    // for texts as well as images
	ofTexts    bool    // the head sees the first token of each text, or the pooler's output for it
	padding    float64 // otherwise, the logits for padding in a batch that was packed
	alone      bool    // there is no head, and names have no prefix
	labels     int64   // how many there are to be; zero: as many as the options or config.json say
	cross      bool    // of a cross encoder, which has one label unless config.json is a classifier's
}

var (
	sequenceClassification = task{class: "ForSequenceClassification", peft: "SEQ_CLS", head: sequenceHead, pooler: true,
		ofTexts: true}
	multipleChoice = task{class: "ForMultipleChoice", head: newChoiceHead, pooler: true, withPooler: true,
		ofTexts: true}
	tokenClassification = task{class: "ForTokenClassification", peft: "TOKEN_CLS", head: newTokenHead}
	questionAnswering   = task{class: "ForQuestionAnswering", peft: "QUESTION_ANS", head: newAnswerHead,
		padding: -10000}
	imageClassification = task{class: "ForImageClassification", head: newImageHead, images: true}
	// semanticSegmentation classifies each pixel, by the feature maps of the image.
	semanticSegmentation = task{class: "ForSemanticSegmentation", head: newMapsHead, images: true}
	objectDetection      = task{class: "ForObjectDetection", images: true}

	zeroShotImages = task{class: "Model", head: newNoHead, alone: true, images: true, texts: true}

	maskedLM  = task{class: "ForMaskedLM", head: newMaskedHead}
	causalLM  = task{class: "ForCausalLM", peft: "CAUSAL_LM", head: newCausalHead, decoder: true}
	seq2seqLM = task{class: "ForConditionalGeneration", peft: "SEQ_2_SEQ_LM", head: newSeq2SeqHead, decoder: true}

	ctcLetters          = task{class: "ForCTC", sound: true}
	audioClassification = task{class: "ForSequenceClassification", sound: true}

	imageToText = task{class: "ForImageTextToText", decoder: true, images: true}
	// imageTextToText writes texts about images and texts.
	imageTextToText = task{class: "ForImageTextToText", peft: "CAUSAL_LM", decoder: true, images: true, texts: true}
	speechToText    = task{class: "ForSpeechSeq2Seq", decoder: true, speech: true}

	encoderAlone = task{class: "Model", peft: "FEATURE_EXTRACTION", head: newNoHead, pooler: true, alone: true}
)

// blueprints are models by their model_type.
type blueprints map[string]blueprint

// blueprint makes the blueprint of a model from a config.json.
type blueprint = func(pretrained.Document, classify.Head, transformer.Attention) (transformer.Blueprint, error)

var (
	encoders = blueprints{
		"bert": bert.Blueprint, "roberta": roberta.Blueprint, "xlm-roberta": roberta.Blueprint,
		"distilbert": distilbert.Blueprint, "electra": electra.Blueprint, "mpnet": mpnet.Blueprint,
		"modernbert": modernbert.Blueprint, "deberta-v2": deberta.Blueprint,
	}
	decoders = blueprints{
		"gpt2": gpt2.Blueprint, "llama": llama.Blueprint, "mistral": llama.Blueprint, "qwen2": llama.Blueprint,
		"qwen3": llama.Blueprint, "phi3": llama.Blueprint, "gemma": llama.Blueprint, "gemma2": llama.Blueprint,
		"gemma3_text": llama.Blueprint, "smollm3": llama.Blueprint, "olmo2": llama.Blueprint, "granite": llama.Blueprint,
		"mixtral": llama.Blueprint, "qwen2_moe": llama.Blueprint, "qwen3_moe": llama.Blueprint,
	}
	// readersOfTexts are encoders and decoders without a head.
	readersOfTexts = func() blueprints {
		all := maps.Clone(encoders)
		maps.Copy(all, decoders)
		return all
	}()
	// classifiers classify texts. transformers has no GraniteForSequenceClassification.
	classifiers = func() blueprints {
		all := maps.Clone(readersOfTexts)
		all["bart"], all["mbart"] = bart.Blueprint, bart.Blueprint
		delete(all, "granite")
		return all
	}()
	pairs = blueprints{ // an encoder and a decoder
		"t5": t5.Blueprint, "mt5": t5.Blueprint, "bart": bart.Blueprint, "mbart": bart.Blueprint,
		"marian": marian.Blueprint,
	}
	readers    = blueprints{"vision-encoder-decoder": trocr.Blueprint} // of text in pictures
	observers  = blueprints{"llava": llava.Blueprint}                  // of pictures in texts
	listeners  = blueprints{"whisper": whisper.Blueprint}              // to speech
	hearers    = blueprints{"wav2vec2": wav2vec2.Blueprint, "hubert": wav2vec2.Blueprint}
	ofPictures = blueprints{
		"vit": vit.Blueprint, "deit": vit.Blueprint, "resnet": resnet.Blueprint, "convnext": convnext.Blueprint,
		"convnextv2": convnext.Blueprint, "clip": clip.Blueprint, "dinov2": dinov2.Blueprint,
		"dinov2_with_registers": dinov2.Blueprint, "segformer": segformer.Blueprint,
		"swin": swin.Blueprint, "siglip": siglip.Blueprint,
	}
	segmenters = blueprints{"segformer": segformer.Blueprint}                 // of pictures
	detectors  = blueprints{"detr": detr.Blueprint, "yolos": yolos.Blueprint} // of objects in pictures
	// duals are an encoder of texts and one of images.
	duals = blueprints{"clip": clip.Blueprint, "siglip": siglip.Blueprint}
)

// load reads a model, or a model with an adapter, from a folder, or from the Hub if there is no
// such folder.
func load(ctx context.Context, model string, t task, o Options) (*Model, error) {
	dir, err := find(ctx, model, o.Revision, !o.FromConfig)
	if err != nil {
		return nil, err
	}
	c, err := lora.ReadConfig(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		m, err := loadFolder(dir, t, o)
		if err != nil {
			return nil, err
		}
		m.source, m.revision = model, o.Revision
		m.warn(o.warnings())
		return m, m.loadPreparation(o.warnings(), dir)
	case err != nil:
		return nil, fmt.Errorf("auto: %w", err)
	}
	return loadAdapted(ctx, dir, c, t, o)
}

// loadFolder reads a model without its tokenizer.
func loadFolder(dir string, t task, o Options) (*Model, error) {
	var packed *quantized.Config // how the weights in the files are quantized
	named := ""                  // the name of their dtype
	var architectures []string
	p, err := pretrained.ReadConfigAs(dir, "auto", func(d pretrained.Document) (p transformer.Blueprint, err error) {
		if packed, err = takeQuantization(d); err != nil {
			return p, err
		}
		if o.KeepDType {
			if named, err = namedDType(d); err != nil {
				return p, err
			}
		}
		if architectures, err = architecturesOf(d); err != nil {
			return p, err
		}
		return blueprintOf(d, t, o)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("auto: %s holds no model; want %s beside the weights: %w", dir, pretrained.ConfigName,
			err)
	}
	if err != nil {
		return nil, err
	}
	dtype, err := o.dtype(dir, named, p)
	if err != nil {
		return nil, fmt.Errorf("auto: %s: %w", dir, err)
	}
	if packed != nil && (t.images || t.speech || t.sound) {
		return nil, fmt.Errorf("auto: the weights in %s are quantized; those of a model of images or sound must not be", dir)
	}
	if packed != nil && (o.Quantize != nil || o.FromConfig) {
		return nil, fmt.Errorf("auto: the weights in %s are quantized; leave Options.Quantize and FromConfig out", dir)
	}
	m, err := build(dir, p, t, o, dtype, packed)
	if err != nil {
		return nil, err
	}
	m.dir, m.architectures = dir, architectures
	return m, nil
}

// architecturesOf returns the classes that a config.json names.
func architecturesOf(d pretrained.Document) (names []string, err error) {
	return names, maps.Clone(d).Decode([]pretrained.Field{{Key: "architectures", Value: &names}})
}

// warnings returns where warnings are written.
func (o Options) warnings() io.Writer { return cmp.Or[io.Writer](o.Warnings, os.Stderr) }

func blueprintOf(d pretrained.Document, t task, o Options) (p transformer.Blueprint, err error) {
	known := t.known()
	if _, err := known.of(d); err != nil {
		return p, err
	}
	h := classify.Head{NumLabels: t.labels, ID2Label: o.ID2Label, ProblemType: o.ProblemType}
	if t.cross {
		if h.NumLabels, err = crossLabels(d, o); err != nil {
			return p, err
		}
	}
	switch t.class {
	case maskedLM.class:
		if err := d.Demand("tie_word_embeddings", "true"); err != nil {
			return p, err
		}
	case multipleChoice.class: // what ELECTRA's head computes
		for key, only := range map[string]string{"summary_type": `"first"`, "summary_use_proj": "true",
			"summary_activation": `"gelu"`} {
			if err := d.Demand(key, only); err != nil {
				return p, err
			}
		}
		h.ProblemType = ""
	case questionAnswering.class:
		h = classify.Head{NumLabels: 2}
	case tokenClassification.class, semanticSegmentation.class, objectDetection.class:
		h.ProblemType = "" // the setting is for classifiers of texts
	}
	if tok := o.CTCTokenizer; tok != nil {
		if d, err = withLetters(d, t, tok); err != nil {
			return p, err
		}
	}
	p, err = plan(d, known, h, o.Attention)
	if err == nil && t.decoder {
		err = writes(p)
	}
	if err == nil && t.ofTexts && p.LanguageModel != "" {
		p, err = labelled(p, d, h)
	}
	if err == nil && t.class == tokenClassification.class && p.Head.NumLabels < 2 {
		err = fmt.Errorf("there is one label; token classification needs at least two")
	}
	classifies := t.images && t.class != semanticSegmentation.class || t.sound ||
		t.ofTexts && t.class != multipleChoice.class
	if given := string(d["problem_type"]); !classifies && (given == "" || given == "null") {
		p.Document = withoutProblemType(p.Document)
	}
	return p, err
}

// writes returns an error for a decoder that cannot write texts.
func writes(p transformer.Blueprint) error {
	if p.Bidirectional {
		return fmt.Errorf("the tokens of this %s attend to later ones (is_causal false, or use_bidirectional_attention "+
			"true), so it cannot write texts; it is an encoder for package sentence (auto.Encoder)", p.ModelType)
	}
	return nil
}

// known returns the models that there are for a task.
func (t task) known() blueprints {
	switch {
	case t.sound:
		return hearers
	case t.class == sequenceClassification.class:
		return classifiers
	case t.class == seq2seqLM.class:
		return pairs
	case t.images && t.texts && t.decoder:
		return observers
	case t.class == imageToText.class:
		return readers
	case t.speech:
		return listeners
	case t.decoder:
		return decoders
	case t.images && t.texts:
		return duals
	case t.class == semanticSegmentation.class:
		return segmenters
	case t.class == objectDetection.class:
		return detectors
	case t.images:
		return ofPictures
	case t.alone:
		return readersOfTexts
	}
	return encoders
}

// withoutProblemType leaves out of a config.json what only classifiers of texts, images or sound
// have.
func withoutProblemType(document func(architecture string) (pretrained.Document, error)) func(string) (
	pretrained.Document, error) {
	return func(architecture string) (pretrained.Document, error) {
		d, err := document(architecture)
		delete(d, "problem_type")
		return d, err
	}
}

// of returns what makes the blueprint of the model that a config.json describes, if it is one of
// those that are known.
func (known blueprints) of(d pretrained.Document) (blueprint, error) {
	var kind string
	if err := maps.Clone(d).Decode([]pretrained.Field{{Key: "model_type", Value: &kind}}); err != nil {
		return nil, err
	}
	b, ok := known[kind]
	if !ok {
		return nil, fmt.Errorf("model_type is %q; want one of %q", kind, slices.Sorted(maps.Keys(known)))
	}
	return b, nil
}

// plan returns the blueprint of the model that a config.json describes, if it is one of the known
// ones.
func plan(d pretrained.Document, known blueprints, h classify.Head, a transformer.Attention) (p transformer.Blueprint,
	err error) {
	b, err := known.of(d)
	if err != nil {
		return p, err
	}
	if err := demandSizes(d); err != nil {
		return p, err
	}
	return b(d, h, a)
}

// build creates the model and loads its weights.
func build(dir string, p transformer.Blueprint, t task, o Options, dtype torch.DType, packed *quantized.Config) (
	m *Model, err error) {
	if o.FromConfig {
		if err := torch.Try(func() {
			m = newModel(p, t, transformer.Builder{DType: dtype, Alone: t.alone, WithPooler: t.withPooler})
		}); err != nil {
			return nil, fmt.Errorf("auto: %s: %w", dir, err)
		}
		m.quantization = o.Quantize
		return m, m.quantizeRest()
	}
	prefix := ""
	if p.Prefix != "" {
		prefix = p.Prefix + "."
	}
	// The files decide whether the output layer has its own weight, whatever config.json says.
	if p.Pair {
		names := p.TiedWeights
		if names[0] == "" {
			names = [2]string{prefix + "shared.weight", "lm_head.weight"}
		}
		differ, err := pretrained.Differ(dir, names[0], names[1])
		if err != nil {
			return nil, fmt.Errorf("auto: %w", err)
		}
		p.Untied = p.Untied || differ
	}
	fresh := func(name string) bool {
		return prefix != "" && (!strings.HasPrefix(name, prefix) || strings.HasPrefix(name, prefix+"pooler."))
	}
	if len(p.Drawn) > 0 {
		head := fresh
		fresh = func(name string) bool {
			return head(name) || slices.Contains(p.Drawn, strings.TrimPrefix(name, prefix))
		}
	}
	if p.Images.Channels > 0 && p.Pair { // the pooler of its encoder computes nothing
		fresh = func(name string) bool { return strings.HasPrefix(name, "encoder.pooler.") }
	}
	if t.alone {
		fresh = func(name string) bool { return strings.HasPrefix(name, "pooler.") }
	}
	m, report, err := pretrained.LoadFolder(dir, func() *Model {
		return newModel(p, t, transformer.Builder{Undrawn: true, DType: dtype, Alone: t.alone, WithPooler: t.withPooler})
	},
		func(m *Model) pretrained.LoadOptions {
			options := pretrained.LoadOptions{
				Prefix: prefix, Rename: p.Rename, InitMissing: o.InitMissing, InitMismatched: o.InitMismatched,
				Fresh: fresh, Init: m.drawMissing,
			}
			if m.quantization = o.Quantize; m.quantization != nil {
				options.Prepare, options.Take = m.forgetNumbers, m.takeNumbers()
			} else if m.quantization = packed; packed != nil {
				options.Prepare = m.prepareQuantized
			}
			return options
		})
	switch {
	case err != nil:
	case packed != nil:
		err = nn.Freeze(m)
	default:
		err = m.quantizeRest()
	}
	if err != nil {
		return nil, fmt.Errorf("auto: %w", err)
	}
	m.Report = report
	return m, nil
}

// warn reports which weights do not come from the files. Position ids, which older files contain
// and which are simply 0, 1, 2, ..., and the triangle of a causal mask are not weights.
func (m *Model) warn(w io.Writer) {
	if m.Report == nil {
		return
	}
	r := *m.Report
	r.Renamed = nil
	r.Unexpected = slices.DeleteFunc(slices.Clone(r.Unexpected), func(t nn.TensorInfo) bool {
		return strings.HasSuffix(t.Name, "position_ids") || slices.ContainsFunc(m.blueprint.NoWeights,
			func(ending string) bool { return strings.HasSuffix(t.Name, ending) }) ||
			m.task.alone && behindEncoder.MatchString(t.Name)
	})
	if len(r.Missing)+len(r.Unexpected)+len(r.Mismatched) == 0 {
		return
	}
	fmt.Fprintf(w, "auto: %s as %s: %s", m.dir, m.Architecture(), r.String())
}

// behindEncoder matches weights of package sentence's checkpoints that do not belong to the
// encoder. Its other modules have numbers as names, and it reads them from their own folders.
var behindEncoder = regexp.MustCompile(`^\d+\.`)

// tokenizerFiles are the files that transformers' tokenizers read.
var tokenizerFiles = []string{tokenizerName, tokenizerConfigName, specialTokensName, "added_tokens.json",
	"vocab.txt", "vocab.json", "merges.txt", "sentencepiece.bpe.model", "spiece.model", "spm.model", "tokenizer.model",
	"source.spm", "target.spm", "target_vocab.json", chat.FileName,
	chat.OlderFileName}

// loadPreparation loads what prepares the inputs: the tokenizer, the image processor or the feature
// extractor. Each is taken from the first of some folders that has it.
func (m *Model) loadPreparation(w io.Writer, dirs ...string) error {
	if m.task.speech {
		if err := m.loadFeatureExtractor(firstWith(dirs, processorName, audio.ConfigName), w); err != nil {
			return err
		}
	}
	if m.task.sound {
		if err := m.loadWaveformExtractor(firstWith(dirs, processorName, audio.ConfigName), w); err != nil {
			return err
		}
	}
	if m.task.class == ctcLetters.class {
		return m.loadCTCTokenizer(firstWith(dirs, tokenizerFiles...), w)
	}
	if m.task.images {
		if err := m.loadImageProcessor(firstWith(dirs, processorName, vision.ProcessorConfigName), w); err != nil {
			return err
		}
	}
	if m.blueprint.ImageTokens.PerImage > 0 {
		if err := m.loadLlavaProcessor(firstWith(dirs, processorName)); err != nil {
			return err
		}
	}
	if m.task.hasTexts() {
		return m.loadTokenizer(firstWith(dirs, tokenizerFiles...), w)
	}
	return nil
}

// firstWith returns the first of some folders that has one of the files, or the last folder if none
// has.
func firstWith(dirs []string, files ...string) string {
	for _, dir := range dirs {
		for _, name := range files {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				return dir
			}
		}
	}
	return dirs[len(dirs)-1]
}

// hasTexts reports whether the model reads or writes texts.
func (t task) hasTexts() bool { return !t.images && !t.sound || t.texts || t.decoder }

func (m *Model) loadTokenizer(dir string, w io.Writer) error {
	m.tokenizerDir = dir
	t, err := text.LoadTokenizer(dir)
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(w, "auto: %s has no tokenizer: the model takes token ids, but no texts\n", dir)
		return nil
	}
	if err == nil {
		t, err = t.WithPadding(nil)
	}
	if err == nil {
		t, err = t.WithTruncation(nil)
	}
	if err == nil {
		m.tokenizerConfig, err = readTokenizerConfig(dir)
	}
	if err == nil && m.tokenizerConfig.lowercases {
		t, err = lowercased(t)
	}
	if err == nil {
		err = m.loadChatTemplate(dir)
	}
	if err != nil {
		return fmt.Errorf("auto: %w", err)
	}
	m.Tokenizer, m.loaded = t, t
	return nil
}

// errNoTokenizer returns the error of methods that need a tokenizer.
func (m *Model) errNoTokenizer() error {
	if m.tokenizerDir == "" {
		return errors.New("auto: the model has no tokenizer; set Model.Tokenizer")
	}
	return fmt.Errorf("auto: %s has no tokenizer; want %s, BERT's vocab.txt, or RoBERTa's vocab.json and merges.txt "+
		"beside the weights, or set Model.Tokenizer", m.tokenizerDir, tokenizerName)
}
