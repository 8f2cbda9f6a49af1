package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/data/glue"
	"github.com/gotrainer/gotrainer/examples/bert_classification/sms"
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/progress"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// parts holds the model and data of a loop.
type parts struct {
	model        *bert.Classifier
	collate      func([]bert.Sample) (bert.Batch, error) // DataCollatorWithPadding
	train, valid data.Slice[bert.Sample]
}

// labelled is a text or a pair of texts, with its class.
type labelled struct {
	input text.Input
	class int
}

func prepare(ctx context.Context, o options) (*parts, error) {
	train, valid, err := texts(ctx, o)
	if err != nil {
		return nil, err
	}
	tokenizer, model, err := modelOf(o, train)
	if err != nil {
		return nil, err
	}
	limit := min(o.maxLength, int(model.Limits().MaxLength))
	if tokenizer, err = tokenizer.WithPadding(nil); err != nil { // collate pads, and masks the padding
		return nil, err
	}
	if tokenizer, err = tokenizer.WithTruncation(&text.Truncation{MaxLength: limit}); err != nil {
		return nil, err
	}
	task, err := classify.NewTask(model, classify.TaskOptions{})
	if err != nil {
		return nil, err
	}
	p := &parts{model: model, collate: task.Collate}
	encode := func(l labelled) (bert.Sample, error) {
		e, err := tokenizer.EncodeInput(l.input, nil)
		if err != nil {
			return bert.Sample{}, err
		}
		return bert.Sample{InputIDs: e.IDs, TokenTypeIDs: e.TypeIDs, Label: int64(l.class)}, nil
	}
	if p.train, err = data.Collect(ctx, train, encode); err != nil {
		return nil, err
	}
	p.valid, err = data.Collect(ctx, valid, encode)
	return p, err
}

// texts reads MRPC, or the SMS Spam Collection, of which it holds out 15 %.
func texts(ctx context.Context, o options) (train, valid data.Dataset[labelled], err error) {
	if o.data == "" {
		messages, err := sms.Messages()
		if err != nil {
			return nil, nil, err
		}
		all := data.Map(messages, func(m sms.Message) (labelled, error) {
			return labelled{text.Single(m.Text), m.Label}, nil
		})
		return data.Split(all, 0.85, o.seed)
	}
	mrpc, err := glue.Open(o.data, glue.MRPC)
	if err != nil {
		return nil, nil, err
	}
	if mrpc.Train == nil || mrpc.Validation == nil {
		return nil, nil, fmt.Errorf("%s lacks train.tsv or dev.tsv", o.data)
	}
	pair := func(e glue.Example) (labelled, error) { return labelled{text.Pair(e.A, e.B), e.Label}, nil }
	return data.Map(mrpc.Train, pair), data.Map(mrpc.Validation, pair), nil
}

// modelOf loads the model, or creates a small one with a vocabulary learned from the training
// texts.
func modelOf(o options, train data.Dataset[labelled]) (*text.Tokenizer, *bert.Classifier, error) {
	torch.ManualSeed(o.seed)
	if o.model != "" {
		model, _, err := bert.LoadClassifier(o.model, bert.Head{NumLabels: 2})
		if err != nil {
			return nil, nil, err
		}
		tokenizer, err := text.LoadTokenizer(o.model)
		return tokenizer, model, err
	}
	var all []string
	for i := range train.Len() {
		l, err := train.At(i)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, l.input.Text, l.input.Pair)
	}
	tokenizer, err := text.TrainBert(slices.Values(all), text.BertOptions{Cased: true},
		text.TrainOptions{VocabSize: 4000, MinFrequency: 2})
	if err != nil {
		return nil, nil, err
	}
	model, err := bert.NewClassifier(bert.Config{
		VocabSize: int64(tokenizer.VocabSize()), HiddenSize: 64, NumLayers: 2, NumHeads: 2, IntermediateSize: 256,
		MaxPositions: int64(o.maxLength), InitializerRange: 0.05,
	})
	return tokenizer, model, err
}

func (p *parts) forward(m *bert.Classifier, b bert.Batch, device torch.Device) torch.Tensor {
	return m.Forward(b.To(engine.ForwardPass{Device: device}))
}

func (p *parts) loss(m *bert.Classifier, b bert.Batch, device torch.Device) torch.Tensor {
	labels := torch.From(b.Labels, int64(len(b.Labels))).ToDevice(device)
	return m.Head().Loss(p.forward(m, b, device), labels)
}

// shuffle gives the order of DataLoader(shuffle=True): at the start of a pass the default generator
// draws a seed for the workers, then one for the permutation.
func shuffle(_, n int) []int {
	draw := func() int64 {
		seed := torch.TensorOptions{DType: torch.Int64}.Empty()
		defer seed.Free()
		return torch.Values[int64](seed.Random_(nil))[0]
	}
	draw()
	return data.Permutation(uint64(draw()), n)
}

func header(o options, p *parts, batches, steps int) {
	fmt.Printf("%d texts to learn from, %d to evaluate with; %d batches an epoch, %d updates\n", len(p.train),
		len(p.valid), batches, steps)
}

// report prints the loss of every hundredth update, in full precision.
func report(bar *progress.Bar, update int, loss torch.Tensor) {
	if update%100 == 0 {
		bar.Println(os.Stdout, "update", update, "loss", digits(loss.Item()))
	}
	bar.Update(1)
}

// digits formats a number as Python does (1.0, not 1), except for very small or large ones.
func digits(v float64) string {
	text := strconv.FormatFloat(v, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// scores holds the metrics of evaluate.load("glue", "mrpc").
type scores struct {
	accuracy metrics.Accuracy[int]
	f1       metrics.F1
}

func newScores() *scores { return new(scores) }

func (s *scores) add(predictions, references []int64) {
	for i, p := range predictions {
		s.accuracy.Add(int(p), int(references[i]))
		s.f1.Add(int(p), int(references[i]))
	}
}

func (s *scores) print() {
	fmt.Println("accuracy", digits(s.accuracy.Result()["accuracy"]), "f1", digits(s.f1.Result()["f1"]))
}
