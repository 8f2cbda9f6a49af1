package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// prediction is a model's prediction for a text.
type prediction struct {
	Label  string    `json:"label"`
	Score  float64   `json:"score"` // the probability of the label
	Logits []float32 `json:"logits"`
	class  int
}

// modelFolder is where a run saves its final model.
func modelFolder(out string) string { return filepath.Join(out, "model") }

// predict classifies the texts of the command line, or the lines of standard input.
func predict(o options, in io.Reader, out io.Writer) error {
	dir := o.model
	if dir == "" {
		dir = modelFolder(o.out)
	}
	if _, err := os.Stat(filepath.Join(dir, pretrained.ConfigName)); err != nil {
		return fmt.Errorf("there is no trained model in %s: train one first, or name its folder with -model (%w)", dir,
			err)
	}
	c, err := loadClassifier(context.Background(), dir, auto.Options{})
	if err != nil {
		return err
	}
	if c, err = c.truncated(o.maxLength); err != nil {
		return err
	}
	if len(o.texts) > 0 {
		for _, line := range o.texts {
			if err := c.print(out, line, o.json); err != nil {
				return err
			}
		}
		return nil
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		if err := c.print(out, lines.Text(), o.json); err != nil {
			return err
		}
	}
	return lines.Err()
}

// print classifies a line and prints the result: label, probability and text, or a line of JSON.
func (c classifier) print(w io.Writer, line string, asJSON bool) error {
	a, b, pair := strings.Cut(line, "\t")
	s, err := c.sample(example{a: a, b: b, pair: pair})
	if err != nil {
		return err
	}
	predictions, err := c.classify([]bert.Sample{s})
	if err != nil {
		return err
	}
	if !asJSON {
		_, err = fmt.Fprintf(w, "%s\t%.4f\t%s\n", predictions[0].Label, predictions[0].Score, line)
		return err
	}
	text, err := json.Marshal(struct {
		prediction
		IDs  []int64 `json:"input_ids"`
		Text string  `json:"text"`
	}{predictions[0], s.InputIDs, line})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", text)
	return err
}

// classify classifies samples in batches.
func (c classifier) classify(samples []bert.Sample) ([]prediction, error) {
	task, err := classify.NewTask(c.model, classify.TaskOptions{})
	if err != nil {
		return nil, err
	}
	nn.SetTraining(c.model, false)
	var predictions []prediction
	for start := 0; start < len(samples); start += 32 {
		batch, err := task.Collate(samples[start:min(start+32, len(samples))])
		if err != nil {
			return nil, err
		}
		err = torch.Try(func() {
			torch.NoGrad(func() {
				logits := c.model.Forward(batch.Tensors())
				values, n := torch.Values[float32](logits), int(logits.Size(1))
				for i := range batch.InputIDs.Rows {
					predictions = append(predictions, newPrediction(values[i*n:(i+1)*n], c.model.Head().ID2Label))
				}
			})
		})
		if err != nil {
			return nil, err
		}
	}
	return predictions, nil
}

// newPrediction returns the class with the largest logit, with its softmax probability as the
// score.
func newPrediction(logits []float32, labels []string) prediction {
	p := prediction{Logits: logits}
	for i, v := range logits {
		if v > logits[p.class] {
			p.class = i
		}
	}
	sum := 0.0
	for _, v := range logits {
		sum += math.Exp(float64(v - logits[p.class]))
	}
	p.Label, p.Score = labels[p.class], 1/sum
	return p
}
