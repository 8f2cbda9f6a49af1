// Command run_glue fine-tunes a model on a task of GLUE: run_glue.py of transformers, with its
// flags.
//
//	go run ./examples/run_glue \
//	    --model_name_or_path google-bert/bert-base-cased --task_name mrpc --do_train --do_eval \
//	    --max_seq_length 128 --per_device_train_batch_size 16 --learning_rate 5e-5 --num_train_epochs 3 \
//	    --output_dir runs/mrpc --overwrite_output_dir
//	go run ./examples/run_glue mrpc.yaml                         # the same names in a file, also .json
//	go build ./examples/run_glue                              # on several processes
//	gotrainer launch -n 2 ./run_glue --model_name_or_path google-bert/bert-base-cased ...
//
// The model is a folder or a name on the Hub (docs/models.md), the task comes from the Hub, or from
// --dataset_name: a folder of its TSV, Parquet or CSV files. Every argument of
// transformers.TrainingArguments is a flag (docs/training-arguments.md); those that have no meaning
// here are rejected. The output folder holds what run_glue.py writes: checkpoints, the model with
// its tokenizer, train_results.json, eval_results.json, all_results.json, trainer_state.json and
// predict_results_TASK.txt.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/data/glue"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/run"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/arguments"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// modelArguments and dataArguments are run_glue.py's ModelArguments and DataTrainingArguments.
type modelArguments struct {
	Name       string `name:"model_name_or_path" required:"" help:"Folder of a model, or its name on the Hub."`
	Revision   string `name:"model_revision" default:"main" help:"Branch, tag or commit of a model on the Hub."`
	Mismatched bool   `name:"ignore_mismatched_sizes" help:"Draw a new head if the classes differ from those in the file."`
}

type dataArguments struct {
	Task       string `name:"task_name" required:"" help:"Task of GLUE: cola, mnli, mrpc, qnli, qqp, rte, sst2, stsb, wnli."`
	From       string `name:"dataset_name" default:"nyu-mll/glue" help:"Folder of the task's files, or a data set on the Hub."`
	MaxLength  int    `name:"max_seq_length" default:"128" help:"Tokens of a text; longer ones are cut."`
	Pad        bool   `name:"pad_to_max_length" default:"true" help:"Pad to max_seq_length, not to the longest text of a batch."`
	MaxTrain   *int   `name:"max_train_samples" help:"Train on only this many examples, the first ones."`
	MaxEval    *int   `name:"max_eval_samples" help:"Evaluate on only this many examples, the first ones."`
	MaxPredict *int   `name:"max_predict_samples" help:"Predict only this many examples, the first ones."`
	Overwrite  bool   `name:"overwrite_output_dir" help:"Delete an earlier run in the output folder."`
}

// program is one run of the command.
type program struct {
	modelArguments
	dataArguments
	args arguments.TrainingArguments

	main    bool // this process writes the files
	set     *glue.Set
	model   *auto.SequenceClassifier
	classes []int64 // the model's class for each label of the task
	step    *classify.Step
	trainer *trainer.Trainer[classify.Sample, classify.Batch]
}

func main() {
	run.Main(func(ctx context.Context) error { return execute(ctx, os.Args[1:]) })
}

func execute(ctx context.Context, line []string) error {
	var p program
	if err := arguments.Parse(line, &p.modelArguments, &p.dataArguments, &p.args); err != nil {
		return run.Usage(err)
	}
	group, err := dist.Init(ctx, dist.Options{Timeout: time.Duration(p.args.DDPTimeout) * time.Second})
	if err != nil {
		return err
	}
	defer group.Close() //nolint:errcheck // the run is over
	p.main = group.Rank() == 0
	if err := p.load(ctx); err != nil {
		return err
	}
	if err := p.prepare(group); err != nil {
		return err
	}
	for _, do := range []func(context.Context) error{p.train, p.evaluate, p.predict} {
		if err := do(ctx); err != nil {
			return err
		}
	}
	return nil
}

