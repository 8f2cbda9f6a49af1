package hezar

import (
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/torch"
)

// MetricConfig is a metric with settings of its own: MetricConfig and its kinds.
type MetricConfig struct {
	Name       string
	Objective  string   // "maximize" or "minimize"; empty: the metric's own
	OutputKeys []string // which of its numbers count; nil: all
	NDecimals  *int     // of the metric of a batch under Rules.MeanOfBatches; nil: 4
}

// Map is the metric as an entry of train_config.yaml, with all that Hezar's class of the metric
// has.
func (c MetricConfig) Map() omegaconf.Map {
	_, keys, objective := newMetric(c.Name)
	if c.Objective != "" {
		objective = c.Objective
	}
	if c.OutputKeys != nil {
		keys = c.OutputKeys
	}
	return append(omegaconf.Map{{Key: "name", Value: c.Name}, {Key: "config_type", Value: "metric"},
		{Key: "objective", Value: objective}, {Key: "output_keys", Value: keys},
		{Key: "n_decimals", Value: c.decimals()}}, fixed[c.Name]...)
}

// fixed are settings of Hezar's metrics that have one value here. Other values need a
// MetricsHandler of the program.
var fixed = map[string]omegaconf.Map{
	"accuracy":  {{Key: "normalize", Value: true}, {Key: "sample_weight"}},
	"f1":        {{Key: "pos_label", Value: int64(1)}, {Key: "average", Value: "macro"}, {Key: "sample_weight"}},
	"precision": {{Key: "pos_label", Value: int64(1)}, {Key: "average", Value: "macro"}, {Key: "sample_weight"}},
	"recall":    {{Key: "pos_label", Value: int64(1)}, {Key: "average", Value: "macro"}, {Key: "sample_weight"}},
	"cer":       {{Key: "sentence_delimiter", Value: " "}, {Key: "concatenate_texts", Value: false}},
	"wer":       {{Key: "concatenate_texts", Value: false}},
}

func (c MetricConfig) decimals() int {
	if c.NDecimals == nil {
		return 4
	}
	return *c.NDecimals
}

// parseMetric reads an entry of train_config.yaml.
func parseMetric(m omegaconf.Map) (c MetricConfig, err error) {
	kind := ""
	keys := []key{{"config_type", &kind}, {"name", &c.Name}, {"objective", &c.Objective},
		{"n_decimals", &c.NDecimals}, {"output_keys", (*names)(&c.OutputKeys)}}
	name, _ := m.Get("name")
	for _, item := range fixed[fmt.Sprint(name)] {
		var given any
		keys = append(keys, key{item.Key.(string), &given})
		if v, ok := m.Get(item.Key.(string)); ok && v != item.Value {
			return c, fmt.Errorf("%v.%v is %v; want %v, or Options.MetricsHandler", name, item.Key, v, item.Value)
		}
	}
	err = read(m, keys)
	return c, err
}

// MetricsHandler makes the numbers of an evaluation: Hezar's class of that name. One of the program
// goes into Options.MetricsHandler.
type MetricsHandler interface {
	// Keys are the names of the numbers, in the order in which they are logged, without "loss".
	Keys() []string
	// Objective is "maximize" or "minimize" for a metric's name that may stand in
	// MetricForBestModel, and "" for any other.
	Objective(metric string) string
	// Add takes a batch of predictions, logits or generated ids, and of labels, both on the CPU.
	Add(predictions, labels torch.Tensor) error
	// Result returns the numbers of the batches since the last call, by name.
	Result() (map[string]float64, error)
}

// kinds are the metrics of each task, in Hezar's order of valid_metrics.
var kinds = map[string][]string{
	"text_classification": {"accuracy", "recall", "precision", "f1"},
	"sequence_labeling":   {"seqeval"},
	"image2text":          {"cer", "wer"},
	"speech_recognition":  {"cer", "wer"},
	"text_generation":     {"rouge", "bleu"},
}

// newMetric makes a metric of Hezar's, by name. Its numbers that count are keys.
func newMetric(name string) (metric any, keys []string, objective string) {
	objective = "maximize"
	switch name {
	case "accuracy":
		metric = &metrics.Accuracy[int]{}
	case "f1":
		metric = &metrics.F1{Average: metrics.Macro()}
	case "precision":
		metric = &metrics.Precision{F1: metrics.F1{Average: metrics.Macro()}}
	case "recall":
		metric = &metrics.Recall{F1: metrics.F1{Average: metrics.Macro()}}
	case "cer":
		metric, objective = &metrics.CER{CollapseSpaces: true}, "minimize"
	case "wer":
		metric, objective = &metrics.WER{}, "minimize"
	case "seqeval":
		return &metrics.Seqeval{}, []string{"accuracy", "recall", "precision", "f1"}, objective
	case "rouge":
		return &metrics.ROUGE{}, []string{"rouge1", "rouge2", "rougeL", "rougeLsum"}, objective
	case "bleu":
		metric = &metrics.BLEU{}
	}
	return metric, []string{name}, objective
}

// one is a metric of a handler.
type one struct {
	config MetricConfig
	metric any // metrics.Metric of int, string or []string
	keys   []string
}

// taskMetrics is the handler of the tasks that Hezar has one for.
type taskMetrics struct {
	task   string
	list   []one
	names  func(id int64) string        // of labels, for sequence labeling
	prefix string                       // before every label, where they say nothing of beginnings
	read   func(ids [][]int64) []string // of generated ids, for texts
	round  bool
}

