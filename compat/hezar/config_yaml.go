package hezar

import (
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/compat/hezar/internal/configfile"
	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
)

// fields returns the keys of train_config.yaml in Hezar's order.
func (c *TrainerConfig) fields() []configfile.Field {
	return configfile.Fields("name", new("trainer"), "config_type", configfile.Const("trainer"),
		"output_dir", &c.OutputDir, "task", &c.Task, "device", &c.Device, "num_epochs", &c.NumEpochs,
		"init_weights_from", &c.InitWeightsFrom, "resume_from_checkpoint", &c.ResumeFromCheckpoint,
		"max_steps", (*stepsEntry)(&c.MaxSteps), "num_dataloader_workers", &c.NumDataloaderWorkers,
		"dataloader_shuffle", &c.DataloaderShuffle, "seed", &c.Seed, "optimizer", &c.Optimizer,
		"learning_rate", &c.LearningRate, "weight_decay", &c.WeightDecay, "lr_scheduler", &c.LRScheduler,
		"lr_scheduler_kwargs", &c.LRSchedulerKwargs, "lr_scheduling_steps", (*configfile.Count)(&c.LRSchedulingSteps),
		"batch_size", &c.BatchSize, "eval_batch_size", (*configfile.Count)(&c.EvalBatchSize),
		"gradient_accumulation_steps", &c.GradientAccumulationSteps, "distributed", &c.Distributed,
		"mixed_precision", &c.MixedPrecision, "use_cpu", &c.UseCPU, "do_evaluate", &c.DoEvaluate,
		"evaluate_with_generate", &c.EvaluateWithGenerate, "metrics", (*metricEntries)(c),
		"metric_for_best_model", &c.MetricForBestModel, "save_enabled", &c.SaveEnabled, "save_freq", &c.SaveFreq,
		"save_steps", (*stepsEntry)(&c.SaveSteps), "log_steps", (*stepsEntry)(&c.LogSteps),
		"checkpoints_dir", &c.CheckpointsDir, "logs_dir", &c.LogsDir)
}

// stepsEntry is a number of steps or a share.
type stepsEntry Steps

func (s *stepsEntry) Encode() any {
	switch {
	case s.share != 0:
		return s.share
	case s.n != 0 || s.zero:
		return s.n
	}
	return nil
}

func (s *stepsEntry) Decode(v any) error {
	switch v := v.(type) {
	case int64:
		*s = stepsEntry(Count(int(v)))
	case float64:
		*s = stepsEntry(Share(v))
	default:
		return configfile.Want("a number of steps or a share")
	}
	return nil
}

// metricEntries are the entries for metrics: names, or mappings if they have settings.
type metricEntries TrainerConfig

func (c *metricEntries) Encode() any {
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

func (c *metricEntries) Decode(v any) error {
	list, ok := v.([]any)
	if !ok {
		return configfile.Want("a list")
	}
	c.Metrics = []string{}
	for _, entry := range list {
		switch entry := entry.(type) {
		case string:
			c.Metrics = append(c.Metrics, entry)
		case omegaconf.Map:
			config, err := parseMetric(entry)
			if err != nil {
				return err
			}
			c.MetricConfigs = append(c.MetricConfigs, config)
		default:
			return configfile.Want("a list of names and mappings")
		}
	}
	return nil
}

// Map returns the configuration with the order and names of Hezar's train_config.yaml, with
// defaults filled in and without unset fields.
func (c TrainerConfig) Map() omegaconf.Map {
	if filled, err := c.resolved(Rules{SaveFreqIgnored: true}); err == nil {
		c = filled
	}
	for _, b := range []**bool{&c.DataloaderShuffle, &c.DoEvaluate, &c.EvaluateWithGenerate, &c.SaveEnabled} {
		*b = new(isTrue(*b))
	}
	m := configfile.Encode(c.fields())
	if c.ResumeFromCheckpoint == Newest {
		m.Set("resume_from_checkpoint", true)
	}
	if c.SaveFreq == 0 {
		m.Set("save_freq", "deprecated")
	}
	return m
}

// Save writes the configuration to a file, like Config.save. Trainer.Save writes it to
// train_config.yaml in the subfolder train.
func (c TrainerConfig) Save(path string) error { return saveYAML(path, c.Map()) }

// saveYAML writes a file atomically.
func saveYAML(path string, m omegaconf.Map) error { return prefixed(configfile.Save(path, m)) }

// prefixed adds the name of this package to an error.
func prefixed(err error) error {
	if err != nil {
		err = fmt.Errorf("hezar: %w", err)
	}
	return err
}

// LoadTrainerConfig reads a train_config.yaml written by Hezar or by this package. It refuses
// unknown keys and values of the wrong type.
func LoadTrainerConfig(path string) (TrainerConfig, error) {
	m, err := configfile.Load(path)
	if err != nil {
		return TrainerConfig{}, prefixed(err)
	}
	c, err := parseConfig(m)
	if err != nil {
		err = fmt.Errorf("hezar: %s: %w", path, err)
	}
	return c, err
}

// parseConfig decodes the keys of a train_config.yaml.
func parseConfig(m omegaconf.Map) (c TrainerConfig, err error) {
	m = slices.Clone(m)
	if v, _ := m.Get("save_freq"); v == "deprecated" {
		m.Set("save_freq", nil)
	}
	if v, _ := m.Get("resume_from_checkpoint"); v == true || v == false {
		m.Set("resume_from_checkpoint", map[any]any{true: Newest}[v])
	}
	if err := configfile.DecodeAll(m, c.fields()); err != nil {
		return c, err
	}
	for _, key := range []string{"num_epochs", "batch_size", "gradient_accumulation_steps", "learning_rate"} {
		if v, _ := m.Get(key); v == int64(0) || v == 0.0 {
			c.Zeros = append(c.Zeros, key)
		}
	}
	return c, nil
}
