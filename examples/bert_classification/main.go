// Command bert_classification trains BERT to classify texts, and classifies texts with the trained
// model.
//
//	# Spam among text messages, from scratch: a minute on two cores.
//	go run ./examples/bert_classification
//	go run ./examples/bert_classification -predict "Call now to claim your prize"
//	# The Hugging Face course's example.
//	go run ./examples/bert_classification -model google-bert/bert-base-uncased -task mrpc
//	# Your texts.
//	go run ./examples/bert_classification -model DIR -task csv -train reviews.csv
//
// A task is sms, one of GLUE's (mrpc, sst2, cola, rte, qnli, qqp, mnli, wnli; -data names the
// folder of their TSV files) or csv. The model is a folder or a name on the Hugging Face Hub;
// without one a small BERT starts from random weights and a vocabulary learned from the training
// texts.
//
// The run's folder (-out) holds checkpoints, metrics.jsonl, metrics.csv, curves.png, misread.tsv
// and model/, which transformers.AutoModelForSequenceClassification.from_pretrained loads. Ctrl-C
// saves and exits; -resume continues.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/gotrainer/gotrainer/data/glue"
	"github.com/gotrainer/gotrainer/run"
	"github.com/gotrainer/gotrainer/torch"
)

// options are the values of the flags.
type options struct {
	out, model, revision, task, data, train, valid, text, pair, label, semantics, device string

	quick, resume, overwrite, predict, json, paddingFree    bool
	batch, steps, maxLength, vocab, hidden, layers, threads int
	logEvery                                                int
	epochs, rate, holdOut, dropWords                        float64
	seed                                                    uint64
	texts                                                   []string
}

// usage is printed by -h before the list of flags.
const usage = `Usage: bert_classification [flags]                  teach BERT to classify texts
       bert_classification -predict [flags] TEXT... classify texts with what it learnt

Without flags it learns to find spam among text messages, from nothing: a minute
on two cores. Ctrl-C saves and leaves; -resume continues.

Flags:
`

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("bert_classification", flag.ContinueOnError)
	f.StringVar(&o.out, "out", "runs/bert_classification", "folder of the run")
	f.StringVar(&o.model, "model", "", "where to start: folder or Hub name of a BERT or a similar encoder "+
		"(docs/models.md); for "+
		"-predict: the folder of the model; default: a small random BERT")
	f.StringVar(&o.revision, "revision", "", "branch, tag or commit of a -model on the Hub; default: main")
	f.StringVar(&o.task, "task", "sms", "sms, csv, or a task of GLUE: mrpc, sst2, cola, rte, ...")
	f.StringVar(&o.data, "data", "", "folder, or name on the Hub, of a task of GLUE: its own TSV files, or "+
		"Parquet or CSV files of datasets; default: "+glue.Dataset+" on the Hub")
	f.StringVar(&o.train, "train", "", "CSV, TSV or JSONL file of -task csv; its first line names the columns")
	f.StringVar(&o.valid, "valid", "", "file of -task csv to evaluate with; default: a share of -train, see -hold-out")
	f.StringVar(&o.text, "text", "text", "column of the texts")
	f.StringVar(&o.pair, "pair", "", "column of second texts, where pairs are classified")
	f.StringVar(&o.label, "label", "label", "column of the labels")
	f.Float64Var(&o.holdOut, "hold-out", 0.15, "share of the texts that is set aside for the evaluation, where the "+
		"task has no file for it")
	f.Float64Var(&o.epochs, "epochs", 0, "passes over the training set; default: 3, without -model 6")
	f.IntVar(&o.steps, "steps", 0, "updates, instead of -epochs")
	f.IntVar(&o.batch, "batch", 0, "texts per update; default: 8, without -model 16")
	f.Float64Var(&o.rate, "lr", 0, "peak learning rate; default: 5e-5, without -model 1e-3")
	f.IntVar(&o.maxLength, "max-length", 0, "tokens of a text, special ones included; longer texts are cut; default: "+
		"the most the model can take, without -model 128")
	f.IntVar(&o.vocab, "vocab", 4000, "tokens of the vocabulary, without -model")
	f.IntVar(&o.hidden, "hidden", 64, "width of the model, a multiple of 32, without -model")
	f.IntVar(&o.layers, "layers", 2, "layers of the model, without -model")
	f.Float64Var(&o.dropWords, "drop-words", 0.15, "share of a text's tokens that are masked, different ones each "+
		"time, without -model")
	f.StringVar(&o.device, "device", "auto", "where to train: auto (the GPU if there is one), cpu, cuda or cuda:N")
	f.StringVar(&o.semantics, "semantics", "default", "details of the loop: default, or huggingface for those of "+
		"transformers.Trainer")
	f.IntVar(&o.logEvery, "log", 0, "updates between log lines; default: 500 (transformers), without "+
		"-model 50")
	f.IntVar(&o.threads, "threads", 0, "threads within one operator; default: one per core")
	f.Uint64Var(&o.seed, "seed", 42, "seed of weights, order and held-out texts")
	f.BoolVar(&o.paddingFree, "padding-free", false, "leave padding out of the computation, which is faster; the "+
		"numbers differ, since dropout hits other places")
	f.BoolVar(&o.quick, "quick", false, "a shorter run, to see that it works: 3 epochs, or 20 updates of a -model; "+
		"the model will not be as good")
	f.BoolVar(&o.resume, "resume", false, "continue with the run in -out")
	f.BoolVar(&o.overwrite, "overwrite", false, "delete an earlier run in -out")
	f.BoolVar(&o.predict, "predict", false, "classify the texts after the flags, or the lines of standard input, "+
		"with the model of -out; a tab separates a pair")
	f.BoolVar(&o.json, "json", false, "-predict prints a line of JSON for each text, with all logits")
	if err := run.ParseFlags(f, usage, args); err != nil {
		return o, err
	}
	o.texts = f.Args()
	return o, o.check()
}