// load reads the task and the model.
func (p *program) load(ctx context.Context) (err error) {
	if _, err := glue.ByName(p.Task); err != nil {
		return run.Usage(fmt.Errorf("--task_name: %w", err))
	}
	if p.set, err = glue.LoadFrom(ctx, p.Task, p.From); err != nil {
		return err
	}
	torch.ManualSeed(uint64(p.args.Seed))
	dir, err := auto.Find(ctx, p.Name, p.Revision)
	if err != nil {
		return err
	}
	o := auto.Options{InitMismatched: p.Mismatched}
	if o.ID2Label, p.classes, err = labels(dir, p.set.Task.Labels); err != nil {
		return err
	}
	if p.set.Task.Labels == nil { // STS-B
		o.ID2Label, o.ProblemType = []string{"LABEL_0"}, classify.Regression
	}
	if p.model, err = auto.SequenceClassification(ctx, dir, o); err != nil {
		return err
	}
	limit := int(p.model.Limits().MaxLength)
	if p.MaxLength > limit {
		fmt.Fprintf(os.Stderr, "run_glue: --max_seq_length %d is more than the model takes; texts are cut to %d "+
			"tokens\n",
			p.MaxLength, limit)
		p.MaxLength = limit
	}
	return nil
}

// labels returns the names of the model's classes, and the class of each label of the task. A model
// with the task's labels in another order keeps its order, since its weights depend on it.
func labels(dir string, task []string) (names []string, classes []int64, err error) {
	own, same := make([]int64, len(task)), make([]int64, len(task))
	for i := range same {
		same[i] = int64(i)
	}
	d, err := pretrained.ReadConfig(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return task, same, nil // loading the model reports what is missing
	}
	if err != nil {
		return nil, nil, err
	}
	head, err := classify.DecodeHead(d)
	if err != nil || len(head.ID2Label) == 0 || task == nil || strings.HasPrefix(head.ID2Label[0], "LABEL_") {
		return task, same, err
	}
	for i, label := range task {
		own[i] = int64(slices.IndexFunc(head.ID2Label, func(l string) bool { return strings.EqualFold(l, label) }))
	}
	if len(head.ID2Label) != len(task) || slices.Contains(own, -1) {
		fmt.Fprintf(os.Stderr, "run_glue: the model's labels %q are not those of the task, %q, and are ignored\n",
			head.ID2Label, task)
		return task, same, nil
	}
	return head.ID2Label, own, nil
}

// prepare creates the trainer.
func (p *program) prepare(group *dist.Group) error {
	if p.model.Tokenizer == nil {
		return fmt.Errorf("%s has no tokenizer; want tokenizer.json or vocab.txt next to the weights", p.Name)
	}
	tokenizer, err := p.model.Tokenizer.WithPadding(nil)
	if err == nil {
		p.model.Tokenizer, err = tokenizer.WithTruncation(&text.Truncation{MaxLength: p.MaxLength})
	}
	if err != nil {
		return err
	}
	o, e := trainer.Options{Overwrite: p.Overwrite}, engine.Options{}
	if group.World() > 1 {
		o.Group = group
	}
	if err := p.args.Apply(&o, &e); err != nil {
		return err
	}
	scores, err := glue.Metrics(p.Task)
	if err != nil {
		return err
	}
	task := classify.TaskOptions{Metrics: scores.Labels, ValueMetrics: scores.Values}
	switch {
	case p.Pad:
		task.Padding.Length = p.MaxLength
	case p.args.FP16:
		task.Padding.Multiple = 8
	}
	if p.step, err = classify.NewStep(p.model, task, e); err != nil {
		return err
	}
	p.trainer, err = trainer.New(p.step, o)
	return err
}

// samples tokenizes the first examples of a part, up to the limit.
func (p *program) samples(ctx context.Context, what string, examples data.Dataset[glue.Example], limit *int) (
	data.Slice[classify.Sample], error) {
	if examples == nil {
		return nil, fmt.Errorf("--do_%s needs a part of %s that %s does not have", what, p.set.Task.Name, p.From)
	}
	if limit != nil {
		examples = data.Take(examples, *limit)
	}
	list, err := data.Collect(ctx, examples, p.sample)
	return list, err
}

// sample tokenizes an example.
func (p *program) sample(e glue.Example) (classify.Sample, error) {
	in := text.Single(e.A)
	if p.set.Task.Pairs() {
		in = text.Pair(e.A, e.B)
	}
	encoding, err := p.model.Tokenizer.EncodeInput(in, nil)
	if err != nil {
		return classify.Sample{}, err
	}
	t := p.model.Limits().Of(encoding)
	s := classify.Sample{InputIDs: t.InputIDs, TokenTypeIDs: t.TokenTypeIDs, AttentionMask: t.AttentionMask,
		Label: int64(e.Label)}
	if p.set.Task.Labels == nil {
		s.Label, s.Targets = 0, []float32{float32(e.Score)}
	} else if e.Label < 0 {
		s.Label = engine.IgnoreIndex
	} else {
		s.Label = p.classes[e.Label]
	}
	return s, nil
}

