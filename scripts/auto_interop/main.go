// Auto_interop loads a model that transformers saved, writes its logits and saves it again: the Go
// half of auto_interop.py, which says how to run both.
//
//	auto_interop HEAD IN OUT
//
// HEAD is what transformers' class ends with, such as TokenClassification. IN has inputs.safetensors
// (ids, mask) beside the model; OUT gets logits.safetensors beside it.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: auto_interop HEAD IN OUT")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(head, in, out string) error {
	m, err := load(head, in)
	if err != nil {
		return err
	}
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
			r := &result{forward(head, m, ids, mask)}
			if err := nn.Save(filepath.Join(out, "logits.safetensors"), r, nil); err != nil {
				panic(&torch.Error{Op: "Save", Msg: err.Error()})
			}
		})
	})
}

// forward is of the tokens, or of the first five of each text as one that is written about it.
func forward(head string, m *auto.Model, ids, mask torch.Tensor) torch.Tensor {
	if head != "Seq2SeqLM" {
		return m.Forward(ids, mask, torch.Tensor{})
	}
	return (&auto.Seq2SeqLanguageModel{Model: m}).ForwardPair(ids, mask, ids.Narrow(1, 0, 5))
}

func load(head, dir string) (*auto.Model, error) {
	ctx := context.Background()
	switch head {
	case "SequenceClassification":
		m, err := auto.SequenceClassification(ctx, dir, auto.Options{})
		if err != nil {
			return nil, err
		}
		return m.Model, nil
	case "TokenClassification":
		m, err := auto.TokenClassification(ctx, dir, auto.Options{})
		if err != nil {
			return nil, err
		}
		return m.Model, nil
	case "QuestionAnswering":
		m, err := auto.QuestionAnswering(ctx, dir, auto.Options{})
		if err != nil {
			return nil, err
		}
		return m.Model, nil
	case "MaskedLM":
		m, err := auto.MaskedLM(ctx, dir, auto.Options{})
		if err != nil {
			return nil, err
		}
		return m.Model, nil
	case "Seq2SeqLM":
		m, err := auto.Seq2SeqLM(ctx, dir, auto.Options{})
		if err != nil {
			return nil, err
		}
		return m.Model, nil
	case "CausalLM":
		m, err := auto.CausalLM(ctx, dir, auto.Options{})
		if err != nil {
			return nil, err
		}
		return m.Model, nil
	}
	return nil, fmt.Errorf("there is no head %q", head)
}
