// Command hezar_interop is the Go side of scripts/hezar_interop.py: it loads a folder of Hezar's,
// predicts, prints what it predicted as JSON, and saves the model as a folder of Hezar's again.
//
//	go run ./scripts/hezar_interop image2text FROM TO PICTURE...
//	go run ./scripts/hezar_interop text_classification FROM TO TEXT...
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/gotrainer/gotrainer/compat/hezar/repository"
	"github.com/gotrainer/gotrainer/torch"
)

func main() {
	const command, kind, from, to = 1, 1, 2, 3
	if len(os.Args) <= to+command {
		fmt.Fprintln(os.Stderr, "usage: hezar_interop image2text|text_classification FROM TO INPUT...")
		os.Exit(2)
	}
	if err := run(os.Args[kind], os.Args[from], os.Args[to], os.Args[to+1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(kind, from, to string, inputs []string) error {
	if err := torch.Load(); err != nil {
		return err
	}
	torch.SetThreads(1)
	var predicted any
	switch kind {
	case "image2text":
		m, err := repository.LoadImage2Text(from)
		if err != nil {
			return err
		}
		if predicted, err = m.Predict(inputs...); err != nil {
			return err
		}
		if err := m.Save(to); err != nil {
			return err
		}
	case "text_classification":
		m, err := repository.LoadTextClassification(from)
		if err != nil {
			return err
		}
		const top = 9 // all of them
		if predicted, err = m.Predict(top, inputs...); err != nil {
			return err
		}
		if err := m.Save(to); err != nil {
			return err
		}
	default:
		return fmt.Errorf("no kind %q; want image2text or text_classification", kind)
	}
	return json.NewEncoder(os.Stdout).Encode(predicted)
}
