package vectors

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/compat/hezar/datasets"
	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/compat/hezar/preprocessors"
	"github.com/gotrainer/gotrainer/compat/hezar/repository"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/models/crnn"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// initial says how the weights of a recording were drawn.
type initial struct {
	Formula *uint64
	Gain    map[string]float64
}

// mapping turns a JSON object into a config; strings that are numbers become numbers where they are
// keys.
func mapping(raw json.RawMessage) (omegaconf.Map, error) {
	var object map[string]any
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	if err := d.Decode(&object); err != nil {
		return nil, err
	}
	return fromJSON(object).(omegaconf.Map), nil
}

func fromJSON(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := omegaconf.Map{}
		for key, value := range v {
			var k any = key
			if n, err := strconv.ParseInt(key, 10, 64); err == nil {
				k = n
			}
			m = append(m, omegaconf.Item{Key: k, Value: fromJSON(value)})
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = fromJSON(v[i])
		}
		return list
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, err := v.Float64()
		if err != nil {
			return v.String()
		}
		return f
	}
	return v
}

// newCRNN makes the model of a config, filled by the formula.
func newCRNN(config omegaconf.Map, init initial, image *preprocessors.ImageProcessor) (*crnn.Model, error) {
	if labels, _ := config.Get("id2label"); labels == "the default charset" {
		m := omegaconf.Map{}
		for i, label := range datasets.DefaultCharset() {
			m = append(m, omegaconf.Item{Key: i, Value: label})
		}
		config.Set("id2label", m)
	}
	if err := known(config, "name", "id2label", "blank_id", "n_channels", "image_height", "image_width",
		"map2seq_in_dim", "map2seq_out_dim", "rnn_dim", "reverse_output_digits",
		"reverse_prediction_text"); err != nil {
		return nil, err
	}
	c, err := repository.CRNNConfig(config, image)
	if err != nil {
		return nil, spec.Unsupportedf("the model: %v", err)
	}
	m, err := crnn.New(c)
	if err != nil {
		return nil, spec.Unsupportedf("the model: %v", err)
	}
	return m, init.fill(m)
}

// newBERT makes the model of a config, filled by the formula.
func newBERT(config omegaconf.Map, init initial) (*bert.Classifier, error) {
	dir, err := os.MkdirTemp("", "model-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	full := omegaconf.Map{{Key: "name", Value: "bert_text_classification"}}
	for _, item := range config {
		if key, ok := item.Key.(string); ok {
			full.Set(key, item.Value)
		}
	}
	text, err := omegaconf.Marshal(full)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(dir+"/"+repository.ConfigFile, text, 0o666); err != nil {
		return nil, err
	}
	c, err := bert.ReadConfig(dir)
	if err != nil {
		return nil, spec.Unsupportedf("the model: %v", err)
	}
	if _, ok := config.Get("vocab_size"); !ok {
		c.VocabSize = 42000 // Hezar's default
	}
	m, err := bert.NewClassifier(c)
	if err != nil {
		return nil, spec.Unsupportedf("the model: %v", err)
	}
	return m, init.fill(m)
}

// known refuses settings that nobody takes.
func known(config omegaconf.Map, keys ...string) error {
	for _, item := range config {
		if key, ok := item.Key.(string); !ok || !slices.Contains(keys, key) {
			return spec.Unsupportedf("the field %v of the model", item.Key)
		}
	}
	return nil
}

// fill sets every tensor of a model to the numbers of the formula, which has no generator:
// SplitMix64 of the seed, the tensor's place in the order of the names and the element's in the
// tensor.
func (f initial) fill(model any) error {
	if f.Formula == nil {
		return spec.Unsupportedf("init without a formula")
	}
	state := nn.StateDict(model)
	slices.SortFunc(state, func(a, b torch.Named) int { return strings.Compare(a.Name, b.Name) })
	var err error
	torch.NoGrad(func() {
		for t, named := range state {
			torch.Scope(func() {
				if named.Tensor.DType() != torch.Float32 {
					named.Tensor.Zero_()
					return
				}
				shape := named.Tensor.Shape()
				values := f.values(uint64(t), named.Name, shape)
				if want := len(values); int64(want) != named.Tensor.Numel() {
					err = fmt.Errorf("%s has shape %v", named.Name, shape)
					return
				}
				named.Tensor.Copy_(torch.From(values, shape...))
			})
		}
	})
	return err
}

func (f initial) values(t uint64, name string, shape []int64) []float32 {
	count := int64(1)
	for _, d := range shape {
		count *= d
	}
	values := make([]float32, count)
	constant, isConstant := 0.0, true
	switch {
	case strings.HasSuffix(name, "running_mean"):
	case strings.HasSuffix(name, "running_var"):
		constant = 1
	case len(shape) == 1 && (strings.HasSuffix(name, "bn.weight") || strings.HasSuffix(name, "LayerNorm.weight") ||
		strings.HasPrefix(name, "norms.") && strings.HasSuffix(name, ".weight")):
		constant = 1
	default:
		isConstant = false
	}
	if isConstant {
		for i := range values {
			values[i] = float32(constant)
		}
		return values
	}
	bound := 0.05
	switch {
	case len(shape) == 4:
		bound = math.Sqrt(6 / float64(count/shape[0]))
	case len(shape) >= 2:
		bound = 1 / math.Sqrt(float64(count/shape[0]))
	}
	if gain, ok := f.Gain[name]; ok {
		bound *= gain
	}
	for i := range values {
		z := (*f.Formula<<48 ^ t<<32 ^ uint64(i)) + 0x9E3779B97F4A7C15
		z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
		z = (z ^ z>>27) * 0x94D049BB133111EB
		z ^= z >> 31
		u := float64(z>>40) / (1 << 24)
		values[i] = float32(bound * (2*u - 1))
	}
	return values
}
