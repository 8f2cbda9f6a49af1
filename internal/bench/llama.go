package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/causallm"
	"github.com/gotrainer/gotrainer/models/dpo"
	"github.com/gotrainer/gotrainer/models/grpo"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/llama"
	"github.com/gotrainer/gotrainer/models/sft"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
)

// Sizes of the workloads of language models; all but the first are tokens.
const (
	articles           = 2000 // read of AG News, those with fewer tokens than leastArticle left out
	leastArticle       = 48
	mostArticle        = 96
	promptTokens       = 16
	endOfPair          = 64 // of a prompt with an answer
	completionTokens   = 32
	generations        = 8                  // completions of a prompt
	endToken, padToken = 102 /* [SEP] */, 0 /* [PAD] */
)

// trainLM trains a new Llama to continue articles.
func trainLM(o settings, w workload, r *recorder) error {
	model, texts, err := newLlama(o, w)
	if err != nil {
		return err
	}
	return fit(o, w, r, model.Task(), whole(texts))
}

// trainSFT does the same as SFTTrainer does it.
func trainSFT(o settings, w workload, r *recorder) error {
	model, texts, err := newLlama(o, w)
	if err != nil {
		return err
	}
	task, err := model.SFTTask(sft.TaskOptions{})
	if err != nil {
		return err
	}
	return fit(o, w, r, task, whole(texts))
}

func whole(texts [][]int64) data.Slice[causallm.Sample] {
	samples := make(data.Slice[causallm.Sample], len(texts))
	for i, ids := range texts {
		samples[i] = causallm.Sample{Text: inputs.Text{InputIDs: ended(ids)}}
	}
	return samples
}

// trainDPO trains it to prefer the continuation of an article to that of the next one.
func trainDPO(o settings, w workload, r *recorder) error {
	model, texts, err := newLlama(o, w)
	if err != nil {
		return err
	}
	samples := make(data.Slice[dpo.Sample], len(texts))
	for i, ids := range texts {
		other := texts[(i+1)%len(texts)]
		samples[i] = dpo.Sample{PromptIDs: ids[:promptTokens],
			ChosenIDs:   ended(ids[promptTokens:min(endOfPair, len(ids))]),
			RejectedIDs: ended(other[promptTokens:min(endOfPair, len(other))])}
	}
	task, err := model.DPOTask(dpo.TaskOptions{})
	if err != nil {
		return err
	}
	return fit(o, w, r, task, samples)
}

// trainGRPO rewards the share of even tokens in what the model writes after the beginning of an
// article. The recorder gets the mean reward: the loss is always near zero.
func trainGRPO(o settings, w workload, r *recorder) error {
	model, texts, err := newLlama(o, w)
	if err != nil {
		return err
	}
	samples := make(data.Slice[grpo.Sample], len(texts))
	for i, ids := range texts {
		samples[i].PromptIDs = ids[:promptTokens/2+i%(promptTokens/2)]
	}
	var mean float64
	r.measure = func() float64 { return mean }
	task, err := model.GRPOTask(grpo.TaskOptions{NumGenerations: generations, MaxCompletionLength: completionTokens,
		Rewards: []grpo.Reward{{Name: "even", Func: func(c grpo.Completions) ([]float64, error) {
			rewards := make([]float64, len(c.IDs))
			mean = 0
			for i, ids := range c.IDs {
				for _, id := range ids {
					rewards[i] += float64(1-id%2) / float64(len(ids))
				}
				mean += rewards[i] / float64(len(rewards))
			}
			return rewards, nil
		}}}})
	if err != nil {
		return err
	}
	w.batch /= generations
	return fit(o, w, r, task, samples)
}

func newLlama(o settings, w workload) (*auto.CausalLanguageModel, [][]int64, error) {
	tokenizer, err := text.LoadTokenizer(filepath.Join(o.data, "models", "bert_base_uncased_vocab", "vocab.txt"))
	if err != nil {
		return nil, nil, err
	}
	texts, err := articlesOf(o.data, tokenizer)
	if err != nil {
		return nil, nil, err
	}
	torch.ManualSeed(seed)
	pad := int64(padToken)
	model, err := auto.NewCausalLM(llama.Config{VocabSize: 30522, HiddenSize: w.hidden, NumLayers: w.layers,
		NumHeads: w.heads, NumKeyValueHeads: w.heads / 2, IntermediateSize: 8 * w.hidden / 3, MaxPositions: 512,
		TieWordEmbeddings: true, PadTokenID: &pad, EOSTokenIDs: []int64{endToken}}, tokenizer)
	return model, texts, err
}

// articlesOf tokenizes the beginnings of the first articles that are long enough.
func articlesOf(folder string, tokenizer *text.Tokenizer) ([][]int64, error) {
	file, err := os.ReadFile(filepath.Join(folder, "ag_news", "sample10k.tsv"))
	if err != nil {
		return nil, err
	}
	var out [][]int64
	for line := range strings.Lines(string(file)) {
		article, _, _ := strings.Cut(line, "\t")
		e, err := tokenizer.Encode(article, &text.EncodeOptions{NoSpecialTokens: true})
		if err != nil {
			return nil, err
		}
		if len(e.IDs) < leastArticle {
			continue
		}
		if out = append(out, e.IDs[:min(mostArticle, len(e.IDs))]); len(out) == articles {
			return out, nil
		}
	}
	return nil, fmt.Errorf("%s has %d articles with at least %d tokens; want %d", folder, len(out), leastArticle, articles)
}

// ended returns a copy of the tokens with the end token.
func ended(ids []int64) []int64 { return append(ids[:len(ids):len(ids)], endToken) }
