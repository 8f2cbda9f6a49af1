// Command hezar_interop is the Go side of scripts/hezar_interop.py: it loads a model folder in
// Hezar's format, prints the predictions as JSON, and saves the model in that format again. With
// -train it first trains the model on the inputs with compat/hezar's Trainer, and TO is the folder
// that the Trainer saves.
//
//	go run ./scripts/hezar_interop [-train] FROM TO INPUT...
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/gotrainer/gotrainer/compat/hezar"
	"github.com/gotrainer/gotrainer/compat/hezar/datasets"
	"github.com/gotrainer/gotrainer/compat/hezar/repository"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/torch"
)

func main() {
	train := flag.Bool("train", false, "train first")
	flag.Parse()
	const from, to, inputs = 0, 1, 2
	if flag.NArg() <= inputs {
		fmt.Fprintln(os.Stderr, "usage: hezar_interop [-train] FROM TO INPUT...")
		os.Exit(2)
	}
	if err := run(context.Background(), *train, flag.Arg(from), flag.Arg(to), flag.Args()[inputs:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, train bool, from, to string, inputs []string) error {
	torch.SetThreads(1)
	model, err := hezar.LoadModel(ctx, from)
	if err != nil {
		return err
	}
	save := model.Save
	if train {
		if save, err = fit(ctx, model, to+"-run", inputs); err != nil {
			return err
		}
	}
	list := make([]any, len(inputs))
	for i, input := range inputs {
		list[i] = input
	}
	predictions, err := model.Predict(ctx, list...)
	if err != nil {
		return err
	}
	if err := save(to); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(predictions)
}

// fit trains a text model on the inputs, with made-up labels, and returns Trainer.Save.
func fit(ctx context.Context, model *repository.Model, dir string, inputs []string) (func(to string) error, error) {
	classes, tokenizer := int64(len(model.Labels())), model.Preprocessors.Tokenizer
	if strings.HasSuffix(model.Kind(), "_text_classification") {
		var rows data.Slice[datasets.TextRow]
		for i, text := range inputs {
			rows = append(rows, datasets.TextRow{Text: text, Label: int64(i) % classes})
		}
		set, err := datasets.NewTextClassification(rows, tokenizer, datasets.TextOptions{})
		if err != nil {
			return nil, err
		}
		return fitted(ctx, "text_classification", "accuracy", hezar.TextClassification(model), set, dir)
	}
	if strings.HasSuffix(model.Kind(), "_text_generation") { // GPT-2 learns the text itself; here T5 does too
		var rows data.Slice[datasets.SummaryRow]
		for _, text := range inputs {
			rows = append(rows, datasets.SummaryRow{Text: text, Summary: text})
		}
		set, err := datasets.NewTextSummarization(rows, tokenizer, datasets.SummaryOptions{})
		if err != nil {
			return nil, err
		}
		return fitted(ctx, "text_generation", "bleu", hezar.TextGeneration(model), set, dir)
	}
	var rows data.Slice[datasets.TagRow]
	for _, text := range inputs {
		words := strings.Fields(text)
		tags := make([]int64, len(words))
		for i := range tags {
			tags[i] = int64(i) % classes
		}
		rows = append(rows, datasets.TagRow{Words: words, Tags: tags})
	}
	set, err := datasets.NewSequenceLabeling(rows, tokenizer, datasets.TagOptions{})
	if err != nil {
		return nil, err
	}
	return fitted(ctx, "sequence_labeling", "seqeval", hezar.SequenceLabeling(model), set, dir)
}

func fitted[S, B any](ctx context.Context, task, metric string, model hezar.Model[S, B], set data.Dataset[S],
	dir string) (func(to string) error, error) {
	trainer, err := hezar.New(hezar.TrainerConfig{OutputDir: dir, Task: task, UseCPU: true, BatchSize: 2, NumEpochs: 2,
		LearningRate: 1e-3, Metrics: []string{metric}, MixedPrecision: "full"}, model, set,
		hezar.Options[S, B]{EvalDataset: set, Output: io.Discard})
	if err != nil {
		return nil, err
	}
	return trainer.Save, trainer.Train(ctx)
}
