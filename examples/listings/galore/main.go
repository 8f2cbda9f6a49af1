// Command galore is the listing of Hugging Face's Trainer guide that trains a Gemma of 2.5 billion
// random weights on film reviews, with GaLore's projections in the attention and feed-forward
// layers. The guide's two other listings differ only in trainingArgs: optim_args "rank=64,
// update_proj_gap=100, scale=0.10", and optim "galore_adamw_layerwise".
package main

import (
	"context"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/data/parquet"
	"github.com/gotrainer/gotrainer/hub"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/causallm"
	"github.com/gotrainer/gotrainer/run"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/arguments"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

type review struct {
	Text string `table:"text"`
}

var trainingArgs = map[string]any{
	"output_dir":                  "./test-galore",
	"max_steps":                   100,
	"per_device_train_batch_size": 2,
	"optim":                       "galore_adamw",
	"optim_target_modules":        []string{"attn", "mlp"},
}

func main() { run.Main(train) }

func train(ctx context.Context) error {
	var args arguments.TrainingArguments
	if err := arguments.ParseDict(trainingArgs, &args); err != nil {
		return err
	}
	imdb, err := hub.Fetch(ctx, "stanfordnlp/imdb", &hub.FetchOptions{Type: hub.Dataset, Allow: []string{"*/train-*"}})
	if err != nil {
		return err
	}
	dataset, err := parquet.Open[review](imdb.Path("plain_text/train-00000-of-00001.parquet"), parquet.Options{})
	if err != nil {
		return err
	}
	model, err := auto.CausalLM(ctx, "google/gemma-2b", auto.Options{FromConfig: true})
	if err != nil {
		return err
	}
	model.Tokenizer, err = model.Tokenizer.WithTruncation(&text.Truncation{MaxLength: 512})
	if err != nil {
		return err
	}
	o, e := trainer.Options{Semantics: semantics.HuggingFace}, engine.Options{}
	if err := args.Apply(&o, &e); err != nil {
		return err
	}
	step, err := engine.New(model.Task(), e)
	if err != nil {
		return err
	}
	t, err := trainer.New(step, o)
	if err != nil {
		return err
	}
	tokenize := func(r review) (causallm.Sample, error) { return model.Encode(r.Text) }
	_, err = t.Fit(ctx, data.Map(dataset, tokenize), nil)
	return err
}
