package hezar

import (
	"strings"
	"unicode"

	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/models/crnn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// Image2Text makes a CRNN ready for a Trainer: CRNNImage2Text. Samples are pictures with their texts, see package crnn.
func Image2Text(m *crnn.Model) Model[crnn.Sample, crnn.Batch] {
	return &image2text{crnn.NewTask(m), m}
}

type image2text struct {
	engine.Task[crnn.Sample, crnn.Batch]
	model *crnn.Model
}

// Predict returns the log-probabilities, [frames, rows, classes]. The labels are padded with blanks; behind them come the same in one piece and
// their lengths, as CTC wants them.
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
		Labels: []torch.Tensor{engine.Input(p, padded, rows, longest), engine.Input(p, b.Targets), torch.From(b.Lengths)},
	}
}

// LossOf is the CTC loss as Hezar averages it; a picture whose label cannot be aligned counts as 0.
func (m *image2text) LossOf(_ engine.Pass, o engine.Outputs) engine.Loss {
	frames := make([]int64, o.Rows)
	for i := range frames {
		frames[i] = o.Logits[0].Size(0)
	}
	const blank = 0
	return engine.Mean(o.Logits[0].CTCLoss(o.Labels[1], torch.From(frames), o.Labels[2], blank, torch.ReductionMean, true), o.Rows)
}

// Generate decodes greedily: the best class of each frame, repeats merged, blanks left out. Rows are padded with blanks.
func (m *image2text) Generate(_ engine.Pass, _ crnn.Batch, o engine.Outputs) torch.Tensor {
	_, best := o.Logits[0].MaxDim(2, false)
	frames, rows := best.Size(0), best.Size(1)
	ids := torch.Values[int64](best)
	out := make([]int64, rows*frames)
	for r := range rows {
		n, previous := r*frames, int64(0)
		for f := range frames {
			id := ids[f*rows+r]
			if id != previous && id != 0 {
				out[n] = id
				n++
			}
			previous = id
		}
	}
	return torch.From(out).View(rows, frames)
}

// PostProcess spells ids out.
func (m *image2text) PostProcess(ids [][]int64) []string {
	c := m.model.Config()
	texts := make([]string, len(ids))
	for i, row := range ids {
		var b strings.Builder
		for _, id := range row {
			b.WriteString(c.Charset[id])
		}
		texts[i] = b.String()
		if c.ReverseDigits {
			texts[i] = reverseDigits(texts[i])
		}
	}
	return texts
}

// reverseDigits turns runs of digits round, and what single other characters join: reverse_string_digits.
func reverseDigits(text string) string {
	r := []rune(text)
	digit := func(i int) bool { return i < len(r) && unicode.Is(unicode.Nd, r[i]) }
	for i := 0; i < len(r); i++ {
		if !digit(i) {
			continue
		}
		end := i
		for digit(end) || end > i && end < len(r) && digit(end+1) {
			end++
		}
		for a, b := i, end-1; a < b; a, b = a+1, b-1 {
			r[a], r[b] = r[b], r[a]
		}
		i = end
	}
	return string(r)
}

// HezarConfig is the model's model_config.yaml.
func (m *image2text) HezarConfig() omegaconf.Map {
	c := m.model.Config()
	labels := make(omegaconf.Map, len(c.Charset))
	for id, text := range c.Charset {
		labels[id] = omegaconf.Item{Key: id, Value: text}
	}
	config := omegaconf.Map{
		{Key: "name", Value: "crnn_image2text"}, {Key: "config_type", Value: "model"}, {Key: "id2label", Value: labels}, {Key: "blank_id", Value: 0}, {Key: "n_channels", Value: c.Channels},
		{Key: "image_height", Value: c.ImageHeight}, {Key: "image_width", Value: c.ImageWidth}, {Key: "map2seq_in_dim", Value: m.model.Map2Seq.Weight.Size(1)},
		{Key: "map2seq_out_dim", Value: c.Map2SeqDim}, {Key: "rnn_dim", Value: c.RNNDim},
	}
	if c.ReverseDigits {
		config = append(config, omegaconf.Item{Key: "reverse_output_digits", Value: true})
	}
	return config
}
