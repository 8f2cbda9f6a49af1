package hezar

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"

	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/internal/regularfile"
)

// Map is the configuration in the order and under the names of Hezar's train_config.yaml, with
// defaults filled in and without what is not set.
func (c TrainerConfig) Map() omegaconf.Map {
	if filled, err := c.resolved(Rules{SaveFreqIgnored: true}); err == nil {
		c = filled
	}
	m := omegaconf.Map{{Key: "name", Value: "trainer"}, {Key: "config_type", Value: "trainer"}}
	put := func(key string, value any) {
		if value != nil && value != "" {
			m = append(m, omegaconf.Item{Key: key, Value: value})
		}
	}
	positive := func(n int) any {
		if n == 0 {
			return nil
		}
		return n
	}
	put("output_dir", c.OutputDir)
	put("task", c.Task)
	put("device", c.Device)
	put("num_epochs", c.NumEpochs)
	put("init_weights_from", c.InitWeightsFrom)
	if c.ResumeFromCheckpoint == Newest {
		put("resume_from_checkpoint", true)
	} else {
		put("resume_from_checkpoint", c.ResumeFromCheckpoint)
	}
	put("max_steps", c.MaxSteps.value())
	put("num_dataloader_workers", c.NumDataloaderWorkers)
	put("dataloader_shuffle", isTrue(c.DataloaderShuffle))
	if c.Seed != nil {
		put("seed", *c.Seed)
	}
	put("optimizer", c.Optimizer)
	put("learning_rate", c.LearningRate)
	put("weight_decay", c.WeightDecay)
	put("lr_scheduler", c.LRScheduler)
	if c.LRSchedulerKwargs != nil {
		put("lr_scheduler_kwargs", c.LRSchedulerKwargs)
	}
	put("lr_scheduling_steps", positive(c.LRSchedulingSteps))
	put("batch_size", c.BatchSize)
	put("eval_batch_size", positive(c.EvalBatchSize))
	put("gradient_accumulation_steps", c.GradientAccumulationSteps)
	put("distributed", c.Distributed)
	put("mixed_precision", c.MixedPrecision)
	put("use_cpu", c.UseCPU)
	put("do_evaluate", isTrue(c.DoEvaluate))
	put("evaluate_with_generate", isTrue(c.EvaluateWithGenerate))
	if list := c.metricList(); list != nil {
		put("metrics", list)
	}
	put("metric_for_best_model", c.MetricForBestModel)
	put("save_enabled", isTrue(c.SaveEnabled))
	if c.SaveFreq != 0 {
		put("save_freq", c.SaveFreq)
	} else {
		put("save_freq", "deprecated")
	}
	put("save_steps", c.SaveSteps.value())
	put("log_steps", c.LogSteps.value())
	put("checkpoints_dir", c.CheckpointsDir)
	put("logs_dir", c.LogsDir)
	return m
}

