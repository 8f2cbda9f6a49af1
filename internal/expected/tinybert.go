package expected

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/data/glue"
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// tinybert is a file with "dev_first*" or "train*": a small BERT reads and learns pairs of MRPC.
type tinybert struct {
	data, model, training string
	config                bertConfig
}

type bertConfig struct {
	VocabSize        int64   `json:"vocab_size"`
	HiddenSize       int64   `json:"hidden_size"`
	NumLayers        int64   `json:"num_hidden_layers"`
	NumHeads         int64   `json:"num_attention_heads"`
	IntermediateSize int64   `json:"intermediate_size"`
	MaxPositions     int64   `json:"max_position_embeddings"`
	TypeVocabSize    int64   `json:"type_vocab_size"`
	HiddenAct        string  `json:"hidden_act"` // with a note behind it
	LayerNormEps     float64 `json:"layer_norm_eps"`
	HiddenDropout    float64 `json:"hidden_dropout_prob"`
	AttentionDropout float64 `json:"attention_probs_dropout_prob"`
	NumLabels        int64   `json:"num_labels"`
	PadTokenID       int64   `json:"pad_token_id"`
}

func readTinyBERT(d *document) ([]Entry, error) {
	b := &tinybert{data: d.options.Data}
	for _, f := range []struct {
		name string
		to   any
	}{{"source", &b.model}, {"training", &b.training}} {
		if raw, ok := d.fields[f.name]; ok {
			if err := json.Unmarshal(raw, f.to); err != nil {
				return nil, fmt.Errorf("field %q: %w", f.name, err)
			}
		}
	}
	config, configErr := decode[bertConfig](d.fields["config"])
	b.config = config
	var entries []Entry
	for _, field := range d.matching([]string{"dev_first*", "train[0-9]*"}) {
		raw := d.fields[field]
		entries = append(entries, Entry{field, func() error {
			switch {
			case configErr != nil:
				return configErr
			case strings.HasPrefix(field, "dev_first"):
				return b.runForward(field, raw)
			}
			return b.runTraining(field, raw)
		}})
	}
	return entries, nil
}

// build makes the model and reads its weights.
func (b *tinybert) build() (*bert.Classifier, error) {
	if err := torch.Load(); err != nil {
		return nil, unsupported("%v", err)
	}
	c := b.config
	act, _, _ := strings.Cut(c.HiddenAct, " ")
	m, err := bert.NewClassifier(bert.Config{
		VocabSize: c.VocabSize, HiddenSize: c.HiddenSize, NumLayers: c.NumLayers, NumHeads: c.NumHeads,
		IntermediateSize: c.IntermediateSize, MaxPositions: c.MaxPositions,
		TypeVocabSize: c.TypeVocabSize, HiddenAct: act, LayerNormEps: c.LayerNormEps, HiddenDropout: &c.HiddenDropout,
		AttentionDropout: &c.AttentionDropout,
		PadTokenID:       &c.PadTokenID, Head: bert.Head{NumLabels: c.NumLabels},
	})
	if err != nil {
		return nil, unsupported("%v", err)
	}
	file, _, _ := strings.Cut(b.model, " ")
	if !filepath.IsLocal(file) {
		return nil, unsupported("source is %q; want it to begin with a file below the data folder", b.model)
	}
	_, err = nn.Load(filepath.Join(b.data, file), m, nn.LoadOptions{})
	return m, err
}

// samples tokenizes the first n pairs of a part of MRPC.
func (b *tinybert) samples(part func(*glue.Set) data.Dataset[glue.Example], n int) (data.Slice[bert.Sample], error) {
	set, err := glue.Open(filepath.Join(b.data, "mrpc"), glue.MRPC)
	if err != nil {
		return nil, unsupported("%v", err)
	}
	tokenizer, err := text.LoadTokenizer(filepath.Join(b.data, defaultVocab))
	if err != nil {
		return nil, unsupported("%v", err)
	}
	rows := part(set)
	if rows == nil || rows.Len() < n {
		return nil, unsupported("mrpc does not have %d pairs", n)
	}
	samples := make(data.Slice[bert.Sample], n)
	for i := range samples {
		row, err := rows.At(i)
		if err != nil {
			return nil, err
		}
		e, err := tokenizer.EncodePair(row.A, row.B, nil)
		if err != nil {
			return nil, err
		}
		samples[i] = bert.Sample{InputIDs: e.IDs, TokenTypeIDs: e.TypeIDs, Label: int64(row.Label)}
	}
	return samples, nil
}

// bertTolerance is the last of seven printed places.
const bertTolerance = 1e-6

// runForward compares a batch of the development set.
func (b *tinybert) runForward(field string, raw json.RawMessage) error {
	var n int64
	if !scan(field, "dev_first%d", 1, &n) {
		return unsupported("the field %q does not say how many rows", field)
	}
	var want map[string]json.RawMessage
	if err := json.Unmarshal(raw, &want); err != nil {
		return unsupported("%v", err)
	}
	m, err := b.build()
	if err != nil {
		return err
	}
	samples, err := b.samples(func(s *glue.Set) data.Dataset[glue.Example] { return s.Validation }, int(n))
	if err != nil {
		return err
	}
	task, err := classify.NewTask(m, classify.TaskOptions{})
	if err != nil {
		return err
	}
	batch, err := task.Collate(samples)
	if err != nil {
		return err
	}
	nn.SetTraining(m, false)
	torch.NoGrad(func() { torch.Scope(func() { err = compareForward(m, task, batch, want) }) })
	return err
}

