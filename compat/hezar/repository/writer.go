package repository

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/compat/hezar/internal/configfile"
	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/text/hezar"
	"github.com/gotrainer/gotrainer/torch"
)

// Models that generate texts: T5TextGeneration and GPT2TextGeneration.

// The networks, with the field names of Hezar's classes.
type (
	t5Network struct {
		T5 *auto.Model `module:"t5"`
	}
	gpt2Network struct {
		GPT2 *auto.Model `module:"gpt2"`
	}
)

// writerSuffix is the ending of the kinds of models that generate texts.
const writerSuffix = "_text_generation"

// newWriter creates the network, initialised as in transformers.
func (m *Model) newWriter() error {
	d, err := m.document()
	if err != nil {
		return err
	}
	if m.kind == "t5"+writerSuffix {
		if m.Seq2Seq, err = auto.HezarSeq2SeqLM(d); err == nil {
			m.module = &t5Network{m.Seq2Seq.Model}
		}
	} else if m.Causal, err = auto.HezarCausalLM(d); err == nil {
		m.module = &gpt2Network{m.Causal.Model}
	}
	return err
}

// Untie gives a T5 a separate output layer if the weights have one, as those of older versions of
// transformers do. Otherwise it is tied to the token embedding.
func (m *Model) Untie(w *pretrained.Weights) error {
	if m.Seq2Seq == nil {
		return nil
	}
	const embedding = "t5.shared.weight"
	for _, part := range []string{"encoder", "decoder"} {
		other, err := w.Differ(embedding, "t5."+part+".embed_tokens.weight")
		if err == nil && other {
			err = fmt.Errorf("%s: t5.%s.embed_tokens.weight is not %s; want one embedding of tokens", w.Path(), part,
				embedding)
		}
		if err != nil {
			return err
		}
	}
	own, err := w.Differ(embedding, "t5.lm_head.weight")
	if l := m.Seq2Seq.OutputEmbeddings(); err == nil && own && l.Weight.Is(m.Seq2Seq.InputEmbeddings().Weight) {
		err = torch.Try(func() {
			torch.NoGrad(func() { l.Weight = nn.Parameter(l.Weight.Clone()) })
		})
	}
	return err
}

// generation holds the settings for generating texts.
type generation struct {
	auto.Generation
	prefix string // prepended to input texts
	// Limits on the number of tokens including the prompt's; if zero, MaxNewTokens and MinNewTokens
	// apply.
	longest, shortest int
}

// withPrompt returns the settings for a prompt with a number of tokens; ok is false if there is no
// room for a new one.
func (g generation) withPrompt(tokens int) (_ auto.Generation, ok bool) {
	if g.longest > 0 {
		g.MaxNewTokens = g.longest - tokens
	}
	if g.shortest > 0 {
		g.MinNewTokens = max(0, g.shortest-tokens)
	}
	return g.Generation, g.longest == 0 || g.MaxNewTokens > 0
}