func (p *program) train(ctx context.Context) error {
	if !p.args.DoTrain {
		return nil
	}
	samples, err := p.samples(ctx, "train", p.set.Train, p.MaxTrain)
	if err != nil {
		return err
	}
	var valid data.Dataset[classify.Sample]
	if p.args.EvalStrategy != "no" {
		if valid, err = p.samples(ctx, "eval", p.set.Validation, p.MaxEval); err != nil {
			return err
		}
	}
	result, err := p.trainer.Fit(ctx, samples, valid)
	if err != nil {
		return err
	}
	if err := p.save(); err != nil {
		return err
	}
	result.Metrics["train_samples"] = float64(len(samples))
	p.trainer.LogMetrics("train", result.Metrics)
	if err := p.trainer.SaveMetrics("train", result.Metrics); err != nil {
		return err
	}
	return p.trainer.SaveState()
}

// output returns the path of a file in the run's folder.
func (p *program) output(name string) string {
	if p.args.OutputDir == "" {
		return filepath.Join("trainer_output", name)
	}
	return filepath.Join(p.args.OutputDir, name)
}

// save writes model and tokenizer into the output folder, on the main process only.
func (p *program) save() error {
	if !p.main {
		return nil
	}
	return p.model.Save(p.output(""))
}

// part is a set of examples, and the suffix of its metrics and files.
type part struct {
	suffix   string
	examples data.Dataset[glue.Example]
}

// parts returns the parts of a task in the same order on all processes. Only MNLI has a mismatched
// part.
func parts(examples, mismatched data.Dataset[glue.Example]) []part {
	all := []part{{"", examples}}
	if mismatched != nil {
		all = append(all, part{"-mm", mismatched})
	}
	return all
}

func (p *program) evaluate(ctx context.Context) error {
	if !p.args.DoEval {
		return nil
	}
	all := trainer.Logs{}
	for _, part := range parts(p.set.Validation, p.set.ValidationMismatched) {
		samples, err := p.samples(ctx, "eval", part.examples, p.MaxEval)
		if err != nil {
			return err
		}
		numbers, err := p.trainer.EvaluateAs(ctx, samples, "eval")
		if err != nil {
			return err
		}
		numbers["eval_samples"] = float64(len(samples))
		for name, value := range numbers {
			all[name+strings.ReplaceAll(part.suffix, "-", "_")] = value
		}
	}
	p.trainer.LogMetrics("eval", all)
	return p.trainer.SaveMetrics("eval", all)
}

// predict writes predict_results_TASK.txt, with a line for each example of the test set.
func (p *program) predict(ctx context.Context) error {
	if !p.args.DoPredict {
		return nil
	}
	for _, part := range parts(p.set.Test, p.set.TestMismatched) {
		samples, err := p.samples(ctx, "predict", part.examples, p.MaxPredict)
		if err != nil {
			return err
		}
		if _, err := p.trainer.Predict(ctx, samples, "predict"); err != nil {
			return err
		}
		if !p.main {
			continue
		}
		path := p.output("predict_results_" + p.Task + part.suffix + ".txt")
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(p.predictions()), 0o666); err != nil {
			return err
		}
	}
	return nil
}

// predictions returns the content of that file: numbers with three decimals for STS-B, otherwise
// names of classes.
func (p *program) predictions() string {
	var b strings.Builder
	b.WriteString("index\tprediction\n")
	found := p.step.Predictions()
	width := int(found.Logits[0].Size(1))
	for i, logits := 0, torch.Values[float32](found.Logits[0]); i < found.Rows; i++ {
		row := logits[i*width : (i+1)*width]
		if p.set.Task.Labels == nil {
			fmt.Fprintf(&b, "%d\t%3.3f\n", i, row[0])
			continue
		}
		best, at := float32(math.Inf(-1)), 0
		for k, v := range row {
			if v > best {
				best, at = v, k
			}
		}
		fmt.Fprintf(&b, "%d\t%s\n", i, p.set.Task.Labels[slices.Index(p.classes, int64(at))])
	}
	return b.String()
}