// newHandler makes the handler of a configuration. Model answers what a task must know of its
// labels.
func newHandler(c TrainerConfig, model any, r Rules) (MetricsHandler, error) {
	valid := kinds[c.Task]
	h := &taskMetrics{task: c.Task, round: r.MeanOfBatches}
	configs := slices.Clone(c.MetricConfigs)
	for i := len(c.Metrics) - 1; i >= 0; i-- {
		configs = slices.Insert(configs, 0, MetricConfig{Name: c.Metrics[i]})
	}
	for _, config := range configs {
		if !slices.Contains(valid, config.Name) {
			return nil, refuse("Metrics", config.Name,
				fmt.Sprintf("one of %q for the task %s, or Options.MetricsHandler", valid, c.Task))
		}
		metric, keys, objective := newMetric(config.Name)
		if config.Objective == "" {
			config.Objective = objective
		}
		if config.OutputKeys != nil {
			keys = slices.DeleteFunc(keys, func(key string) bool { return !slices.Contains(config.OutputKeys, key) })
		}
		if config.Objective != "maximize" && config.Objective != "minimize" || len(keys) == 0 {
			return nil, refuse("MetricConfigs", config.Name, "the objective maximize or minimize and at least one "+
				"output key")
		}
		h.list = append(h.list, one{config, metric, keys})
	}
	if len(h.list) == 0 {
		return h, nil
	}
	switch c.Task {
	case "sequence_labeling":
		tagger, ok := model.(Tagger)
		if !ok {
			return nil, refuse("Metrics", "seqeval",
				fmt.Sprintf("a model that names its labels: %T has no method TagName", model))
		}
		h.names = tagger.TagName
		if !tagger.IOB() {
			h.prefix = "B-"
		}
	case "image2text", "speech_recognition", "text_generation":
		reader, ok := model.(PostProcessor)
		if !ok {
			return nil, refuse("Metrics", h.list[0].config.Name,
				fmt.Sprintf("a model that makes texts of ids: %T has no method PostProcess", model))
		}
		h.read = reader.PostProcess
	}
	return h, nil
}

// Keys are the numbers of all metrics.
func (h *taskMetrics) Keys() (keys []string) {
	for _, m := range h.list {
		for _, key := range m.keys {
			if !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// Objective knows the metrics by their own names, as Hezar, and by the numbers they give.
func (h *taskMetrics) Objective(name string) string {
	for _, m := range h.list {
		if m.config.Name == name || slices.Contains(m.keys, name) {
			return m.config.Objective
		}
	}
	return ""
}

func (h *taskMetrics) Add(predictions, labels torch.Tensor) error {
	if len(h.list) == 0 {
		return nil
	}
	switch h.task {
	case "text_classification":
		pairs(h.list, ints(torch.Values[int64](predictions.ArgMax(1, false))),
			ints(torch.Values[int64](labels.View(-1))))
	case "sequence_labeling":
		h.addTags(predictions, labels)
	default:
		got, err := rows(predictions)
		if err != nil {
			return fmt.Errorf("predictions: %w", err)
		}
		want, err := rows(labels)
		if err != nil {
			return fmt.Errorf("labels: %w", err)
		}
		if len(got) != len(want) {
			return fmt.Errorf("%d predictions for %d labels", len(got), len(want))
		}
		pairs(h.list, h.read(got), h.read(want))
	}
	return nil
}

// addTags leaves out positions with label -100. Where labels do not say where an entity begins,
// each token is one of its own.
func (h *taskMetrics) addTags(predictions, labels torch.Tensor) {
	length := int(labels.Size(1))
	classes, truth := torch.Values[int64](predictions.ArgMax(2, false)), torch.Values[int64](labels)
	for at := 0; at+length <= len(truth) && length > 0; at += length {
		var got, want []string
		for i := at; i < at+length; i++ {
			if truth[i] != -100 {
				got, want = append(got, h.prefix+h.names(classes[i])), append(want, h.prefix+h.names(truth[i]))
			}
		}
		for _, m := range h.list {
			m.metric.(metrics.Metric[[]string]).Add(got, want)
		}
	}
}

func pairs[P any](list []one, got, want []P) {
	for _, m := range list {
		for i := range want {
			m.metric.(metrics.Metric[P]).Add(got[i], want[i])
		}
	}
}

func ints(values []int64) []int {
	out := make([]int, len(values))
	for i, v := range values {
		out[i] = int(v)
	}
	return out
}

// rows are the rows of a matrix of ids.
func rows(t torch.Tensor) ([][]int64, error) {
	if t.Dim() != 2 || t.DType() != torch.Int64 {
		return nil, fmt.Errorf("%s with %d dimensions; want ids, int64 of [rows, length]: set EvaluateWithGenerate, "+
			"or give a MetricsHandler", t.DType(), t.Dim())
	}
	values, width := torch.Values[int64](t), int(t.Size(1))
	out := make([][]int64, t.Size(0))
	for i := range out {
		out[i] = values[i*width : (i+1)*width]
	}
	return out, nil
}

func (h *taskMetrics) Result() (map[string]float64, error) {
	out := map[string]float64{}
	for _, m := range h.list {
		result := m.metric.(interface{ Result() map[string]float64 }).Result()
		m.metric.(interface{ Reset() }).Reset()
		for _, key := range m.keys {
			v, ok := result[key]
			if !ok {
				return nil, fmt.Errorf("hezar: the metric %s gives no %q, only %v", m.config.Name, key, result)
			}
			if h.round {
				v = metrics.Round(v, m.config.decimals())
			}
			out[key] = v
		}
	}
	return out, nil
}
