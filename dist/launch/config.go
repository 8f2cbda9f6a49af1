package launch

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Config holds the settings that `accelerate config` asks for and writes, as far as they apply
// here: how many processes run on which machines, and with which settings. [ReadConfig] reads its
// files, and Write makes files that accelerate reads.
type Config struct {
	DistributedType string // NO, MULTI_CPU, MULTI_GPU, FSDP or DEEPSPEED
	MixedPrecision  string // no, bf16 or fp16: ACCELERATE_MIXED_PRECISION of the processes
	UseCPU          bool   // ACCELERATE_USE_CPU of the processes
	NumProcesses    int    // on all machines together
	NumMachines     int
	MachineRank     int
	MainProcessIP   string // address of machine 0; required with several machines
	MainProcessPort int    // port on machine 0
	GPUIDs          string // all, or numbers separated by commas: CUDA_VISIBLE_DEVICES of the processes

	// The settings of fsdp_config or deepspeed_config by their names: how the model is sharded
	// over the processes. See [Sharding].
	FSDP, DeepSpeed map[string]string
}

// DefaultConfigFile returns the path of accelerate's default configuration,
// accelerate/default_config.yaml in HF_HOME or else in the folder huggingface in XDG_CACHE_HOME or
// ~/.cache.
func DefaultConfigFile() (string, error) {
	home := os.Getenv("HF_HOME")
	if home == "" {
		cache := os.Getenv("XDG_CACHE_HOME")
		if cache == "" {
			user, err := os.UserHomeDir()
			if err != nil {
				return "", fmt.Errorf("launch: no home folder to look for a configuration in: %w; set HF_HOME", err)
			}
			cache = filepath.Join(user, ".cache")
		}
		home = filepath.Join(cache, "huggingface")
	}
	return filepath.Join(home, "accelerate", "default_config.yaml"), nil
}

// ReadConfig reads a configuration of accelerate, YAML or JSON. It refuses, by name, settings that
// are not supported, including those in the sections of FSDP and DeepSpeed, and unknown names.
func ReadConfig(path string) (Config, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Config{},
			fmt.Errorf("launch: there is no configuration %s; gotrainer config or accelerate config makes "+
				"one: %w", path, err)
	}
	if err != nil {
		return Config{}, fmt.Errorf("launch: %w", err)
	}
	values := map[string]any{}
	if err := yaml.Unmarshal(text, &values); err != nil { // JSON is a subset of YAML
		return Config{}, fmt.Errorf("launch: %s: want the names and values of accelerate's configuration: %w", path,
			err)
	}
	c, err := configOf(values)
	if err != nil {
		return Config{}, fmt.Errorf("launch: %s: %w", path, err)
	}
	return c, nil
}

// unsupported lists sections and switches that have no meaning here, with the reason. They are
// ignored if absent, empty or off.
var unsupported = map[string]string{
	"megatron_lm_config":  "Megatron-LM is a Python library",
	"parallelism_config":  "one process trains one model",
	"fp8_config":          "there are no products in 8 bits",
	"dynamo_config":       "the compiler is Python's; kernels are called directly",
	"dynamo_backend":      "the compiler is Python's; kernels are called directly",
	"mpirun_config":       "processes meet by package dist, not by MPI",
	"ipex_config":         "Intel's extension is a Python library",
	"debug":               "collectives compare their shapes always",
	"enable_cpu_affinity": "the system places the processes; taskset or numactl pins them",
	"downcast_bf16":       "it is of TPUs",
	"tpu_name":            "it is of TPUs", "tpu_zone": "it is of TPUs", "tpu_use_cluster": "it is of TPUs",
	"tpu_use_sudo": "it is of TPUs", "tpu_vm": "it is of TPUs", "tpu_env": "it is of TPUs",
	"command_file": "it is of TPUs", "commands": "it is of TPUs",
}

// distributedTypes lists the types that are refused, with the reason.
var distributedTypes = map[string]string{"MEGATRON_LM": unsupported["megatron_lm_config"]}

func configOf(values map[string]any) (c Config, err error) {
	c = Config{MixedPrecision: "no", NumMachines: 1, NumProcesses: -1, GPUIDs: "all"}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		v := values[name]
		if reason, ok := unsupported[name]; ok {
			if !isOff(v) {
				return c, fmt.Errorf("%s is %v; leave it out: %s", name, v, reason)
			}
			continue
		}
		if err := c.set(name, v); err != nil {
			return c, err
		}
	}
	if c.NumProcesses < 0 && c.DistributedType == "NO" {
		c.NumProcesses = 1
	}
	return c, c.validate()
}