// generation returns the settings in the config, overridden by s.
func (m *Model) generation(s Settings) (g generation, err error) {
	if m.module == nil {
		return g, fmt.Errorf("repository: a %s writes no texts; want one of T5 or GPT-2", m.kind)
	}
	var settings omegaconf.Map
	var ends ids
	var early any // true, false or "never"
	fields := configfile.Fields("max_length", &g.longest, "max_new_tokens", &g.MaxNewTokens,
		"min_length", &g.shortest, "min_new_tokens", &g.MinNewTokens, "do_sample", &g.Sample,
		"temperature", &g.Temperature, "top_k", &g.TopK, "top_p", &g.TopP, "min_p", &g.MinP,
		"repetition_penalty", &g.RepetitionPenalty, "no_repeat_ngram_size", &g.NoRepeatNGramSize,
		"num_beams", &g.NumBeams, "length_penalty", &g.LengthPenalty, "early_stopping", &early,
		"eos_token_id", &ends)
	if m.Seq2Seq != nil {
		for _, key := range []string{"min_length", "max_length", "input_prefix"} {
			value, _ := m.config.Get(key)
			settings.Set(key, value)
		}
		fields = append(fields, configfile.Fields("input_prefix", &g.prefix)...)
	} else {
		own, _ := m.config.Get("generation")
		given, _ := own.(omegaconf.Map)
		settings = slices.Clone(given)
		// These do not matter when continuing a text.
		for _, key := range []string{"name", "config_type", "bos_token_id", "decoder_start_token_id", "pad_token_id",
			"use_cache"} {
			fields = append(fields, configfile.Fields(key, new(any))...)
		}
	}
	for _, item := range s.ordered() {
		settings.Set(item.Key.(string), item.Value)
	}
	if settings, err = normalized(settings); err == nil {
		err = configfile.DecodeAll(settings, fields)
	}
	if g.EOSTokenIDs = ends; early != nil {
		g.EarlyStopping = auto.EarlyStopping(fmt.Sprint(early))
	}
	if g.MaxNewTokens > 0 {
		g.longest = 0
	}
	if g.MinNewTokens > 0 {
		g.shortest = 0
	}
	if !g.Sample { // the settings below have no effect then, and transformers warns of them
		g.Temperature, g.TopK, g.TopP, g.MinP = 0, 0, 0, 0
	} else if k, _ := settings.Get("top_k"); g.TopK == 0 && k != nil {
		g.TopK = -1
	}
	if g.NumBeams < 2 {
		g.EarlyStopping, g.LengthPenalty = "", nil
	}
	_, room := g.withPrompt(1)
	switch {
	case err != nil:
	case !room || g.longest < 0 || g.shortest < 0:
		err = fmt.Errorf("max_length is %d and min_length %d; want room for a token behind the first", g.longest,
			g.shortest)
	}
	if err != nil {
		err = fmt.Errorf("repository: %s: generation: %w", m.kind, err)
	}
	return g, err
}

// ids are token IDs; a file may have a single one instead of a list.
type ids []int64

func (t *ids) Encode() any { return []int64(*t) }

func (t *ids) Decode(v any) error {
	list, isList := v.([]any)
	if !isList {
		list = []any{v}
	}
	*t = ids{}
	for _, item := range list {
		id, ok := item.(int64)
		if !ok {
			return configfile.Want("a token id, or a list of them")
		}
		*t = append(*t, id)
	}
	return nil
}

// CheckGeneration refuses a model that does not generate texts, and one whose config has unknown
// generation settings.
func (m *Model) CheckGeneration() error {
	_, err := m.generation(nil)
	return err
}

// PadTokenID returns the ID that pads rows of IDs.
func (m *Model) PadTokenID() int64 {
	switch {
	case m.Seq2Seq != nil:
		return m.Seq2Seq.Limits().PadTokenID
	case m.Text != nil:
		return m.Text.Limits().PadTokenID
	case m.Causal == nil: // a CRNN: blanks
		return 0
	}
	own, _ := m.config.Get("generation")
	if settings, ok := own.(omegaconf.Map); ok {
		if v, _ := settings.Get("pad_token_id"); v != nil {
			if id, ok := v.(int64); ok {
				return id
			}
		}
	}
	return m.Causal.Limits().PadTokenID
}

// Generate generates texts: Model.predict of Hezar's T5TextGeneration, which generates texts from
// the inputs, and GPT2TextGeneration, which returns the inputs with their continuations. s
// overrides the generation settings of the model's config for this call, under their names in
// Hezar's configs and transformers' GenerationConfig (max_new_tokens, num_beams, do_sample;
// input_prefix for T5). Inputs of different lengths are padded, which Hezar's predict refuses.
// Several goroutines may call Generate at the same time, but not while the model is being trained.
func (m *Model) Generate(ctx context.Context, s Settings, texts ...string) (written []string, err error) {
	g, err := m.generation(s)
	if err != nil {
		return nil, err
	}
	if m.Preprocessors.Tokenizer == nil {
		return nil, fmt.Errorf("repository: %s: the model has no tokenizer to read texts with; want "+
			"Preprocessors.Tokenizer", m.kind)
	}
	t, err := m.Preprocessors.Tokenizer.Configured(hezar.CallOptions{})
	if err != nil {
		return nil, fmt.Errorf("repository: %w", err)
	}
	for part := range slices.Chunk(texts, batch) {
		encoded := make([]inputs.Text, len(part))
		for i, text := range part {
			e, err := t.Encode(g.prefix+text, nil)
			if err != nil {
				return nil, fmt.Errorf("repository: %w", err)
			}
			encoded[i].InputIDs = e.IDs
		}
		rows, err := m.write(ctx, encoded, g)
		if err != nil {
			return nil, err
		}
		written = append(written, m.Decode(rows)...)
	}
	return written, nil
}