// compareForward compares each field with what the model computes.
func compareForward(m *bert.Classifier, task *classify.Task, batch bert.Batch, want map[string]json.RawMessage) error {
	shape := batch.InputIDs.Shape()
	ids, mask, types := batch.Tensors()
	hidden, pooled := m.BERT.Forward(ids, mask, types)
	for _, name := range names(want) {
		var got torch.Tensor
		var row, position int64
		switch {
		case name == "padded_len":
			got = torch.From([]float32{float32(shape[1])})
		case name == "lengths":
			var lengths []float32
			for _, n := range batch.InputIDs.Lengths {
				lengths = append(lengths, float32(n))
			}
			got = torch.From(lengths)
		case name == "logits":
			got = m.Forward(ids, mask, types)
		case name == "loss":
			got = task.Loss(engine.Pass{}, batch).Value
		case scan(name, "pooled_row%d", 0, &row) && row < shape[0]:
			got = pooled.Select(0, row)
		case scan(name, "hidden_row%d_pos%d", 0, &row, &position) && row < shape[0] && position < shape[1]:
			got = hidden.Select(0, row).Select(0, position)
		default:
			return unsupported("the form has no field %q", name)
		}
		if err := compareNumbers(name, torch.Values[float32](got), want[name]); err != nil {
			return err
		}
	}
	return nil
}

// compareNumbers compares with a number, a list or a list of lists.
func compareNumbers(name string, got []float32, raw json.RawMessage) error {
	var flat []float64
	var rows [][]float64
	var one float64
	switch {
	case json.Unmarshal(raw, &one) == nil:
		flat = []float64{one}
	case json.Unmarshal(raw, &flat) == nil:
	case json.Unmarshal(raw, &rows) == nil:
		flat = nil
		for _, r := range rows {
			flat = append(flat, r...)
		}
	default:
		return unsupported("%s is neither a number nor a list of numbers", name)
	}
	if len(flat) != len(got) || len(got) == 0 {
		return unsupported("%s has %d numbers, the model %d", name, len(flat), len(got))
	}
	return allNear(name, func(i int) float64 { return float64(got[i]) }, flat, 0, bertTolerance)
}

// trajectoryForm is the sentence that describes a run.
const trajectoryForm = "train%d: rows 0..%d of mrpc/train.tsv in order, batch %d padded to longest, AdamW lr %g " +
	"weight_decay %g on ALL parameters, " +
	"betas .9/.999 eps 1e-8, lr multiplier (%d-s)/%d, clip_grad_norm %g, dropout 0, cross entropy mean."

// bertRows are the updates of a run, by columns.
type bertRows struct {
	Columns []string    `json:"columns"`
	Rows    [][]float64 `json:"rows"`
}

// What losses and norms of float32 agree in after some updates; rates are exact.
const (
	lossTolerance = 1e-4
	normTolerance = 1e-3 // relative
)

// runTraining trains and compares each update that the file has.
func (b *tinybert) runTraining(field string, raw json.RawMessage) error {
	want, err := decode[bertRows](raw)
	if err != nil {
		return err
	}
	var name, last, batch, n, again int
	var rate, decay, clip float64
	if _, err := fmt.Sscanf(b.training, trajectoryForm, &name, &last, &batch, &rate, &decay, &n, &again,
		&clip); err != nil {
		return unsupported("training is %q; want %q: %v", b.training, trajectoryForm, err)
	}
	if field != fmt.Sprintf("train%d", name) || n != again || last+1 != n*batch || len(want.Rows) == 0 ||
		len(want.Rows) > n {
		return unsupported("the field %s has %d rows, but training is %q", field, len(want.Rows), b.training)
	}
	m, err := b.build()
	if err != nil {
		return err
	}
	samples, err := b.samples(func(s *glue.Set) data.Dataset[glue.Example] { return s.Train }, last+1)
	if err != nil {
		return err
	}
	step, err := bert.NewStep(m, engine.Options{
		Optimizer: optim.AdamW{LR: rate, WeightDecay: &decay}, MaxGradNorm: clip,
		Groups: func(_ any, params []torch.Named) []optim.Group { return []optim.Group{{Params: params}} },
	})
	if err != nil {
		return err
	}
	t, err := trainer.New(step, trainer.Options{
		MaxSteps: n, BatchSize: batch, Order: data.Sequential{}, Log: trainer.Every(1, trainer.Update),
		Eval: trainer.Never, Save: trainer.Never,
		Semantics: semantics.HuggingFace, Progress: io.Discard, Workers: 1,
	})
	if err != nil {
		return err
	}
	result, err := t.Fit(context.Background(), samples, nil)
	if err != nil {
		return err
	}
	return want.compare(result.History)
}

// columnNames are those of the log.
var columnNames = map[string]string{"step": "step", "lr": "learning_rate", "loss": "loss",
	"grad_norm_before_clip": "grad_norm"}

func (want bertRows) compare(history []trainer.Logs) error {
	for i, row := range want.Rows {
		if len(row) != len(want.Columns) || i >= len(history) {
			return unsupported("row %d has %d numbers for %d columns, and the run %d updates", i, len(row),
				len(want.Columns), len(history))
		}
		for k, column := range want.Columns {
			name, ok := columnNames[column]
			if !ok {
				return unsupported("the form has no column %q", column)
			}
			rtol, atol := 0., lossTolerance
			switch name {
			case "learning_rate", "step":
				rtol, atol = 1e-12, 0
			case "grad_norm":
				rtol, atol = normTolerance, 0
			}
			if err := near(fmt.Sprintf("update %d: %s", i+1, column), history[i][name], row[k], rtol,
				atol); err != nil {
				return err
			}
		}
	}
	return nil
}
