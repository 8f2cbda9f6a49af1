package hezar

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"

	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/internal/regularfile"
)

// keys are the keys of train_config.yaml in Hezar's order, with the fields of their values.
func (c *TrainerConfig) keys() []key {
	return []key{
		{"output_dir", &c.OutputDir}, {"task", &c.Task}, {"device", &c.Device}, {"num_epochs", &c.NumEpochs},
		{"init_weights_from", &c.InitWeightsFrom}, {"resume_from_checkpoint", &c.ResumeFromCheckpoint},
		{"max_steps", &c.MaxSteps}, {"num_dataloader_workers", &c.NumDataloaderWorkers},
		{"dataloader_shuffle", &c.DataloaderShuffle}, {"seed", &c.Seed}, {"optimizer", &c.Optimizer},
		{"learning_rate", &c.LearningRate}, {"weight_decay", &c.WeightDecay}, {"lr_scheduler", &c.LRScheduler},
		{"lr_scheduler_kwargs", &c.LRSchedulerKwargs}, {"lr_scheduling_steps", &c.LRSchedulingSteps},
		{"batch_size", &c.BatchSize}, {"eval_batch_size", &c.EvalBatchSize},
		{"gradient_accumulation_steps", &c.GradientAccumulationSteps}, {"distributed", &c.Distributed},
		{"mixed_precision", &c.MixedPrecision}, {"use_cpu", &c.UseCPU}, {"do_evaluate", &c.DoEvaluate},
		{"evaluate_with_generate", &c.EvaluateWithGenerate}, {"metrics", (*metricNames)(c)},
		{"metric_for_best_model", &c.MetricForBestModel}, {"save_enabled", &c.SaveEnabled},
		{"save_freq", &c.SaveFreq}, {"save_steps", &c.SaveSteps}, {"log_steps", &c.LogSteps},
		{"checkpoints_dir", &c.CheckpointsDir}, {"logs_dir", &c.LogsDir},
	}
}

// metricNames are names, and mappings of metrics with settings.
type metricNames TrainerConfig

func (s *Steps) set(v any) (want string, err error) {
	switch v := v.(type) {
	case int64:
		*s = Count(int(v))
	case float64:
		*s = Share(v)
	default:
		return "a number of steps or a share", nil
	}
	return "", nil
}

func (c *metricNames) value() any {
	if c.Metrics == nil && c.MetricConfigs == nil {
		return nil
	}
	list := []any{}
	for _, name := range c.Metrics {
		list = append(list, name)
	}
	for _, config := range c.MetricConfigs {
		list = append(list, config.Map())
	}
	return list
}

func (c *metricNames) set(v any) (want string, err error) {
	list, ok := v.([]any)
	if !ok {
		return "a list", nil
	}
	c.Metrics = []string{}
	for _, entry := range list {
		switch entry := entry.(type) {
		case string:
			c.Metrics = append(c.Metrics, entry)
		case omegaconf.Map:
			config, err := parseMetric(entry)
			if err != nil {
				return "", err
			}
			c.MetricConfigs = append(c.MetricConfigs, config)
		default:
			return "a list of names and mappings", nil
		}
	}
	return "", nil
}

// Map is the configuration in the order and under the names of Hezar's train_config.yaml, with
// defaults filled in and without what is not set.
func (c TrainerConfig) Map() omegaconf.Map {
	if filled, err := c.resolved(Rules{SaveFreqIgnored: true}); err == nil {
		c = filled
	}
	for _, b := range []**bool{&c.DataloaderShuffle, &c.DoEvaluate, &c.EvaluateWithGenerate, &c.SaveEnabled} {
		*b = new(isTrue(*b))
	}
	m := append(omegaconf.Map{{Key: "name", Value: "trainer"}, {Key: "config_type", Value: "trainer"}},
		write(c.keys())...)
	if c.ResumeFromCheckpoint == Newest {
		m.Set("resume_from_checkpoint", true)
	}
	if c.SaveFreq == 0 {
		m.Set("save_freq", "deprecated")
	}
	return slices.DeleteFunc(m, func(i omegaconf.Item) bool {
		return i.Value == 0 && (i.Key == "lr_scheduling_steps" || i.Key == "eval_batch_size")
	})
}

// Save writes the configuration into a file, as Config.save does: train_config.yaml in the
// subfolder train of what Trainer.Save writes.
func (c TrainerConfig) Save(path string) error { return writeYAML(path, c.Map()) }

// LoadTrainerConfig reads train_config.yaml, from Hezar or from here. A key that no TrainerConfig
// has is refused, and so is a value of a wrong type.
func LoadTrainerConfig(path string) (TrainerConfig, error) {
	m, err := readYAML(path)
	if err != nil {
		return TrainerConfig{}, err
	}
	c, err := parseConfig(m)
	if err != nil {
		return TrainerConfig{}, fmt.Errorf("hezar: %s: %w", path, err)
	}
	return c, nil
}

// parseConfig reads the keys of a train_config.yaml.
func parseConfig(m omegaconf.Map) (c TrainerConfig, err error) {
	kind, name := "", ""
	m = slices.Clone(m)
	if v, _ := m.Get("save_freq"); v == "deprecated" {
		m.Set("save_freq", nil)
	}
	if v, _ := m.Get("resume_from_checkpoint"); v == true || v == false {
		m.Set("resume_from_checkpoint", map[any]any{true: Newest}[v])
	}
	if err := read(m, append(c.keys(), key{"config_type", &kind}, key{"name", &name})); err != nil {
		return c, err
	}
	if kind != "" && kind != "trainer" {
		return c, fmt.Errorf("config_type is %s; want trainer", kind)
	}
	for _, key := range []string{"num_epochs", "batch_size", "gradient_accumulation_steps", "learning_rate"} {
		if v, _ := m.Get(key); v == int64(0) || v == 0.0 {
			c.Zeros = append(c.Zeros, key)
		}
	}
	return c, nil
}

// maxYAML is far above any configuration.
const maxYAML = 4 << 20

func readYAML(path string) (omegaconf.Map, error) {
	text, err := regularfile.ReadFile(path, maxYAML)
	if err != nil {
		return nil, fmt.Errorf("hezar: %w", err)
	}
	m, err := omegaconf.Unmarshal(text)
	if err != nil {
		return nil, fmt.Errorf("hezar: %s: %w", path, err)
	}
	return m, nil
}

// writeYAML writes a file that is whole or not there.
func writeYAML(path string, m omegaconf.Map) error {
	text, err := omegaconf.Marshal(m)
	if err != nil {
		return fmt.Errorf("hezar: %s: %w", path, err)
	}
	return writeFile(path, text)
}

// writeFile puts a file in the place of another, whole or not at all. What a process that was
// killed has left of an earlier attempt is removed.
func writeFile(path string, text []byte) error {
	dir, name := filepath.Split(path)
	err := os.MkdirAll(filepath.Clean(dir), 0o777)
	entries, _ := os.ReadDir(filepath.Clean(dir)) // if it cannot be read, it cannot be written to
	for _, e := range entries {
		if number, ok := strings.CutPrefix(e.Name(), "."+name); ok && strings.Trim(number, "0123456789") == "" {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	if err == nil {
		err = renameio.WriteFile(path, text, 0o644)
	}
	if err != nil {
		return fmt.Errorf("hezar: %s: %w", path, err)
	}
	return nil
}
