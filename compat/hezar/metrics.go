package hezar

import (
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/compat/hezar/datasets"
	"github.com/gotrainer/gotrainer/compat/hezar/internal/configfile"
	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/torch"
)

// MetricConfig is a metric with settings: MetricConfig and its subclasses.
type MetricConfig struct {
	Name       string
	Objective  string   // "maximize" or "minimize"; empty: the metric's own
	OutputKeys []string // which of its numbers to use; nil: all
	NDecimals  *int     // decimals of the metric of a batch with Rules.MeanOfBatches; nil: 4
}

// metricKind describes a metric of Hezar's.
type metricKind struct {
	make     func() any    // returns a metrics.Metric of int, string or []string
	keys     []string      // names of its results; nil: the name of the metric
	minimize bool          // otherwise greater is better
	settings omegaconf.Map // settings with the only supported value; other values need a custom MetricsHandler
}

var averaged = omegaconf.Map{{Key: "pos_label", Value: int64(1)}, {Key: "average", Value: "macro"},
	{Key: "sample_weight"}}

var metricKinds = map[string]metricKind{
	"accuracy": {make: func() any { return &metrics.Accuracy[int]{} },
		settings: omegaconf.Map{{Key: "normalize", Value: true}, {Key: "sample_weight"}}},
	"f1": {make: func() any { return &metrics.F1{Average: metrics.Macro()} }, settings: averaged},
	"precision": {make: func() any { return &metrics.Precision{F1: metrics.F1{Average: metrics.Macro()}} },
		settings: averaged},
	"recall": {make: func() any { return &metrics.Recall{F1: metrics.F1{Average: metrics.Macro()}} },
		settings: averaged},
	"cer": {make: func() any { return &metrics.CER{CollapseSpaces: true} }, minimize: true,
		settings: omegaconf.Map{{Key: "sentence_delimiter", Value: " "}, {Key: "concatenate_texts", Value: false}}},
	"wer": {make: func() any { return &metrics.WER{} }, minimize: true,
		settings: omegaconf.Map{{Key: "concatenate_texts", Value: false}}},
	"seqeval": {make: func() any { return &metrics.Seqeval{} },
		keys: []string{"accuracy", "recall", "precision", "f1"}},
	"rouge": {make: func() any { return &metrics.ROUGE{} },
		keys: []string{"rouge1", "rouge2", "rougeL", "rougeLsum"}},
	"bleu": {make: func() any { return &metrics.BLEU{} }},
}

// taskMetrics lists the metrics of each task, in the order of Hezar's valid_metrics.
var taskMetrics = map[string][]string{
	"text_classification": {"accuracy", "recall", "precision", "f1"},
	"sequence_labeling":   {"seqeval"},
	"image2text":          {"cer", "wer"},
	"speech_recognition":  {"cer", "wer"},
	"text_generation":     {"rouge", "bleu"},
}

// complete fills in the defaults for the kind of metric.
func (c MetricConfig) complete() MetricConfig {
	kind := metricKinds[c.Name]
	if kind.keys == nil {
		kind.keys = []string{c.Name}
	}
	if c.Objective == "" {
		c.Objective = map[bool]string{true: "minimize", false: "maximize"}[kind.minimize]
	}
	if c.OutputKeys == nil {
		c.OutputKeys = slices.Clone(kind.keys)
	}
	if c.NDecimals == nil {
		c.NDecimals = new(4)
	}
	return c
}

func (c *MetricConfig) fields() []configfile.Field {
	return configfile.Fields("name", &c.Name, "config_type", configfile.Const("metric"), "objective", &c.Objective,
		"output_keys", &c.OutputKeys, "n_decimals", &c.NDecimals)
}

// Map returns the metric as an entry of train_config.yaml, with all fields of Hezar's class.
func (c MetricConfig) Map() omegaconf.Map {
	c = c.complete()
	return append(configfile.Encode(c.fields()), metricKinds[c.Name].settings...)
}

// parseMetric decodes an entry of train_config.yaml.
func parseMetric(m omegaconf.Map) (c MetricConfig, err error) {
	name, _ := m.Get("name")
	fields := c.fields()
	for _, item := range metricKinds[fmt.Sprint(name)].settings {
		fields = append(fields, configfile.Fields(item.Key, new(any))...)
		if v, ok := m.Get(item.Key.(string)); ok && v != item.Value {
			return c, fmt.Errorf("%v.%v is %v; want %v, or Options.MetricsHandler", name, item.Key, v, item.Value)
		}
	}
	err = configfile.DecodeAll(m, fields)
	return c, err
}

// MetricsHandler computes the numbers of an evaluation, like Hezar's class of that name. A custom
// one goes into Options.MetricsHandler.
type MetricsHandler interface {
	// Keys returns the names of the numbers, in the order in which they are logged, without
	// "loss".
	Keys() []string
	// Objective returns "maximize" or "minimize" for the name of a metric that MetricForBestModel
	// may have, and "" for any other.
	Objective(metric string) string
	// Add adds a batch of predictions, logits or generated ids, and of labels, both on the CPU.
	Add(predictions, labels torch.Tensor) error
	// Result returns the numbers for the batches since the last call, by name.
	Result() (map[string]float64, error)
}

