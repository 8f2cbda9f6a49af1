package hezar

import (
	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/models/crnn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// Image2Text makes a CRNN ready for a Trainer: CRNNImage2Text. Samples are pictures with their
// texts, see package crnn.
func Image2Text(m *crnn.Model) Model[crnn.Sample, crnn.Batch] {
	return &image2text{crnn.NewTask(m), m}
}

type image2text struct {
	engine.Task[crnn.Sample, crnn.Batch]
	model *crnn.Model
}

// Predict returns the log-probabilities, [frames, rows, classes], and the labels, padded with
// blanks.
func (m *image2text) Predict(p engine.Pass, b crnn.Batch) engine.Outputs {
	c, rows := m.model.Config(), int64(len(b.Lengths))
	width := int64(len(b.Pixels)) / (rows * c.Channels * c.ImageHeight) // of the batch: the convolutions take any
	logits := m.model.Forward(engine.Input(p, b.Pixels, rows, c.Channels, c.ImageHeight, width))
	longest := int64(0)
	for _, n := range b.Lengths {
		longest = max(longest, n)
	}
	padded := make([]int64, rows*longest)
	at := int64(0)
	for i, n := range b.Lengths {
		copy(padded[int64(i)*longest:], b.Targets[at:at+n])
		at += n
	}
	return engine.Outputs{
		Logits: []torch.Tensor{logits}, Rows: int(rows),
		Labels: []torch.Tensor{engine.Input(p, padded, rows, longest)},
	}
}

// LossOf is the CTC loss as Hezar averages it; a picture whose label cannot be aligned counts as 0.
func (m *image2text) LossOf(_ engine.Pass, o engine.Outputs) engine.Loss {
	return engine.Mean(m.model.Loss(o.Logits[0], o.Labels[0]), o.Rows)
}

// Generate decodes greedily: the best class of each frame, repeats merged, blanks left out. Rows
// are padded with blanks.
func (m *image2text) Generate(_ engine.Pass, _ crnn.Batch, o engine.Outputs) torch.Tensor {
	_, best := o.Logits[0].MaxDim(2, false)
	frames, rows := best.Size(0), best.Size(1)
	ids := torch.Values[int64](best)
	out := make([]int64, rows*frames)
	row := make([]int64, frames)
	for r := range rows {
		for f := range frames {
			row[f] = ids[f*rows+r]
		}
		copy(out[r*frames:], crnn.Greedy(row))
	}
	return torch.From(out).View(rows, frames)
}

// PostProcess spells ids out.
func (m *image2text) PostProcess(ids [][]int64) []string {
	texts := make([]string, len(ids))
	for i, row := range ids {
		texts[i] = m.model.Text(row)
	}
	return texts
}

// HezarConfig is the model's model_config.yaml.
func (m *image2text) HezarConfig() omegaconf.Map {
	c := m.model.Config()
	labels := make(omegaconf.Map, len(c.Charset))
	for id, text := range c.Charset {
		labels[id] = omegaconf.Item{Key: id, Value: text}
	}
	config := omegaconf.Map{
		{Key: "name", Value: "crnn_image2text"}, {Key: "config_type", Value: "model"}, {Key: "id2label", Value: labels},
		{Key: "blank_id", Value: 0}, {Key: "n_channels", Value: c.Channels},
		{Key: "image_height", Value: c.ImageHeight}, {Key: "image_width", Value: c.ImageWidth}, {Key: "map2seq_in_dim",
			Value: m.model.Map2Seq.Weight.Size(1)},
		{Key: "map2seq_out_dim", Value: c.Map2SeqDim}, {Key: "rnn_dim", Value: c.RNNDim},
	}
	if c.ReverseDigits {
		config = append(config, omegaconf.Item{Key: "reverse_output_digits", Value: true})
	}
	return config
}
