package crnn_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/models/crnn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// written returns images of noise with the given labels.
func written(texts ...string) data.Slice[crnn.Sample] {
	out := make(data.Slice[crnn.Sample], len(texts))
	for i, text := range texts {
		pixels := make([]float32, 16*48)
		for j := range pixels {
			pixels[j] = float32((j*j+7*i*j)%11)/11 - 0.5
		}
		out[i] = crnn.Sample{Pixels: pixels, Text: text}
	}
	return out
}

func smallModel(t *testing.T) *crnn.Model {
	testenv.RequireTorch(t)
	torch.ManualSeed(3)
	m, err := crnn.New(crnn.Config{Charset: []string{"", "a", "b", "c"}, ImageHeight: 16, ImageWidth: 48,
		ConvChannels: []int64{4, 4, 8, 8, 8, 8, 8}, Map2SeqDim: 8, RNNDim: 8})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestLossOfPredictionsHasTheBitsOfTheLoss(t *testing.T) {
	for _, texts := range [][]string{{"abc", "", "aa"}, {"b"}, {"", ""}} {
		m := smallModel(t)
		task := crnn.NewTask(m)
		b, err := task.Collate(written(texts...))
		if err != nil {
			t.Fatal(err)
		}
		want := task.Loss(engine.ForwardPass{}, b)
		p := task.(engine.Observer[crnn.Batch])
		got := p.LossOf(engine.ForwardPass{}, p.Predict(engine.ForwardPass{}, b))
		golden.Bits(t, fmt.Sprintf("the loss of %q", texts), got.Value, want.Value)
		if got.Rows != len(texts) {
			t.Errorf("%q: %d rows", texts, got.Rows)
		}
	}
}

func TestPredictionsMetricsAndALossOfOnesOwn(t *testing.T) {
	m := smallModel(t)
	valid := written("abc", "b", "ca", "", "cab")
	var cer metrics.CER
	losses := 0
	step, err := crnn.NewStep(m, engine.Options{
		Loss: func(_ engine.ForwardPass, o engine.Outputs) engine.Loss {
			losses++
			return engine.Mean(o.Logits[0].Exp().Square().Mean(torch.DefaultDType), o.Rows)
		},
		ComputeMetrics: func(p *engine.Predictions) (map[string]float64, error) {
			for i, r := range m.ReadRows(p.Logits[0]) {
				cer.Add(r.Text, valid[i].Text)
			}
			return map[string]float64{"my_cer": cer.Result()["cer"]}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	tr, err := trainer.New(step, trainer.Options{Epochs: 1, BatchSize: 2, EvalBatchSize: 2, Progress: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Fit(context.Background(), written("ab", "c", "ba", "cc"), valid); err != nil {
		t.Fatal(err)
	}
	numbers, err := tr.Evaluate(context.Background(), valid)
	if err != nil {
		t.Fatal(err)
	}
	if mine, own := numbers["my_cer"], numbers["cer"]; mine != own || own <= 0 || losses != 2+3+3 {
		t.Errorf("ComputeMetrics gives a CER of %v, the task %v; the loss was called %d times, want 8", mine, own,
			losses)
	}
	if _, err := tr.Predict(context.Background(), valid, ""); err != nil {
		t.Fatal(err)
	}
	p := step.Predictions()
	defer p.Free()
	if got := p.Labels[0].Shape(); !slices.Equal(got, []int64{5, 3}) || p.Logits[0].Size(0) != 5 {
		t.Errorf("labels of shape %v, logits of %v", got, p.Logits[0].Shape())
	}
	if got, want := torch.Values[int64](p.Labels[0])[3:9], []int64{2, engine.IgnoreIndex, engine.IgnoreIndex, 3, 1,
		engine.IgnoreIndex}; !slices.Equal(got, want) {
		t.Errorf("the second and third labels are %v, want %v", got, want)
	}
}

func TestLabelSmoothingIsRefused(t *testing.T) {
	_, err := crnn.NewStep(smallModel(t), engine.Options{LabelSmoothing: 0.1})
	if err == nil || !strings.Contains(err.Error(), "crnn: Options.LabelSmoothing is 0.1; want 0: CTC") {
		t.Errorf("error %v", err)
	}
}
