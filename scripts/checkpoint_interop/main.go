// Checkpoint_interop trains up to a given update. It is the Go half of checkpoint_interop.py, which
// describes how to run both.
//
//	checkpoint_interop MODEL RUN STOP
//	checkpoint_interop state DIR FIRST STOP
//
// MODEL is a folder with rows.json and a BERT saved by transformers, RUN the output folder, whose
// newest checkpoint is resumed, STOP the update at which the process ends. The second form resumes
// DIR/state-FIRST, which accelerate saved.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

func main() {
	var err error
	switch args := os.Args[1:]; len(args) {
	case 3:
		err = run(args[0], args[1], args[2])
	case 4:
		err = runState(args[1], args[2], args[3])
	default:
		err = errors.New("usage: checkpoint_interop MODEL RUN STOP, or state DIR FIRST STOP")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func runState(dir, first, stop string) error {
	if err := torch.Reproducible(1); err != nil {
		return err
	}
	from, err := strconv.Atoi(first)
	if err != nil {
		return err
	}
	to, err := strconv.Atoi(stop)
	if err != nil {
		return err
	}
	return continueState(dir, from, to)
}

// stopAt is a callback that ends the run at an update.
type stopAt int

func (s stopAt) StepEnd(r *trainer.Run) error {
	if r.GlobalStep == int(s) {
		r.Stop("the other language continues")
	}
	return nil
}

// row is a sample of rows.json.
type row struct {
	IDs   []int64 `json:"input_ids"`
	Label int64   `json:"labels"`
}

func run(model, dir, stop string) error {
	if err := torch.Reproducible(1); err != nil {
		return err
	}
	last, err := strconv.Atoi(stop)
	if err != nil {
		return err
	}
	rows, err := readRows(filepath.Join(model, "rows.json"))
	if err != nil {
		return err
	}
	m, err := auto.SequenceClassification(context.Background(), model, auto.Options{})
	if err != nil {
		return err
	}
	step, err := classify.NewStep(m, classify.TaskOptions{}, engine.Options{
		Optimizer: optim.AdamW{LR: 1e-3, WeightDecay: new(0.01), Implementation: optim.Fused}})
	if err != nil {
		return err
	}
	t, err := trainer.New(step, trainer.Options{OutputDir: dir, ResumeFrom: trainer.Latest, MaxSteps: 9, BatchSize: 4,
		Log: trainer.Every(1, trainer.Update), Save: trainer.Every(3, trainer.Update), TransformersFiles: true,
		Semantics: semantics.HuggingFace, Callbacks: []any{stopAt(last)}, Progress: io.Discard})
	if err != nil {
		return err
	}
	_, err = t.Fit(context.Background(), rows, nil)
	return err
}

func readRows(path string) (data.Slice[classify.Sample], error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var rows []row
	if err := json.Unmarshal(content, &rows); err != nil {
		return nil, err
	}
	var samples data.Slice[classify.Sample]
	for _, r := range rows {
		samples = append(samples, classify.Sample{InputIDs: r.IDs, Label: r.Label})
	}
	return samples, nil
}
