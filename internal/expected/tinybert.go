package expected

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/conformance/recorded"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
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

// tinybert is a file with "dev_first*" or "train*": a small BERT evaluates or is trained on pairs
// of MRPC.
type tinybert struct {
	data, model, training string
	config                json.RawMessage
}

func readTinyBERT(d *document) (entries []Entry) {
	b := &tinybert{data: d.options.Data, config: d.fields["config"], model: textOf(d, "source", ""),
		training: textOf(d, "training", "")}
	for _, field := range d.matching([]string{"dev_first*", "train[0-9]*"}) {
		run := b.runTraining
		if strings.HasPrefix(field, "dev_first") {
			run = b.runForward
		}
		entries = append(entries, entry(field, func() { run(field, d.fields[field]) }))
	}
	return entries
}

// settings returns the configuration of the model.
func (b *tinybert) settings() bert.Config {
	o := supported(spec.ParseObject(b.config))
	act, _, _ := strings.Cut(o.String("hidden_act", ""), " ") // may be followed by a note
	c := bert.Config{HiddenAct: act, HiddenDropout: new(0.0), AttentionDropout: new(0.0), PadTokenID: new(int64(0))}
	o.Take(&c, "vocab_size:VocabSize", "hidden_size:HiddenSize", "num_hidden_layers:NumLayers",
		"num_attention_heads:NumHeads", "intermediate_size:IntermediateSize", "max_position_embeddings:MaxPositions",
		"type_vocab_size:TypeVocabSize", "layer_norm_eps:LayerNormEps", "hidden_dropout_prob:HiddenDropout",
		"attention_probs_dropout_prob:AttentionDropout", "num_labels:NumLabels", "pad_token_id:PadTokenID")
	return supported(c, o.Done())
}

// build makes the model with its weights.
func (b *tinybert) build(c bert.Config) *bert.Classifier {
	recorded.Load()
	m := supported(bert.NewClassifier(c))
	file, _, _ := strings.Cut(b.model, " ")
	if !filepath.IsLocal(file) {
		unsupported("source is %q; want it to begin with a file below the data folder", b.model)
	}
	spec.Must(nn.Load(filepath.Join(b.data, file), m, nn.LoadOptions{}))
	return m
}

// samples tokenizes the first n pairs of a part of MRPC.
func (b *tinybert) samples(part string, n int) data.Slice[bert.Sample] {
	rows := supported(mrpc(b.data, part))
	tokenizer := supported(text.LoadTokenizer(filepath.Join(b.data, defaultVocab)))
	if rows.Len() < n {
		unsupported("mrpc does not have %d pairs", n)
	}
	samples := make(data.Slice[bert.Sample], n)
	for i := range samples {
		row := spec.Must(rows.At(i))
		e := spec.Must(tokenizer.EncodePair(row.A, row.B, nil))
		samples[i] = bert.Sample{InputIDs: e.IDs, TokenTypeIDs: e.TypeIDs, Label: int64(row.Label)}
	}
	return samples
}

// bertTolerance is the tolerance for values that were printed with seven digits.
const bertTolerance = 1e-6

// runForward compares a batch of the development set.
func (b *tinybert) runForward(field string, raw json.RawMessage) {
	var n int64
	if !scan(field, "dev_first%d", 1, &n) {
		unsupported("the field %q does not say how many rows", field)
	}
	var want map[string]json.RawMessage
	supported(0, json.Unmarshal(raw, &want))
	m := b.build(b.settings())
	samples := b.samples("dev", int(n))
	task := spec.Must(classify.NewTask(m, classify.TaskOptions{}))
	batch := spec.Must(task.Collate(samples))
	nn.SetTraining(m, false)
	torch.NoGrad(func() { torch.Scope(func() { compareForward(m, task, batch, want) }) })
}

// compareForward compares each field with the model's results.
func compareForward(m *bert.Classifier, task *classify.Task, batch bert.Batch, want map[string]json.RawMessage) {
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
			got = task.Loss(engine.ForwardPass{}, batch).Value
		case scan(name, "pooled_row%d", 0, &row) && row < shape[0]:
			got = pooled.Select(0, row)
		case scan(name, "hidden_row%d_pos%d", 0, &row, &position) && row < shape[0] && position < shape[1]:
			got = hidden.Select(0, row).Select(0, position)
		default:
			unsupported("the form has no field %q", name)
		}
		compareNumbers(name, torch.Values[float32](got), want[name])
	}
}

