package launch_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/dist/launch"
)

// The files were made with accelerate by testdata/accelerate_config.py.
func TestConfigurationsOfAccelerate(t *testing.T) {
	for name, want := range map[string]launch.Config{
		"no.yaml": {DistributedType: "NO", MixedPrecision: "no", NumProcesses: 1, NumMachines: 1, GPUIDs: "all"},
		"basic.yaml": {DistributedType: "NO", MixedPrecision: "bf16", UseCPU: true, NumProcesses: 1, NumMachines: 1,
			GPUIDs: "all"},
		"basic.json": {DistributedType: "NO", MixedPrecision: "bf16", UseCPU: true, NumProcesses: 1, NumMachines: 1,
			GPUIDs: "all"},
		"multi_cpu.yaml": {DistributedType: "MULTI_CPU", MixedPrecision: "bf16", UseCPU: true, NumProcesses: 4,
			NumMachines: 2, MachineRank: 1, MainProcessIP: "10.0.0.1", MainProcessPort: 29500, GPUIDs: "all"},
		"multi_gpu.yaml": {DistributedType: "MULTI_GPU", MixedPrecision: "fp16", NumProcesses: 8, NumMachines: 2,
			MainProcessIP: "192.168.20.1", MainProcessPort: 9898, GPUIDs: "0,1,2,3"},
		"fsdp.yaml": {DistributedType: "FSDP", MixedPrecision: "bf16", NumProcesses: 2, NumMachines: 1, GPUIDs: "all",
			FSDP: map[string]string{"fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
				"fsdp_transformer_layer_cls_to_wrap": "BertLayer"}},
	} {
		got, err := launch.ReadConfig(filepath.Join("testdata", name))
		require.NoError(t, err, name)
		assert.Equal(t, want, got, name)
		path := filepath.Join(t.TempDir(), "accelerate", name)
		require.NoError(t, got.Write(path))
		again, err := launch.ReadConfig(path)
		require.NoError(t, err)
		assert.Equal(t, got, again, "written and read again")
	}
	for name, want := range map[string]string{
		"deepspeed.yaml": "gradient_clipping is 0.7; want none: the program clips",
	} {
		_, err := launch.ReadConfig(filepath.Join("testdata", name))
		assert.ErrorContains(t, err, want, name)
	}
}

func TestConfigurationsThatCannotBe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	for text, want := range map[string]string{
		"num_processes: 2\n":                                     `distributed_type is ""`,
		"distributed_type: MULTI_XPU\n":                          "want NO, MULTI_CPU, MULTI_GPU, FSDP or DEEPSPEED",
		"distributed_type: MEGATRON_LM\n":                        "Megatron-LM is a Python library",
		"distributed_type: NO\nfsdp_config: {fsdp_version: 1}\n": "distributed_type is NO; want FSDP",
		"distributed_type: FSDP\nfsdp_config: {fsdp_size: 1}\n":  "has the name fsdp_size, which means nothing here",
		"distributed_type: FSDP\nfsdp_config: [1]\n":             "want names and values",
		"distributed_type: FSDP\nfsdp_config: {fsdp_offload_params: true}\n": "fsdp_offload_params is true; want false: " +
			"parameters stay on their device",
		"distributed_type: FSDP\nfsdp_config: {fsdp_auto_wrap_policy: SIZE_BASED_WRAP}\n":   "whatever their size",
		"distributed_type: FSDP\nfsdp_config: {fsdp_sharding_strategy: SHARD}\n":            "there are these",
		"distributed_type: FSDP\nfsdp_config: {fsdp_state_dict_type: FULL_STATE_DICT}\n":    "checkpoints are sharded",
		"distributed_type: DEEPSPEED\ndeepspeed_config: {zero_stage: 4}\n":                  "want 0, 1, 2, 3",
		"distributed_type: DEEPSPEED\ndeepspeed_config: {offload_param_device: nvme}\n":     "parameters stay on their",
		"distributed_type: DEEPSPEED\ndeepspeed_config: {deepspeed_config_file: ds.json}\n": "DeepSpeed's engine",
		"distributed_type: NO\nmixed_precision: fp8\n":                                      "mixed_precision",
		"distributed_type: NO\ncompute_environment: AMAZON_SAGEMAKER\n":                     "LOCAL_MACHINE",
		"distributed_type: NO\ndynamo_backend: INDUCTOR\n":                                  "compiler is Python's",
		"distributed_type: NO\ntpu_env: [A]\n":                                              "TPU",
		"distributed_type: NO\nnum_procs: 2\n": "num_procs, which accelerate's " +
			"configuration does not have",
		"distributed_type: MULTI_GPU\nnum_processes: x\n":                  "want a whole number",
		"distributed_type: MULTI_GPU\nnum_processes: 3\nnum_machines: 2\n": "a multiple",
		"distributed_type: MULTI_GPU\nnum_processes: 4\nnum_machines: 2\n": "main_process_ip",
		"distributed_type: NO\nuse_cpu: perhaps\n":                         "true or false",
		"distributed_type: NO\nmachine_rank: 1\n":                          "counts from 0",
		"- x": "names and values",
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := launch.ReadConfig(path)
		assert.ErrorContains(t, err, want, text)
	}
	_, err := launch.ReadConfig(path + "x")
	assert.ErrorContains(t, err, "gotrainer config")
}

