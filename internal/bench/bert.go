package main

import (
	"fmt"
	"path/filepath"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/data/glue"
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
)

// mostTokens is the maximum length of pairs; none in MRPC is that long.
const mostTokens = 128

// trainBERT trains a new BERT on MRPC.
func trainBERT(o settings, w workload, r *recorder) error {
	set, err := glue.Open(filepath.Join(o.data, "mrpc"), glue.MRPC)
	if err != nil {
		return err
	}
	samples, err := pairs(o.data, set.Train)
	if err != nil {
		return err
	}
	torch.ManualSeed(seed)
	model, err := newBERT(w)
	if err != nil {
		return err
	}
	task, err := classify.NewTask(model, classify.TaskOptions{Padding: data.Padding{Length: w.width}})
	if err != nil {
		return err
	}
	return fit(o, w, r, task, samples)
}

func newBERT(w workload) (*bert.Classifier, error) {
	model, err := bert.NewClassifier(bert.Config{HiddenSize: w.hidden, NumLayers: w.layers, NumHeads: w.heads,
		IntermediateSize: 4 * w.hidden, HiddenDropout: &w.dropout, AttentionDropout: &w.dropout})
	if err != nil {
		return nil, err
	}
	model.SetPaddingFree(w.paddingFree)
	model.FuseQKVProjections(w.fuseQKV)
	return model, nil
}

// pairs tokenizes pairs of sentences.
func pairs(folder string, set data.Dataset[glue.Example]) (data.Slice[bert.Sample], error) {
	tokenizer, err := text.LoadTokenizer(filepath.Join(folder, "models", "bert_base_uncased_vocab", "vocab.txt"))
	if err != nil {
		return nil, err
	}
	samples := make(data.Slice[bert.Sample], set.Len())
	for i := range samples {
		row, err := set.At(i)
		if err != nil {
			return nil, err
		}
		e, err := tokenizer.EncodePair(row.A, row.B, nil)
		if err != nil {
			return nil, err
		}
		if len(e.IDs) > mostTokens {
			return nil, fmt.Errorf("pair %d has %d tokens; want at most %d", i, len(e.IDs), mostTokens)
		}
		samples[i] = bert.Sample{InputIDs: e.IDs, TokenTypeIDs: e.TypeIDs, Label: int64(row.Label)}
	}
	return samples, nil
}
