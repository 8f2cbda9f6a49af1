// Package expected compares gotrainer with numbers that tests of other projects assert, or that
// PyTorch computed: JSON files in a few known formats. The format is recognised by the fields of a
// file, not by its name, so that new entries need no new code:
//
//	entries, err := expected.Read("schedules.json", expected.Options{Data: "../shared/data"})
//	for _, e := range entries {
//		// nil: passed; an *Unsupported says what is missing; any other error is the first difference
//		fmt.Println(e.Name, e.Run())
//	}
//
// The formats, by the fields that identify them:
//
//	schedules            rates of transformers' and PyTorch's schedules by update         schedules.go
//	plateau              rates of ReduceLROnPlateau by measured value                     schedules.go
//	optimizers           trainings of a network of two layers in float64                  optimizers.go
//	trajectories, evaluate_cases      the line y = ax + b under a trainer                 regression.go, evaluate.go
//	architecture         a convolutional network on MNIST, from PyTorch's weights         mnist.go, architecture.go
//	dev_first8, train60  BERT's forward pass and training                                 tinybert.go
//	cases, dev           texts and pairs with the ids of a tokenizer                      tokens.go
//	hf_trainer, accelerate, pytorch_accelerated, hezar, pymarlin     claims of the peers' tests     peers*.go
//
// Nothing in a file is ignored: a field that does not belong to the format gives an unsupported
// entry that names it. Only texts at the top level are free, because files state their origin
// there.
package expected
