// Bert_interop loads a classifier that transformers saved, writes its logits and saves it again:
// the Go half of bert_interop.py, which says how to run both.
//
//	bert_interop IN OUT
//
// IN has inputs.safetensors (ids, mask) beside the model; OUT gets logits.safetensors beside it.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/distilbert"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/roberta"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// model is what the three packages' classifiers have in common.
type model interface {
	classify.Model
	Save(dir string) error
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: bert_interop IN OUT")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(in, out string) error {
	m, report, err := load(in)
	if err != nil {
		return err
	}
	fmt.Fprint(os.Stderr, report)
	if err := m.Save(out); err != nil {
		return err
	}
	inputs, err := pretrained.OpenFile(filepath.Join(in, "inputs.safetensors"))
	if err != nil {
		return err
	}
	defer inputs.Close() //nolint:errcheck // it was only read
	ids, err := inputs.Read("ids")
	if err != nil {
		return err
	}
	mask, err := inputs.Read("mask")
	if err != nil {
		return err
	}
	type result struct {
		Logits torch.Tensor `buffer:"logits"`
	}
	return torch.Try(func() {
		torch.SetThreads(1)
		nn.SetTraining(m, false)
		torch.NoGrad(func() {
			r := &result{m.Forward(ids, mask, torch.Tensor{})}
			if err := nn.Save(filepath.Join(out, "logits.safetensors"), r, nil); err != nil {
				panic(&torch.Error{Op: "Save", Msg: err.Error()})
			}
		})
	})
}

// load finds out which model it is.
func load(dir string) (model, *pretrained.Report, error) {
	d, err := pretrained.ReadConfig(dir)
	if err != nil {
		return nil, nil, err
	}
	switch kind := string(d["model_type"]); kind {
	case `"bert"`:
		return bert.LoadClassifier(dir, bert.Head{})
	case `"roberta"`:
		return roberta.LoadClassifier(dir, roberta.Head{})
	case `"distilbert"`:
		return distilbert.LoadClassifier(dir, distilbert.Head{})
	default:
		return nil, nil, fmt.Errorf("%s: model_type is %s; want bert, roberta or distilbert", dir, kind)
	}
}