func (c TrainerConfig) metricList() []any {
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
	f := &fields{m: m}
	if kind := f.text("config_type"); kind != "" && kind != "trainer" {
		return c, fmt.Errorf("config_type is %s; want trainer", kind)
	}
	f.text("name")
	c = TrainerConfig{
		OutputDir: f.text("output_dir"), Task: f.text("task"), Device: f.text("device"),
		NumEpochs: f.number("num_epochs"), InitWeightsFrom: f.text("init_weights_from"),
		MaxSteps: f.steps("max_steps"), NumDataloaderWorkers: f.number("num_dataloader_workers"),
		DataloaderShuffle: f.boolean("dataloader_shuffle"), Optimizer: f.text("optimizer"),
		LearningRate: f.float("learning_rate"), WeightDecay: f.float("weight_decay"),
		LRScheduler: f.text("lr_scheduler"), LRSchedulingSteps: f.number("lr_scheduling_steps"),
		BatchSize: f.number("batch_size"), EvalBatchSize: f.number("eval_batch_size"),
		GradientAccumulationSteps: f.number("gradient_accumulation_steps"),
		MixedPrecision:            f.text("mixed_precision"), DoEvaluate: f.boolean("do_evaluate"),
		EvaluateWithGenerate: f.boolean("evaluate_with_generate"),
		MetricForBestModel:   f.text("metric_for_best_model"), SaveEnabled: f.boolean("save_enabled"),
		SaveSteps: f.steps("save_steps"), LogSteps: f.steps("log_steps"),
		CheckpointsDir: f.text("checkpoints_dir"), LogsDir: f.text("logs_dir"),
	}
	if seed := f.take("seed"); seed != nil {
		n, ok := seed.(int64)
		f.check(ok, "seed", seed, "an integer")
		c.Seed = new(int(n))
	}
	c.Distributed, c.UseCPU = given(f.boolean("distributed")), given(f.boolean("use_cpu"))
	switch v := f.take("resume_from_checkpoint").(type) {
	case string:
		c.ResumeFromCheckpoint = v
	case bool:
		if v {
			c.ResumeFromCheckpoint = Newest
		}
	case nil:
	default:
		f.check(false, "resume_from_checkpoint", v, "true or a folder")
	}
	if v := f.take("save_freq"); v != nil && v != "deprecated" {
		n, ok := v.(int64)
		f.check(ok, "save_freq", v, "an integer")
		c.SaveFreq = int(n)
	}
	if v := f.take("lr_scheduler_kwargs"); v != nil {
		kwargs, ok := v.(omegaconf.Map)
		f.check(ok, "lr_scheduler_kwargs", v, "a mapping")
		c.LRSchedulerKwargs = kwargs
	}
	if v := f.take("metrics"); v != nil {
		list, ok := v.([]any)
		f.check(ok, "metrics", v, "a list")
		c.Metrics = []string{}
		for _, entry := range list {
			switch entry := entry.(type) {
			case string:
				c.Metrics = append(c.Metrics, entry)
			case omegaconf.Map:
				config, err := parseMetric(entry)
				if err != nil {
					return c, err
				}
				c.MetricConfigs = append(c.MetricConfigs, config)
			default:
				f.check(false, "metrics", entry, "names and mappings")
			}
		}
	}
	for _, key := range []string{"num_epochs", "batch_size", "gradient_accumulation_steps", "learning_rate"} {
		if v, _ := m.Get(key); v == int64(0) || v == 0.0 {
			c.Zeros = append(c.Zeros, key)
		}
	}
	return c, f.done()
}

func given(b *bool) bool { return b != nil && *b }

// fields takes values out of a mapping and keeps the first complaint.
type fields struct {
	m     omegaconf.Map
	taken []string
	err   error
}

func (f *fields) take(key string) any {
	f.taken = append(f.taken, key)
	v, _ := f.m.Get(key)
	return v
}

func (f *fields) check(ok bool, key string, found any, want string) {
	if !ok && f.err == nil {
		f.err = fmt.Errorf("%s is %v; want %s", key, found, want)
	}
}

func (f *fields) text(key string) string {
	v := f.take(key)
	s, ok := v.(string)
	f.check(ok || v == nil, key, v, "a text")
	return s
}

func (f *fields) number(key string) int {
	v := f.take(key)
	n, ok := v.(int64)
	f.check(ok || v == nil, key, v, "an integer")
	return int(n)
}

func (f *fields) float(key string) float64 {
	switch v := f.take(key).(type) {
	case float64:
		return v
	case int64:
		return float64(v)
	case nil:
	default:
		f.check(false, key, v, "a number")
	}
	return 0
}

func (f *fields) boolean(key string) *bool {
	v := f.take(key)
	b, ok := v.(bool)
	f.check(ok || v == nil, key, v, "true or false")
	if !ok {
		return nil
	}
	return &b
}

func (f *fields) steps(key string) Steps {
	switch v := f.take(key).(type) {
	case int64:
		return Count(int(v))
	case float64:
		return Share(v)
	case nil:
	default:
		f.check(false, key, v, "a number of steps or a share")
	}
	return Steps{}
}

// done complains of keys that nobody has taken.
func (f *fields) done() error {
	if f.err != nil {
		return f.err
	}
next:
	for _, item := range f.m {
		for _, key := range f.taken {
			if item.Key == key {
				continue next
			}
		}
		return fmt.Errorf("the key %v is unknown; known are %s", item.Key, strings.Join(f.taken, ", "))
	}
	return nil
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
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o777)
	}
	if err == nil {
		err = renameio.WriteFile(path, text, 0o644)
	}
	if err != nil {
		return fmt.Errorf("hezar: %s: %w", path, err)
	}
	return nil
}
