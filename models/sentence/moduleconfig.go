package sentence

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/internal/sbert"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Reading and writing the config.json in the folder of each module.

// decode reads the config.json of a module. Unknown settings are an error.
func decode(dir string, fields []pretrained.Field, check func(d pretrained.Document) error) error {
	d := pretrained.Document{}
	if err := sbert.ReadJSON(dir, pretrained.ConfigName, &d); err != nil {
		return fmt.Errorf("sentence: %w", err)
	}
	err := d.Decode(fields)
	if err == nil && check != nil {
		err = check(d)
	}
	if unknown := slices.Sorted(maps.Keys(d)); err == nil && len(unknown) > 0 {
		err = fmt.Errorf("%s is %s, an unknown setting", unknown[0], d[unknown[0]])
	}
	if err != nil {
		return fmt.Errorf("sentence: %s: %w", filepath.Join(dir, pretrained.ConfigName), err)
	}
	return nil
}

// legacyModes are the settings that older files have instead of pooling_mode.
var legacyModes = map[PoolingMode]string{CLS: "pooling_mode_cls_token", Max: "pooling_mode_max_tokens",
	Mean: "pooling_mode_mean_tokens", MeanSqrtLen: "pooling_mode_mean_sqrt_len_tokens",
	WeightedMean: "pooling_mode_weightedmean_tokens", LastToken: "pooling_mode_lasttoken"}

func readPooling(dir string, hidden int64) (p Pooling, err error) {
	var older, size int64
	var mode json.RawMessage
	include := true
	fields := []pretrained.Field{{Key: "word_embedding_dimension", Value: &older},
		{Key: "embedding_dimension", Value: &size}, {Key: "pooling_mode", Value: &mode},
		{Key: "include_prompt", Value: &include}}
	on := make([]bool, len(poolingModes))
	for i, m := range poolingModes {
		fields = append(fields, pretrained.Field{Key: legacyModes[m], Value: &on[i]})
	}
	err = decode(dir, fields, func(pretrained.Document) error {
		if size = max(size, older); size != 0 && size != hidden {
			return fmt.Errorf("embedding_dimension is %d, but the hidden states of the encoder have %d numbers", size, hidden)
		}
		p.ExcludePrompt = !include
		if mode != nil {
			p.Modes = make([]PoolingMode, 1)
			if json.Unmarshal(mode, &p.Modes[0]) == nil {
				return p.check()
			}
			if err := json.Unmarshal(mode, &p.Modes); err != nil {
				return fmt.Errorf("pooling_mode is %s: %w", mode, err)
			}
			return p.check()
		}
		for i, m := range poolingModes {
			if on[i] {
				p.Modes = append(p.Modes, m)
			}
		}
		return nil // none means the mean
	})
	return p, err
}

// document returns the config.json of a pooling. It uses the settings that every version of
// sentence-transformers reads, unless they cannot express the order of the modes.
func (p Pooling) document(hidden int64) map[string]any {
	modes := p.modes()
	place := func(m PoolingMode) int { return slices.Index(poolingModes, m) }
	for i, m := range modes[1:] {
		if place(m) <= place(modes[i]) {
			return map[string]any{"embedding_dimension": hidden, "pooling_mode": modes, "include_prompt": !p.ExcludePrompt}
		}
	}
	d := map[string]any{"word_embedding_dimension": hidden, "include_prompt": !p.ExcludePrompt}
	for m, key := range legacyModes {
		d[key] = slices.Contains(modes, m)
	}
	return d
}

// embeddingKey is the key that modules after the pooling read and write.
const embeddingKey = "sentence_embedding"

// onEmbeddings returns an error if a module reads or writes something other than the embedding.
func onEmbeddings(d pretrained.Document) error {
	for _, key := range []string{"module_input_name", "module_output_name"} {
		if err := d.Demand(key, strconv.Quote(embeddingKey)); err != nil {
			return err
		}
		delete(d, key)
	}
	return nil
}

func readNormalize(dir string) error {
	err := decode(dir, nil, onEmbeddings)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // modules of older versions have no settings
	}
	return err
}

func readDense(dir string, e *auto.EncoderModel) (*Dense, error) {
	var in, out int64
	bias, o, activation := true, DenseOptions{}, sbert.ClassOfActivation(string(Tanh))
	fields := []pretrained.Field{{Key: "in_features", Value: &in}, {Key: "out_features", Value: &out},
		{Key: "bias", Value: &bias}, {Key: "activation_function", Value: &activation},
		{Key: "use_residual", Value: &o.Residual}}
	if err := decode(dir, fields, onEmbeddings); err != nil {
		return nil, err
	}
	name, err := sbert.ActivationOf(activation)
	if err != nil {
		return nil, fmt.Errorf("sentence: %s: activation_function %w", filepath.Join(dir, pretrained.ConfigName), err)
	}
	o.NoBias, o.Activation = !bias, Activation(name)
	d, err := NewDense(in, out, o)
	if err != nil {
		return nil, fmt.Errorf("%w (%s)", err, dir)
	}
	nn.To(d, torch.TensorOptions{DType: e.InputEmbeddings().Weight.DType()})
	w, err := pretrained.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("sentence: %w", err)
	}
	defer w.Close() //nolint:errcheck // it was only read
	if _, err := nn.LoadStateDict(d, w, nn.LoadOptions{}); err != nil {
		return nil, fmt.Errorf("sentence: %s: %w", dir, err)
	}
	return d, nil
}

func (d *Dense) save(dir string) error {
	config := map[string]any{"in_features": d.in, "out_features": d.out, "bias": !d.options.NoBias,
		"activation_function": sbert.ClassOfActivation(string(d.options.Activation))}
	if d.options.Residual {
		config["use_residual"] = true
	}
	if err := pretrained.WriteJSON(dir, pretrained.ConfigName, config); err != nil {
		return err
	}
	return nn.Save(filepath.Join(dir, pretrained.SafetensorsName), d, nil)
}
