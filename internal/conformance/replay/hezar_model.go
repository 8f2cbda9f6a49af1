package replay

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/gotrainer/gotrainer/compat/hezar"
	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/internal/conformance/recorded"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/models/crnn"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// hezarBatch is a batch of a case, with pictures in the form that a CRNN takes.
type hezarBatch struct {
	batch
	pictures crnn.Batch
}

// newHezarModel makes the model of a case and gives it its initial weights.
func newHezarModel(s *spec.Spec) (hezarModel, error) {
	var made hezarModel
	var err error
	switch s.Model.Kind {
	case "mlp":
		var m model
		if m, err = construct(s.Model); err == nil {
			made = &hezarVectors{m}
		}
	case "bert":
		made, err = newHezarBERT(s.Model)
	case "crnn":
		made, err = newHezarCRNN(s.Model)
	default:
		return nil, spec.Unsupportedf("model.kind is %q with the trainer hezar", s.Model.Kind)
	}
	if err != nil {
		return nil, err
	}
	if len(s.Model.Freeze) > 0 {
		return nil, spec.Unsupportedf("model.freeze with the trainer hezar")
	}
	if s.Init.Formula != nil {
		return made, formulaInit(made.Model(), s.Init.Formula.Merge())
	}
	_, err = nn.Load(filepath.Join(s.Dir, "init.safetensors"), made.Model(), nn.LoadOptions{})
	return made, err
}

// hezarVectors is a classifier of vectors, or of texts.
type hezarVectors struct{ m model }

func (h *hezarVectors) Model() any { return h.m.module() }

// Collate stacks rows. Texts are cut to the longest of the batch and get a mask.
func (h *hezarVectors) Collate(list []row) (hezarBatch, error) {
	b, err := collate(list)
	if err != nil {
		return hezarBatch{}, err
	}
	lengths, ok := b.columns["lengths"]
	if !ok {
		return hezarBatch{batch: b}, nil
	}
	delete(b.columns, "lengths")
	longest := slices.Max(integers(lengths))
	ids := b.columns["token_ids"]
	delete(b.columns, "token_ids")
	width, size := ids.shape[1], int64(ids.dtype.Bits()/8)
	cut := column{dtype: ids.dtype, shape: []int64{ids.shape[0], longest}}
	mask := column{dtype: safetensors.I64, shape: cut.shape}
	for i, n := range integers(lengths) {
		at := int64(i) * width * size
		cut.raw = append(cut.raw, ids.raw[at:at+longest*size]...)
		for k := range longest {
			bit := byte(0)
			if k < n {
				bit = 1
			}
			mask.raw = append(mask.raw, bit, 0, 0, 0, 0, 0, 0, 0)
		}
	}
	b.columns["input_ids"], b.columns["attention_mask"] = cut, mask
	return hezarBatch{batch: b}, nil
}

func (h *hezarVectors) Predict(_ engine.Pass, b hezarBatch) engine.Outputs {
	return engine.Outputs{Logits: []torch.Tensor{h.m.predict(b.batch)}, Labels: []torch.Tensor{b.tensor("labels")},
		Rows: len(b.index)}
}

func (h *hezarVectors) LossOf(_ engine.Pass, o engine.Outputs) engine.Loss {
	return engine.Mean(h.m.loss(o.Logits[0], o.Labels[0], 0), o.Rows)
}

func (h *hezarVectors) Loss(p engine.Pass, b hezarBatch) engine.Loss {
	return h.LossOf(p, h.Predict(p, b))
}

// newHezarBERT makes Hezar's BertTextClassification, which is the BERT of transformers but for the
// types of tokens, which it leaves out.
func newHezarBERT(m spec.Model) (hezarModel, error) {
	// what transformers' BertModel takes if it is told nothing
	attention, err := spec.ParseObject([]byte(`{"attn_implementation": "sdpa"}`))
	if err != nil {
		return nil, err
	}
	o := m.Options.Merge(attention)
	o.Any("kind")
	o.Any("freeze")
	made, err := newBERT(o)
	if err != nil {
		return nil, err
	}
	made.(*bertModel).classifier.IgnoreTokenTypes(true)
	return &hezarVectors{made}, o.Done()
}

// hezarPictures is a CRNN.
type hezarPictures struct {
	inner hezar.Model[crnn.Sample, crnn.Batch]
}

func (h *hezarPictures) Model() any { return h.inner.Model() }

func (h *hezarPictures) LossOf(p engine.Pass, o engine.Outputs) engine.Loss {
	return h.inner.LossOf(p, o)
}

