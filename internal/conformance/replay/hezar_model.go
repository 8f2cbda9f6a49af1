package replay

import (
	"slices"

	"github.com/gotrainer/gotrainer/compat/hezar"
	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/internal/conformance/recorded"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/models/crnn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// hezarBatch is a batch of a case, with pictures in the form that a CRNN takes.
type hezarBatch struct {
	batch
	pictures crnn.Batch
}

// newHezarModel makes the model of a case and gives it its initial weights.
func newHezarModel(s *spec.Spec) hezarModel {
	var made hezarModel
	switch s.Model.Kind {
	case "mlp":
		made = &hezarVectors{construct(s.Model)}
	case "bert":
		o := modelOptions(s.Model)
		m := recorded.BERT(modelConfig(o))
		m.IgnoreTokenTypes(true)
		spec.Check(o.Done())
		made = &hezarVectors{classifier(m)}
	case "crnn":
		o := modelOptions(s.Model)
		made = &hezarPictures{hezar.Image2Text(recorded.CRNN(modelConfig(o), nil))}
		spec.Check(o.Done())
	default:
		spec.Refusef("model.kind is %q with the trainer hezar", s.Model.Kind)
	}
	if len(s.Model.Freeze) > 0 {
		spec.Refusef("model.freeze with the trainer hezar")
	}
	initialize(s, made.Model())
	return made
}

// modelConfig is the configuration that a case gives to a model of Hezar's.
func modelConfig(o *spec.Object) omegaconf.Map {
	config := o.Object("config")
	if config == nil {
		spec.Refusef("a model of Hezar's without config")
	}
	return recorded.Config(config.Map()).(omegaconf.Map)
}

// hezarVectors is a classifier of vectors, or of texts.
type hezarVectors struct{ m *model }

func (h *hezarVectors) Model() any { return h.m.module }

// Collate stacks rows. Texts are cut to the longest of the batch and get a mask.
func (h *hezarVectors) Collate(list []row) (hezarBatch, error) {
	b, err := collate(list)
	if err != nil {
		return hezarBatch{}, err
	}
	if !b.has("lengths") {
		return hezarBatch{batch: b}, nil
	}
	err = recorded.Try(func() {
		lengths, ids := b.tensor("lengths").Unsqueeze(1), b.tensor("token_ids")
		longest := slices.Max(integers(lengths))
		b.columns["input_ids"] = ids.Narrow(1, 0, longest).Contiguous()
		b.columns["attention_mask"] = torch.Arange(longest).Lt(lengths).ToDType(torch.Int64)
	})
	delete(b.columns, "lengths")
	delete(b.columns, "token_ids")
	return hezarBatch{batch: b}, err
}

func (h *hezarVectors) Predict(_ engine.ForwardPass, b hezarBatch) engine.Outputs {
	return engine.Outputs{Logits: []torch.Tensor{h.m.predict(b.batch)}, Labels: []torch.Tensor{b.tensor("labels")},
		Rows: len(b.index)}
}

func (h *hezarVectors) LossOf(_ engine.ForwardPass, o engine.Outputs) engine.Loss {
	return engine.Mean(h.m.loss(o.Logits[0], o.Labels[0], 0), o.Rows)
}

func (h *hezarVectors) Loss(p engine.ForwardPass, b hezarBatch) engine.Loss {
	return h.LossOf(p, h.Predict(p, b))
}

// hezarPictures is a CRNN.
type hezarPictures struct {
	inner hezar.Model[crnn.Sample, crnn.Batch]
}

func (h *hezarPictures) Model() any { return h.inner.Model() }

func (h *hezarPictures) LossOf(p engine.ForwardPass, o engine.Outputs) engine.Loss {
	return h.inner.LossOf(p, o)
}

// Collate makes numbers from 0 to 1 of pixels, and leaves out the zeros behind labels.
func (h *hezarPictures) Collate(list []row) (hezarBatch, error) {
	var b hezarBatch
	err := recorded.Try(func() {
		for _, r := range list {
			b.index = append(b.index, r.index)
			for _, v := range torch.Values[uint8](r.values["pixels"]) {
				b.pictures.Pixels = append(b.pictures.Pixels, float32(v)/255)
			}
			label := slices.DeleteFunc(integers(r.values["labels"]), func(id int64) bool { return id == 0 })
			b.pictures.Targets = append(b.pictures.Targets, label...)
			b.pictures.Lengths = append(b.pictures.Lengths, int64(len(label)))
		}
	})
	return b, err
}

func (h *hezarPictures) Loss(p engine.ForwardPass, b hezarBatch) engine.Loss {
	return h.LossOf(p, h.Predict(p, b))
}
func (h *hezarPictures) Predict(p engine.ForwardPass, b hezarBatch) engine.Outputs {
	return h.inner.Predict(p, b.pictures)
}

func (h *hezarPictures) Generate(p engine.ForwardPass, b hezarBatch, o engine.Outputs) torch.Tensor {
	return h.inner.(hezar.Generator[crnn.Batch]).Generate(p, b.pictures, o)
}

func (h *hezarPictures) PostProcess(ids [][]int64) []string {
	return h.inner.(hezar.PostProcessor).PostProcess(ids)
}

// modelYAML is model_config.yaml of a case's model.
func (r *hezarRun) modelYAML() omegaconf.Map {
	switch m := r.model.(type) {
	case *hezarPictures:
		return m.inner.(hezar.Configured).HezarConfig()
	case *hezarVectors:
		if b, ok := m.m.module.(*bert.Classifier); ok {
			return bertYAML(b.Config())
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