// compareNumbers compares with a number, a list or a list of lists.
func compareNumbers(name string, got []float32, raw json.RawMessage) {
	var flat []float64
	var rows [][]float64
	var one float64
	switch {
	case json.Unmarshal(raw, &one) == nil:
		flat = []float64{one}
	case json.Unmarshal(raw, &flat) == nil:
	case json.Unmarshal(raw, &rows) == nil:
		flat = slices.Concat(rows...)
	default:
		unsupported("%s is neither a number nor a list of numbers", name)
	}
	if len(flat) != len(got) || len(got) == 0 {
		unsupported("%s has %d numbers, the model %d", name, len(flat), len(got))
	}
	allNear(name, at(got), flat, 0, bertTolerance)
}

// trajectoryForm is the sentence that describes a run.
const trajectoryForm = "train%d: rows 0..%d of mrpc/train.tsv in order, batch %d padded to longest, AdamW lr %g " +
	"weight_decay %g on ALL parameters, " +
	"betas .9/.999 eps 1e-8, lr multiplier (%d-s)/%d, clip_grad_norm %g, dropout 0, cross entropy mean."

// bertRows are the updates of a run, with named columns.
type bertRows struct {
	Columns []string    `json:"columns"`
	Rows    [][]float64 `json:"rows"`
}

// Tolerances for losses and norms in float32 after some updates; rates are exact.
const (
	lossTolerance = 1e-4
	normTolerance = 1e-3 // relative
)

// runTraining trains and compares each update in the file.
func (b *tinybert) runTraining(field string, raw json.RawMessage) {
	want, c := decode[bertRows](raw), b.settings()
	var name, last, batch, n, again int
	var rate, decay, clip float64
	if _, err := fmt.Sscanf(b.training, trajectoryForm, &name, &last, &batch, &rate, &decay, &n, &again,
		&clip); err != nil {
		unsupported("training is %q; want %q: %v", b.training, trajectoryForm, err)
	}
	if field != fmt.Sprintf("train%d", name) || n != again || last+1 != n*batch || len(want.Rows) == 0 ||
		len(want.Rows) > n {
		unsupported("the field %s has %d rows, but training is %q", field, len(want.Rows), b.training)
	}
	m := b.build(c)
	samples := b.samples("train", last+1)
	step := spec.Must(bert.NewStep(m, engine.Options{
		Optimizer: optim.AdamW{LR: rate, WeightDecay: &decay}, MaxGradNorm: clip,
		Groups: func(_ any, params []torch.Named) []optim.Group { return []optim.Group{{Params: params}} },
	}))
	t := spec.Must(trainer.New(step, trainer.Options{
		MaxSteps: n, BatchSize: batch, Order: data.Sequential{}, Log: trainer.Every(1, trainer.Update),
		Eval: trainer.Never, Save: trainer.Never,
		Semantics: semantics.HuggingFace, Progress: io.Discard, Workers: 1,
	}))
	want.compare(spec.Must(t.Fit(context.Background(), samples, nil)).History)
}

// columnNames maps the columns to names in the log.
var columnNames = map[string]string{"step": "step", "lr": "learning_rate", "loss": "loss",
	"grad_norm_before_clip": "grad_norm"}

func (want bertRows) compare(history []trainer.Logs) {
	for i, row := range want.Rows {
		if len(row) != len(want.Columns) || i >= len(history) {
			unsupported("row %d has %d numbers for %d columns, and the run %d updates", i, len(row),
				len(want.Columns), len(history))
		}
		for k, column := range want.Columns {
			name, ok := columnNames[column]
			if !ok {
				unsupported("the form has no column %q", column)
			}
			rtol, atol := 0., lossTolerance
			switch name {
			case "learning_rate", "step":
				rtol, atol = 1e-12, 0
			case "grad_norm":
				rtol, atol = normTolerance, 0
			}
			near(fmt.Sprintf("update %d: %s", i+1, column), history[i][name], row[k], rtol, atol)
		}
	}
}