func TestOptionsOfAConfiguration(t *testing.T) {
	c, err := launch.ReadConfig("testdata/multi_gpu.yaml")
	require.NoError(t, err)
	o, err := c.Options("./train", "-x")
	require.NoError(t, err)
	assert.Equal(t, launch.Options{Processes: 4, Command: []string{"./train", "-x"}, Nodes: 2,
		Master: "192.168.20.1:9898",
		Env:    []string{"ACCELERATE_MIXED_PRECISION=fp16", "CUDA_VISIBLE_DEVICES=0,1,2,3"}}, o)
	_, err = launch.Config{DistributedType: "MULTI_CPU", MixedPrecision: "no", NumMachines: 1,
		NumProcesses: -1}.Options("x")
	assert.ErrorContains(t, err, "num_processes")
}

func TestDefaultConfigFile(t *testing.T) {
	t.Setenv("HF_HOME", "/h")
	path, err := launch.DefaultConfigFile()
	require.NoError(t, err)
	assert.Equal(t, "/h/accelerate/default_config.yaml", path)
	t.Setenv("HF_HOME", "")
	t.Setenv("XDG_CACHE_HOME", "/c")
	path, err = launch.DefaultConfigFile()
	require.NoError(t, err)
	assert.Equal(t, "/c/huggingface/accelerate/default_config.yaml", path)
}

func FuzzReadConfig(f *testing.F) {
	f.Add("distributed_type: NO\n")
	f.Add("distributed_type: [MULTI_GPU]\nnum_processes: 1e9\n")
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "c.yaml")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		if c, err := launch.ReadConfig(path); err == nil {
			_, _ = c.Options("x")
			require.NoError(t, c.Write(path))
		}
	})
}

// The section in a configuration reaches the program through its environment, under accelerate's
// names.
func TestAConfigurationChoosesTheStageOfZeRO(t *testing.T) {
	for text, want := range map[string]int{ // stage + 10*replicas
		"distributed_type: FSDP\nfsdp_config: {fsdp_sharding_strategy: HYBRID_SHARD}\n":       3 - 10,
		"distributed_type: FSDP\nfsdp_config: {fsdp_sharding_strategy: HYBRID_SHARD_ZERO2}\n": 2 - 10,
		"distributed_type: MULTI_CPU\n": 0,
		"distributed_type: FSDP\n":      3,
		"distributed_type: FSDP\nfsdp_config: {fsdp_sharding_strategy: SHARD_GRAD_OP}\n":                     2,
		"distributed_type: FSDP\nfsdp_config: {fsdp_sharding_strategy: 1}\n":                                 3,
		"distributed_type: FSDP\nfsdp_config: {fsdp_sharding_strategy: NO_SHARD}\n":                          0,
		"distributed_type: FSDP\nfsdp_config: {fsdp_version: 2, fsdp_reshard_after_forward: false}\n":        2,
		"distributed_type: FSDP\nfsdp_config: {fsdp_version: 2, fsdp_state_dict_type: SHARDED_STATE_DICT}\n": 3,
		"distributed_type: DEEPSPEED\n": 2,
		"distributed_type: DEEPSPEED\ndeepspeed_config: {zero_stage: 1, offload_optimizer_device: none}\n": 1,
		"distributed_type: DEEPSPEED\ndeepspeed_config: {zero_stage: 3, zero3_init_flag: false}\n":         3,
	} {
		path := filepath.Join(t.TempDir(), "c.yaml")
		require.NoError(t, os.WriteFile(path, []byte(text+"num_processes: 2\n"), 0o600))
		c, err := launch.ReadConfig(path)
		require.NoError(t, err, text)
		require.NoError(t, c.Write(path))
		again, err := launch.ReadConfig(path)
		require.NoError(t, err)
		o, err := again.Options("./train")
		require.NoError(t, err)
		got, replicas, err := launch.Sharding(func(name string) string {
			for _, v := range o.Env {
				if value, ok := strings.CutPrefix(v, name+"="); ok {
					return value
				}
			}
			return ""
		})
		require.NoError(t, err)
		assert.Equal(t, want, got+10*replicas, text)
	}
	_, _, err := launch.Sharding(func(string) string { return "true" })
	assert.ErrorContains(t, err, "both set")
}