// handler is the MetricsHandler for the tasks for which Hezar has one.
type handler struct {
	task    string
	configs []MetricConfig
	metrics []any                        // by config: metrics.Metric of int, string or []string
	tag     func(id int64) string        // returns the name of a label, for sequence labeling
	read    func(ids [][]int64) []string // decodes generated IDs, for metrics of texts
	round   bool
}

// newHandler makes the handler for a configuration. The model and the training set provide the
// labels.
func newHandler(c TrainerConfig, model, train any, r Rules) (MetricsHandler, error) {
	h := &handler{task: c.Task, round: r.MeanOfBatches}
	for _, name := range c.Metrics {
		h.configs = append(h.configs, MetricConfig{Name: name})
	}
	h.configs = append(h.configs, c.MetricConfigs...)
	for i, config := range h.configs {
		if valid := taskMetrics[c.Task]; !slices.Contains(valid, config.Name) {
			return nil, refuse("Metrics", config.Name,
				fmt.Sprintf("one of %q for the task %s, or Options.MetricsHandler", valid, c.Task))
		}
		config = config.complete()
		config.OutputKeys = slices.DeleteFunc(MetricConfig{Name: config.Name}.complete().OutputKeys,
			func(key string) bool { return !slices.Contains(config.OutputKeys, key) })
		if config.Objective != "maximize" && config.Objective != "minimize" || len(config.OutputKeys) == 0 {
			return nil, refuse("MetricConfigs", config.Name, "the objective maximize or minimize and at least one "+
				"output key")
		}
		h.configs[i] = config
		h.metrics = append(h.metrics, metricKinds[config.Name].make())
	}
	if len(h.configs) == 0 {
		return h, nil
	}
	switch c.Task {
	case "sequence_labeling":
		tagger, ok := model.(Tagger)
		if !ok {
			return nil, refuse("Metrics", "seqeval",
				fmt.Sprintf("a model that names its labels: %T has no method TagName", model))
		}
		iob := tagger.IOB()
		if set, ok := train.(*datasets.SequenceLabeling); ok && set.Config.IsIOBSchema != nil {
			iob = *set.Config.IsIOBSchema
		}
		prefix := "" // without IOB labels, each token is an entity of its own
		if !iob {
			prefix = "B-"
		}
		h.tag = func(id int64) string { return prefix + tagger.TagName(id) }
	case "image2text", "speech_recognition", "text_generation":
		reader, ok := model.(PostProcessor)
		if !ok {
			return nil, refuse("Metrics", h.configs[0].Name,
				fmt.Sprintf("a model that makes texts of ids: %T has no method PostProcess", model))
		}
		h.read = reader.PostProcess
	}
	return h, nil
}

// Keys returns the names of the results of all metrics.
func (h *handler) Keys() (keys []string) {
	for _, c := range h.configs {
		for _, key := range c.OutputKeys {
			if !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// Objective accepts the names of metrics, like Hezar, and those of their results.
func (h *handler) Objective(name string) string {
	for _, c := range h.configs {
		if c.Name == name || slices.Contains(c.OutputKeys, name) {
			return c.Objective
		}
	}
	return ""
}

func (h *handler) Add(predictions, labels torch.Tensor) error {
	if len(h.configs) == 0 {
		return nil
	}
	switch h.task {
	case "text_classification":
		classes, truth := torch.Values[int64](predictions.ArgMax(1, false)), torch.Values[int64](labels.View(-1))
		for i := range truth {
			add(h.metrics, int(classes[i]), int(truth[i]))
		}
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
		predicted, truth := h.read(got), h.read(want)
		for i := range truth {
			add(h.metrics, predicted[i], truth[i])
		}
	}
	return nil
}

// addTags adds all positions whose label is not -100.
func (h *handler) addTags(predictions, labels torch.Tensor) {
	length := int(labels.Size(1))
	classes, truth := torch.Values[int64](predictions.ArgMax(2, false)), torch.Values[int64](labels)
	for at := 0; at+length <= len(truth) && length > 0; at += length {
		var got, want []string
		for i := at; i < at+length; i++ {
			if truth[i] != -100 {
				got, want = append(got, h.tag(classes[i])), append(want, h.tag(truth[i]))
			}
		}
		add(h.metrics, got, want)
	}
}

// add adds a pair to all metrics.
func add[P any](list []any, got, want P) {
	for _, m := range list {
		m.(metrics.Metric[P]).Add(got, want)
	}
}

// rows returns the rows of a matrix of IDs.
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

func (h *handler) Result() (map[string]float64, error) {
	out := map[string]float64{}
	for i, c := range h.configs {
		metric := h.metrics[i].(interface {
			Result() map[string]float64
			Reset()
		})
		result := metric.Result()
		metric.Reset()
		for _, key := range c.OutputKeys {
			v, ok := result[key]
			if !ok {
				return nil, fmt.Errorf("hezar: the metric %s gives no %q, only %v", c.Name, key, result)
			}
			if h.round {
				v = metrics.Round(v, *c.NDecimals)
			}
			out[key] = v
		}
	}
	return out, nil
}
