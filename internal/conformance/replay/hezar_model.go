package replay

import (
	"slices"

	"github.com/gotrainer/gotrainer/compat/hezar"
	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/compat/hezar/repository"
	"github.com/gotrainer/gotrainer/internal/conformance/recorded"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/models/crnn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// hezarBatch is a batch of a case, with its pictures in the form that a CRNN takes.
type hezarBatch struct {
	batch
	pictures crnn.Batch
}

// newHezarModel makes the model of a case with its initial weights.
func newHezarModel(s *spec.Spec) hezarModel {
	var made hezarModel
	switch s.Model.Kind {
	case "mlp":
		made = &hezarVectors{construct(s.Model), mlpConfig(s.Model.Options)}
	case "bert":
		m := ofHezar(recorded.BERT, s.Model)
		made = &hezarVectors{classifier(m.Text), m.Config()}
	case "crnn":
		made = &hezarPictures{hezar.Image2Text(ofHezar(recorded.CRNN, s.Model).CRNN).(image2text)}
	default:
		spec.Refusef("model.kind is %q with the trainer hezar", s.Model.Kind)
	}
	if len(s.Model.Freeze) > 0 {
		spec.Refusef("model.freeze with the trainer hezar")
	}
	initialize(s, made.Model())
	return made
}

// ofHezar makes one of Hezar's own models.
func ofHezar(kind string, m spec.Model) *repository.Model {
	config := m.Options.Object("config")
	if config == nil {
		spec.Refusef("a model of Hezar's without config")
	}
	made := recorded.Hezar(kind, config.Map(), nil)
	spec.Check(m.Options.Done())
	return made
}

// mlpConfig returns the model_config.yaml of the recording's own model.
func mlpConfig(o *spec.Object) omegaconf.Map {
	sizes := o.Ints("sizes")
	return omegaconf.Map{{Key: "name", Value: "conformance_mlp"}, {Key: "config_type", Value: "model"},
		{Key: "sizes", Value: sizes}, {Key: "norm", Value: o.String("norm", "none")},
		{Key: "activation", Value: o.String("activation", "relu")}, {Key: "dropout", Value: o.Float("dropout", 0)},
		{Key: "num_labels", Value: sizes[len(sizes)-1]}}
}

// hezarVectors classifies vectors or texts.
type hezarVectors struct {
	m      *model
	config omegaconf.Map
}

func (h *hezarVectors) Model() any                 { return h.m.module }
func (h *hezarVectors) HezarConfig() omegaconf.Map { return h.config }

// Collate stacks rows. Texts are cut to the longest in the batch and get a mask.
func (h *hezarVectors) Collate(list []row) (b hezarBatch, err error) {
	err = recorded.Try(func() {
		if b.batch = spec.Must(collate(list)); !b.has("lengths") {
			return
		}
		lengths, ids := b.tensor("lengths").Unsqueeze(1), b.tensor("token_ids")
		longest := slices.Max(integers(lengths))
		b.columns["input_ids"] = ids.Narrow(1, 0, longest).Contiguous()
		b.columns["attention_mask"] = torch.Arange(longest).Lt(lengths).ToDType(torch.Int64)
		for _, name := range []string{"lengths", "token_ids", "token_type_ids"} { // Hezar's model ignores token types
			delete(b.columns, name)
		}
	})
	return b, err
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

// image2text is the interface of a CRNN in package hezar.
type image2text interface {
	hezar.Model[crnn.Sample, crnn.Batch]
	hezar.Generator[crnn.Batch]
	hezar.PostProcessor
	hezar.Configured
}

// hezarPictures is a CRNN for the batches of a case.
type hezarPictures struct{ image2text }

// Collate scales pixels to the range from 0 to 1, and drops the zeros after labels.
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
	return h.image2text.Predict(p, b.pictures)
}

func (h *hezarPictures) Generate(p engine.ForwardPass, b hezarBatch, o engine.Outputs) torch.Tensor {
	return h.image2text.Generate(p, b.pictures, o)
}