// newHezarCRNN reads the fields of Hezar's CRNNImage2TextConfig.
func newHezarCRNN(m spec.Model) (hezarModel, error) {
	o := m.Options.Merge()
	o.Any("kind")
	o.Any("freeze")
	f := o.Object("config")
	if f == nil {
		return nil, spec.Unsupportedf("a crnn without config")
	}
	c := crnn.Config{Channels: int64(f.Int("n_channels", 0)), ImageHeight: int64(f.Int("image_height", 0)),
		ImageWidth: int64(f.Int("image_width", 0)),
		Map2SeqDim: int64(f.Int("map2seq_out_dim", 0)), RNNDim: int64(f.Int("rnn_dim", 0)),
		ReverseDigits: f.Bool("reverse_output_digits", false)}
	f.Int("map2seq_in_dim", 0) // follows from the height
	f.Int("blank_id", 0)
	labels, ok := f.Any("id2label").(map[string]any)
	if !ok {
		f.Fail("id2label", "an object")
	}
	c.Charset = make([]string, len(labels))
	for key, text := range labels {
		id, err := strconv.Atoi(key)
		if err != nil || id < 0 || id >= len(labels) {
			return nil, fmt.Errorf("model.config.id2label: %q is no id of %d classes", key, len(labels))
		}
		c.Charset[id] = fmt.Sprint(text)
	}
	if err := f.Done(); err != nil {
		return nil, err
	}
	if err := o.Done(); err != nil {
		return nil, err
	}
	made, err := crnn.New(c)
	if err != nil {
		return nil, err
	}
	return &hezarPictures{hezar.Image2Text(made)}, nil
}

// Collate makes numbers from 0 to 1 of pixels, and leaves out the zeros behind labels.
func (h *hezarPictures) Collate(list []row) (hezarBatch, error) {
	b := hezarBatch{batch: batch{columns: map[string]column{}}}
	for _, r := range list {
		b.index = append(b.index, r.index)
		for _, v := range r.values["pixels"].raw {
			b.pictures.Pixels = append(b.pictures.Pixels, float32(v)/255)
		}
		n := int64(0)
		for _, id := range integers(r.values["labels"]) {
			if id != 0 {
				b.pictures.Targets = append(b.pictures.Targets, id)
				n++
			}
		}
		b.pictures.Lengths = append(b.pictures.Lengths, n)
	}
	return b, nil
}

func (h *hezarPictures) Loss(p engine.Pass, b hezarBatch) engine.Loss {
	return h.LossOf(p, h.Predict(p, b))
}
func (h *hezarPictures) Predict(p engine.Pass, b hezarBatch) engine.Outputs {
	return h.inner.Predict(p, b.pictures)
}

func (h *hezarPictures) Generate(p engine.Pass, b hezarBatch, o engine.Outputs) torch.Tensor {
	return h.inner.(hezar.Generator[crnn.Batch]).Generate(p, b.pictures, o)
}

func (h *hezarPictures) PostProcess(ids [][]int64) []string {
	return h.inner.(hezar.PostProcessor).PostProcess(ids)
}

// formulaInit gives weights the values of the recording's formula.
func formulaInit(module any, o *spec.Object) error {
	f, err := recorded.FormulaOf(o)
	if err != nil {
		return err
	}
	return f.Fill(module)
}

// modelConfig is model_config.yaml of a case's model.
func (r *hezarRun) modelConfig() omegaconf.Map {
	switch m := r.model.(type) {
	case *hezarPictures:
		return m.inner.(hezar.Configured).HezarConfig()
	case *hezarVectors:
		if b, ok := m.m.(*bertModel); ok {
			return bertYAML(b.classifier.Config())
		}
	}
	o := r.spec.Model.Options.Merge()
	sizes := o.Ints("sizes")
	return omegaconf.Map{{Key: "name", Value: "conformance_mlp"}, {Key: "config_type", Value: "model"},
		{Key: "sizes", Value: sizes}, {Key: "norm", Value: o.String("norm", "none")},
		{Key: "activation", Value: o.String("activation", "relu")}, {Key: "dropout", Value: o.Float("dropout", 0)},
		{Key: "num_labels", Value: sizes[len(sizes)-1]}}
}

// bertYAML is the configuration of Hezar's BertTextClassification.
func bertYAML(c bert.Config) omegaconf.Map {
	labels := omegaconf.Map{}
	for id, name := range c.ID2Label {
		labels = append(labels, omegaconf.Item{Key: id, Value: name})
	}
	return omegaconf.Map{{Key: "name", Value: "bert_text_classification"}, {Key: "config_type", Value: "model"},
		{Key: "task", Value: "text_classification"}, {Key: "num_labels", Value: c.NumLabels},
		{Key: "id2label", Value: labels}, {Key: "vocab_size", Value: c.VocabSize},
		{Key: "hidden_size", Value: c.HiddenSize}, {Key: "num_hidden_layers", Value: c.NumLayers},
		{Key: "num_attention_heads", Value: c.NumHeads}, {Key: "intermediate_size", Value: c.IntermediateSize},
		{Key: "hidden_act", Value: c.HiddenAct}, {Key: "hidden_dropout_prob", Value: *c.HiddenDropout},
		{Key: "attention_probs_dropout_prob", Value: *c.AttentionDropout}, {Key: "max_position_embeddings",
			Value: c.MaxPositions}, {Key: "type_vocab_size", Value: c.TypeVocabSize},
		{Key: "initializer_range", Value: c.InitializerRange}, {Key: "layer_norm_eps", Value: c.LayerNormEps},
		{Key: "pad_token_id", Value: *c.PadTokenID},
		{Key: "position_embedding_type", Value: "absolute"}, {Key: "use_cache", Value: true}}
}