// isOff reports whether a section is empty or a switch is off.
func isOff(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return v == "" || strings.EqualFold(v, "no") || strings.EqualFold(v, "false")
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// set sets a field by its name in the file.
func (c *Config) set(name string, v any) error {
	texts := map[string]*string{"distributed_type": &c.DistributedType, "mixed_precision": &c.MixedPrecision,
		"main_process_ip": &c.MainProcessIP, "gpu_ids": &c.GPUIDs}
	numbers := map[string]*int{"num_processes": &c.NumProcesses, "num_machines": &c.NumMachines,
		"machine_rank": &c.MachineRank, "main_process_port": &c.MainProcessPort}
	only := map[string]string{"compute_environment": "LOCAL_MACHINE", "rdzv_backend": "static",
		"main_training_function": "main"}
	switch {
	case isOff(v) && (name == "fsdp_config" || name == "deepspeed_config"), v == nil && name != "distributed_type":
		return nil
	case name == "fsdp_config":
		var err error
		c.FSDP, err = section(name, v, fsdpSettings)
		return err
	case name == "deepspeed_config":
		var err error
		c.DeepSpeed, err = section(name, v, deepSpeedSettings)
		return err
	case texts[name] != nil:
		*texts[name] = fmt.Sprint(v) // gpu_ids: 0 is parsed as a number
		if off, isBool := v.(bool); isBool && !off && name != "main_process_ip" {
			*texts[name] = "no" // YAML 1.1 reads no as false
			if name == "distributed_type" {
				*texts[name] = "NO"
			}
		}
		return nil
	case numbers[name] != nil:
		n, err := strconv.Atoi(fmt.Sprint(v))
		if err != nil {
			return fmt.Errorf("%s is %v; want a whole number", name, v)
		}
		*numbers[name] = n
		return nil
	case only[name] != "":
		if fmt.Sprint(v) != only[name] {
			return fmt.Errorf("%s is %v; want %s, which is all that there is here", name, v, only[name])
		}
		return nil
	case name == "use_cpu", name == "fp16", name == "same_network":
		on, isBool := v.(bool)
		if !isBool {
			return fmt.Errorf("%s is %v; want true or false", name, v)
		}
		if name == "use_cpu" {
			c.UseCPU = on
		} else if name == "fp16" && on { // in old files
			c.MixedPrecision = "fp16"
		}
		return nil // no such distinction here: machines are reached at main_process_ip on any network
	}
	return fmt.Errorf("it has the name %s, which accelerate's configuration does not have; remove it", name)
}

func (c *Config) validate() error {
	if reason := distributedTypes[c.DistributedType]; reason != "" {
		return fmt.Errorf("distributed_type is %s; want NO, MULTI_CPU, MULTI_GPU, FSDP or DEEPSPEED: %s",
			c.DistributedType, reason)
	}
	if err := c.checkSharding(); err != nil {
		return err
	}
	switch {
	case !slices.Contains([]string{"NO", "MULTI_CPU", "MULTI_GPU", "FSDP", "DEEPSPEED"}, c.DistributedType):
		return fmt.Errorf("distributed_type is %q; want NO, MULTI_CPU, MULTI_GPU, FSDP or DEEPSPEED", c.DistributedType)
	case !slices.Contains([]string{"no", "bf16", "fp16"}, c.MixedPrecision):
		return fmt.Errorf("mixed_precision is %q; want no, bf16 or fp16", c.MixedPrecision)
	case c.NumMachines < 1 || c.MachineRank < 0 || c.MachineRank >= c.NumMachines:
		return fmt.Errorf("machine_rank is %d of %d num_machines; it counts from 0", c.MachineRank, c.NumMachines)
	case c.NumProcesses < 1 && c.NumProcesses != -1 || c.NumProcesses > 0 && c.NumProcesses%c.NumMachines != 0:
		return fmt.Errorf("num_processes is %d; want a multiple of num_machines, which is %d", c.NumProcesses,
			c.NumMachines)
	case c.NumMachines > 1 && (c.MainProcessIP == "" || c.MainProcessPort == 0):
		return fmt.Errorf("num_machines is %d, which needs main_process_ip and main_process_port", c.NumMachines)
	}
	return nil
}

// Options returns the options for [Run] to run a program with this configuration.
func (c Config) Options(command ...string) (Options, error) {
	if err := c.validate(); err != nil {
		return Options{}, fmt.Errorf("launch: %w", err)
	}
	if c.NumProcesses < 1 {
		return Options{}, errors.New("launch: the configuration has no num_processes; give the number of processes")
	}
	o := Options{Processes: c.NumProcesses / c.NumMachines, Command: command, Nodes: c.NumMachines,
		NodeRank: c.MachineRank, Env: []string{"ACCELERATE_MIXED_PRECISION=" + c.MixedPrecision}}
	if c.UseCPU || c.DistributedType == "MULTI_CPU" {
		o.Env = append(o.Env, "ACCELERATE_USE_CPU=true")
	}
	o.Env = append(o.Env, c.shardingEnv()...)
	if c.GPUIDs != "all" && c.GPUIDs != "" {
		o.Env = append(o.Env, "CUDA_VISIBLE_DEVICES="+c.GPUIDs)
	}
	if c.MainProcessIP != "" || c.MainProcessPort != 0 {
		o.Master = net.JoinHostPort(cmp.Or(c.MainProcessIP, "127.0.0.1"), strconv.Itoa(c.MainProcessPort))
	}
	return o, nil
}

// Write writes the configuration in a form that accelerate reads too.
func (c Config) Write(path string) error {
	if err := c.validate(); err != nil {
		return fmt.Errorf("launch: %w", err)
	}
	values := map[string]any{"compute_environment": "LOCAL_MACHINE", "distributed_type": c.DistributedType,
		"mixed_precision": c.MixedPrecision, "use_cpu": c.UseCPU, "num_processes": c.NumProcesses,
		"num_machines": c.NumMachines, "machine_rank": c.MachineRank, "gpu_ids": c.GPUIDs, "debug": false,
		"enable_cpu_affinity": false, "rdzv_backend": "static", "same_network": true, "main_training_function": "main",
		"downcast_bf16": "no"}
	c.sections(values)
	if c.MainProcessIP != "" {
		values["main_process_ip"] = c.MainProcessIP
	}
	if c.MainProcessPort != 0 {
		values["main_process_port"] = c.MainProcessPort
	}
	text, err := yaml.Marshal(values)
	if err != nil {
		return fmt.Errorf("launch: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return fmt.Errorf("launch: %w", err)
	}
	if err := os.WriteFile(path, text, 0o666); err != nil {
		return fmt.Errorf("launch: %w", err)
	}
	return nil
}
