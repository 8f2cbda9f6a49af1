package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"regexp"

	"github.com/gotrainer/gotrainer/hub"
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/distilbert"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/roberta"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
)

// model is what BERT, RoBERTa and DistilBERT have in common.
type model interface {
	classify.Model
	Save(dir string) error
}

// classifier is a model with the tokenizer that it was trained with.
type classifier struct {
	model     model
	tokenizer *text.Tokenizer
	from      string // the folder that both came from; empty: they are new
}

// freshClassifier makes a small BERT with random weights, and a vocabulary of the training texts.
func freshClassifier(o options, t task) (c classifier, err error) {
	if c.tokenizer, err = text.TrainBert(t.texts(), text.BertOptions{Cased: true}, text.TrainOptions{VocabSize: o.vocab,
		MinFrequency: 2}); err != nil {
		return c, err
	}
	torch.ManualSeed(o.seed)
	c.model, err = bert.NewClassifier(bert.Config{
		VocabSize: int64(c.tokenizer.VocabSize()), HiddenSize: int64(o.hidden), NumLayers: int64(o.layers),
		NumHeads:         max(1, int64(o.hidden)/32),
		IntermediateSize: 4 * int64(o.hidden), MaxPositions: int64(o.maxLength), Head: bert.Head{ID2Label: t.labels},
		// BERT's own 0.02 is for 768 columns: so narrow a model would stand still for an epoch or
		// two
		InitializerRange: 0.05,
	})
	return c, err
}

// texts are all texts of the training set.
func (t task) texts() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, e := range t.train {
			if !yield(e.a) || t.pairs && !yield(e.b) {
				return
			}
		}
	}
}

// pretrainedClassifier begins with a model of -model, whose last layer is new if it has other
// classes.
func pretrainedClassifier(ctx context.Context, o options, labels []string) (classifier, error) {
	dir, err := findModel(ctx, o)
	if err != nil {
		return classifier{}, err
	}
	torch.ManualSeed(o.seed)
	c, report, err := loadClassifier(dir, transformer.LoadOptions{Head: classify.Head{ID2Label: labels},
		InitMismatched: true})
	if err != nil {
		return c, err
	}
	fmt.Fprint(os.Stderr, report)
	return c, nil
}

// hubName is how the Hub names its models: bert-base-uncased, or owner/name.
var hubName = regexp.MustCompile(`^[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?$`)

// findModel returns the folder of -model, which it fetches if it is on the Hub.
func findModel(ctx context.Context, o options) (string, error) {
	if info, err := os.Stat(o.model); err == nil {
		if !info.IsDir() {
			return "", fmt.Errorf("-model %s is a file; name the folder that has config.json and the weights", o.model)
		}
		return o.model, nil
	}
	if !hubName.MatchString(o.model) {
		return "", fmt.Errorf("-model %s: there is no such folder, and it is no name on the Hub", o.model)
	}
	files := hub.FetchOptions{Revision: o.revision, Allow: []string{"config.json", "model*.safetensors*",
		"tokenizer.json", "tokenizer_config.json", "vocab.txt"}}
	repo, err := hub.Fetch(ctx, o.model, &files)
	if err != nil {
		return "", fmt.Errorf("-model %s: there is no such folder, and the Hub says: %w", o.model, err)
	}
	if weights, err := filepath.Glob(filepath.Join(repo.Dir, "model*.safetensors")); err == nil && len(weights) == 0 {
		files.Allow = append(files.Allow, "pytorch_model*.bin*")
		if repo, err = hub.Fetch(ctx, o.model, &files); err != nil {
			return "", err
		}
	}
	return repo.Dir, nil
}

// loadClassifier reads a model and its tokenizer.
func loadClassifier(dir string, o transformer.LoadOptions) (c classifier, report *pretrained.Report, err error) {
	config, err := pretrained.ReadConfig(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil, fmt.Errorf("%s holds no model: %w", dir, err)
	}
	if err != nil {
		return c, nil, err
	}
	switch kind := string(config["model_type"]); kind {
	case `"bert"`:
		c.model, report, err = bert.LoadClassifierWith(dir, o)
	case `"roberta"`:
		c.model, report, err = roberta.LoadClassifierWith(dir, o)
	case `"distilbert"`:
		c.model, report, err = distilbert.LoadClassifierWith(dir, o)
	default:
		err = fmt.Errorf("%s: the model_type of config.json is %s; want bert, roberta or distilbert", dir, kind)
	}
	if err != nil {
		return c, report, err
	}
	c.from = dir
	if c.tokenizer, err = text.LoadTokenizer(dir); err != nil {
		return c, report, err
	}
	if c.model.Head().ProblemType != classify.SingleLabel {
		return c, report, fmt.Errorf("%s: its problem_type is %s; this program needs %s", dir,
			c.model.Head().ProblemType, classify.SingleLabel)
	}
	return c, report, nil
}

// truncated makes the tokenizer cut texts to what the model can take, or to maxLength if that is
// positive and less.
func (c classifier) truncated(maxLength int) (classifier, error) {
	limit := int(c.model.Limits().MaxLength)
	if maxLength > limit {
		return c, fmt.Errorf("-max-length is %d, but the model has positions for %d tokens", maxLength, limit)
	}
	if maxLength > 0 {
		limit = maxLength
	}
	var err error
	if c.tokenizer, err = c.tokenizer.WithPadding(nil); err != nil {
		return c, err
	}
	c.tokenizer, err = c.tokenizer.WithTruncation(&text.Truncation{MaxLength: limit})
	return c, err
}

// sample makes token ids of an example.
func (c classifier) sample(e example) (bert.Sample, error) {
	in := text.Single(e.a)
	if e.b != "" {
		in = text.Pair(e.a, e.b)
	}
	encoding, err := c.tokenizer.EncodeInput(in, nil)
	if err != nil {
		return bert.Sample{}, err
	}
	s := bert.Sample{InputIDs: encoding.IDs, Label: int64(e.label)}
	if c.model.Limits().TypeVocabSize > 1 {
		s.TokenTypeIDs = encoding.TypeIDs
	}
	return s, nil
}

// save writes the model and its tokenizer, for transformers and [loadClassifier] to read.
func (c classifier) save(dir string) error {
	if err := c.model.Save(dir); err != nil {
		return err
	}
	if err := c.tokenizer.Save(dir); err != nil {
		return err
	}
	settings := []byte(`{"do_lower_case": false, "tokenizer_class": "BertTokenizer"}` + "\n")
	if c.from != "" {
		var err error
		if settings, err = os.ReadFile(filepath.Join(c.from, "tokenizer_config.json")); errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, "tokenizer_config.json"), settings, 0o666)
}