// check rejects invalid or contradictory flags before anything is loaded.
func (o options) check() error {
	for _, n := range []struct {
		name  string
		value float64
	}{{"epochs", o.epochs}, {"steps", float64(o.steps)}, {"batch", float64(o.batch)}, {"lr", o.rate},
		{"max-length", float64(o.maxLength)}, {"log", float64(o.logEvery)}, {"threads", float64(o.threads)}} {
		if !(n.value >= 0) {
			return fmt.Errorf("-%s is %g; want a positive number, or none for the default", n.name, n.value)
		}
	}
	switch {
	case !o.predict && len(o.texts) > 0:
		return fmt.Errorf("%q is not a flag; give texts to classify after -predict", o.texts[0])
	case o.json && !o.predict:
		return errors.New("-json is for -predict")
	case o.predict:
		return nil
	case o.task == "csv" && o.train == "":
		return errors.New("-task csv needs -train FILE")
	case o.task != "csv" && (o.train != "" || o.valid != "" || o.pair != ""):
		return errors.New("-train, -valid and -pair are for -task csv")
	case o.task == "sms" && o.data != "":
		return errors.New("-task sms has its own texts; -data is for the tasks of GLUE")
	case o.task == "csv" && o.data != "":
		return errors.New("-task csv reads -train and -valid; -data is for the tasks of GLUE")
	case o.steps > 0 && o.epochs > 0:
		return errors.New("-steps and -epochs both set the length of the run; want one of them")
	case !(o.holdOut > 0 && o.holdOut < 1):
		return fmt.Errorf("-hold-out is %g; want a share between 0 and 1", o.holdOut)
	case !(o.dropWords >= 0 && o.dropWords < 1):
		return fmt.Errorf("-drop-words is %g; want 0 or a share below 1", o.dropWords)
	case o.hidden < 32 || o.hidden%32 != 0:
		return fmt.Errorf("-hidden is %d; want a multiple of 32", o.hidden)
	case o.semantics != "default" && o.semantics != "huggingface":
		return fmt.Errorf("-semantics is %q; want default or huggingface", o.semantics)
	}
	return nil
}

func main() {
	run.Main(func(ctx context.Context) error {
		o, err := parse(os.Args[1:])
		if err != nil {
			return run.Usage(err)
		}
		return execute(ctx, o)
	})
}

func execute(ctx context.Context, o options) error {
	if o.threads > 0 {
		torch.SetThreads(o.threads)
	}
	if o.predict {
		return predict(o, os.Stdin, os.Stdout)
	}
	return train(ctx, o)
}