// GenerateIDs is [Model.Generate] for token IDs: generate of Hezar's models. A row of T5 begins
// with decoder_start_token_id, one of GPT-2 with its text without padding.
func (m *Model) GenerateIDs(ctx context.Context, texts []inputs.Text, s Settings) ([][]int64, error) {
	g, err := m.generation(s)
	if err != nil {
		return nil, err
	}
	return m.write(ctx, texts, g)
}

func (m *Model) write(ctx context.Context, texts []inputs.Text, g generation) (rows [][]int64, err error) {
	if m.Seq2Seq != nil {
		settings, _ := g.withPrompt(1)
		if rows, err = m.Seq2Seq.GenerateIDs(ctx, texts, settings); err != nil {
			return nil, fmt.Errorf("repository: %s: %w", m.kind, err)
		}
		for i, ids := range rows {
			rows[i] = append([]int64{m.Seq2Seq.DecoderStartTokenID()}, ids...)
		}
		return rows, nil
	}
	rows = make([][]int64, len(texts))
	for i, text := range texts {
		for j, id := range text.InputIDs {
			if text.AttentionMask == nil || text.AttentionMask[j] != 0 {
				rows[i] = append(rows[i], id)
			}
		}
	}
	together := len(rows)
	if g.longest > 0 || g.shortest > 0 { // the limits on new tokens differ from text to text
		together = 1
	}
	for part := range slices.Chunk(rows, max(1, together)) {
		settings, room := g.withPrompt(len(part[0]))
		if !room {
			return nil, fmt.Errorf("repository: %s: a text has %d tokens, and max_length is %d; want a greater one, or "+
				"max_new_tokens", m.kind, len(part[0]), g.longest)
		}
		added, err := m.Causal.GenerateBatchIDs(ctx, part, settings)
		if err != nil {
			return nil, fmt.Errorf("repository: %s: %w", m.kind, err)
		}
		for i, ids := range added {
			part[i] = append(part[i], ids...)
		}
	}
	return rows, nil
}

// Decode converts IDs to texts, without special tokens: post_process. The model must have a
// tokenizer.
func (m *Model) Decode(rows [][]int64) []string {
	texts := make([]string, len(rows))
	for i, ids := range rows {
		texts[i] = m.Preprocessors.Tokenizer.Decode(ids, nil)
	}
	return texts
}

// predictTexts is Predict for a model that generates texts.
func (m *Model) predictTexts(ctx context.Context, inputs []any) (predictions []Prediction, err error) {
	texts := make([]string, len(inputs))
	for i, input := range inputs {
		text, ok := input.(string)
		if !ok {
			return nil, fmt.Errorf("repository: %s: an input is a %T; want a string", m.kind, input)
		}
		texts[i] = text
	}
	written, err := m.Generate(ctx, nil, texts...)
	for _, text := range written {
		predictions = append(predictions, Prediction{Text: text})
	}
	return predictions, err
}

// noWeights are suffixes of tensor names in files of older versions that are not weights.
var noWeights = []string{"embeddings.position_ids", ".attn.bias", ".attn.masked_bias",
	"t5.decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"}

// weightName returns "" for tensors in older files that are not weights of the model: position IDs,
// causal masks, and the relative attention bias between encoder and decoder.
func weightName(name string) string {
	if slices.ContainsFunc(noWeights, func(ending string) bool { return strings.HasSuffix(name, ending) }) {
		return ""
	}
	return name
}
