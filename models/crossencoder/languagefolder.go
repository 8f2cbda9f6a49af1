package crossencoder

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/internal/sbert"
	"github.com/gotrainer/gotrainer/models/pretrained"
)

// The module that makes scores of logits, and where the language model puts these.
const (
	logitScoreKind   = "LogitScore"
	logitScoreClass  = "sentence_transformers.cross_encoder.modules.logit_score." + logitScoreKind
	logitScoreFolder = "1_" + logitScoreKind
	logitsName       = "causal_logits"
)

// The words whose logits make the score of a language model without modules.json.
const trueToken, falseToken = "yes", "no"

// judges is what sentence_bert_config.json says of a language model.
var judges = sbert.Expected{Task: `"text-generation"`, TaskNeeded: true, Output: `"` + logitsName + `"`,
	Modality: `{"text":{"method":"forward","method_output_name":"logits"}}`, Messages: true}

// isLanguageModel reports whether the files in a folder are those of a language model, by the first
// of the architectures of config.json. An adapter has no such file.
func isLanguageModel(dir string) (bool, error) {
	var c struct{ Architectures []string }
	if err := sbert.ReadJSON(dir, pretrained.ConfigName, &c); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return len(c.Architectures) > 0 && strings.HasSuffix(c.Architectures[0], "ForCausalLM"), nil
}

// loadLanguageModel loads a language model that scores as s says; nil: by the words yes and no.
func loadLanguageModel(ctx context.Context, model string, s *LogitScore, o auto.Options) (*CrossEncoder, error) {
	if o.ID2Label != nil || o.ProblemType != "" {
		return nil, fmt.Errorf("%s is a language model, which gives a pair one score; leave Options.ID2Label and "+
			"ProblemType out, or classify with auto.SequenceClassification and New", model)
	}
	lm, err := auto.CausalLM(ctx, model, o)
	if err != nil {
		return nil, err
	}
	if lm.Tokenizer != nil && lm.PadToken() == "" {
		return nil, fmt.Errorf("the tokenizer of %s has no pad_token, without which sentence-transformers scores no pairs; "+
			"name one of its tokens in %s, often that of eos_token", model, tokenizerName)
	}
	if s == nil {
		if lm.Tokenizer == nil {
			return nil, fmt.Errorf("%s has no tokenizer to find the tokens %q and %q with; want one beside the weights", model,
				trueToken, falseToken)
		}
		words, err := tokensOf(lm.Tokenizer, trueToken, falseToken)
		if err != nil {
			return nil, err
		}
		s = &words
	}
	if err := s.check(lm.Limits().VocabSize); err != nil {
		return nil, err
	}
	return of(lm.Model, s), nil
}

// readLogitScore reads the settings of the module LogitScore.
func readLogitScore(dir string) (*LogitScore, error) {
	file := filepath.Join(dir, pretrained.ConfigName)
	d := pretrained.Document{}
	if err := sbert.ReadJSON(dir, pretrained.ConfigName, &d); err != nil {
		return nil, err
	}
	var id *int64
	s := &LogitScore{}
	err := d.Decode([]pretrained.Field{{Key: "true_token_id", Value: &id},
		{Key: "false_token_id", Value: &s.FalseTokenID}})
	if err == nil && id == nil {
		err = errors.New("true_token_id is missing; want the token whose logit is the score")
	}
	if err == nil {
		err = d.Demand("module_input_name", judges.Output)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	s.TrueTokenID = *id
	return s, nil
}

// save writes the settings of the module LogitScore.
func (s LogitScore) save(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	return pretrained.WriteJSON(dir, pretrained.ConfigName, map[string]any{"true_token_id": s.TrueTokenID,
		"false_token_id": s.FalseTokenID, "module_input_name": logitsName})
}
