package main

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/dist/launch"
	"github.com/gotrainer/gotrainer/run"
)

func TestQuestionsMakeAConfiguration(t *testing.T) {
	for answers, want := range map[string]launch.Config{
		"\n\n\n": {DistributedType: "NO", MixedPrecision: "no", UseCPU: true, NumProcesses: 1, NumMachines: 1,
			GPUIDs: "all"},
		"multi_tpu\nmulti_cpu\n2\n1\n\n10.0.0.1\nport\n1234\n3\nbf16\n": {DistributedType: "MULTI_CPU", UseCPU: true,
			MixedPrecision: "bf16", NumProcesses: 6, NumMachines: 2, MachineRank: 1, MainProcessIP: "10.0.0.1",
			MainProcessPort: 1234, GPUIDs: "all"},
		"MULTI_GPU\n\n4\n0,1,2,3\nfp16\n": {DistributedType: "MULTI_GPU", MixedPrecision: "fp16", NumProcesses: 4,
			NumMachines: 1, GPUIDs: "0,1,2,3"},
	} {
		var out bytes.Buffer
		got, err := (&questions{in: bufio.NewScanner(strings.NewReader(answers)), out: &out}).ask(0, "no")
		require.NoError(t, err, out.String())
		assert.Equal(t, want, got, out.String())
	}
	got, err := (&questions{in: bufio.NewScanner(strings.NewReader("\n\n\n")), out: new(bytes.Buffer)}).ask(0, "bf16")
	require.NoError(t, err)
	assert.Equal(t, "bf16", got.MixedPrecision, "--mixed_precision is the usual answer")
	_, err = (&questions{in: bufio.NewScanner(strings.NewReader("NO\n")), out: new(bytes.Buffer)}).ask(0, "no")
	assert.ErrorContains(t, err, "ended before all questions")
}

func TestBasicConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "default_config.yaml")
	require.NoError(t, execute(context.Background(), []string{"config", "--default", "--mixed_precision", "bf16",
		"--config_file", path}))
	c, err := launch.ReadConfig(path)
	require.NoError(t, err)
	assert.Equal(t, basicConfig(gpus(), "bf16"), c)
	assert.ErrorContains(t, execute(context.Background(), []string{"config", "--default", "--config_file", path}),
		"already exists")
	assert.Equal(t, "MULTI_GPU", basicConfig(4, "no").DistributedType)
}

func TestLaunchTakesAConfiguration(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HF_HOME", dir)
	t.Setenv("ACCELERATE_MIXED_PRECISION", "")
	program := []string{"--", "sh", "-c",
		`echo "$RANK of $WORLD_SIZE $ACCELERATE_MIXED_PRECISION $ACCELERATE_USE_CPU" > ` +
			dir + "/out$RANK"}
	read := func(rank string) string {
		text, err := os.ReadFile(filepath.Join(dir, "out"+rank))
		require.NoError(t, err)
		return strings.TrimSpace(string(text))
	}
	start := func(flags ...string) error {
		return execute(context.Background(), append(append([]string{"launch"}, flags...), program...))
	}
	assert.ErrorContains(t, start(), "give the number of processes")
	assert.Equal(t, run.Configuration, run.CodeOf(start()))
	err := execute(context.Background(), []string{"launch", "-n", "2", filepath.Join(dir, "nowhere")})
	require.ErrorContains(t, err, "launch: cannot start a program "+filepath.Join(dir, "nowhere"))
	assert.Equal(t, run.Configuration, run.CodeOf(err))
	config := launch.Config{DistributedType: "MULTI_CPU", MixedPrecision: "bf16", NumProcesses: 2, NumMachines: 1,
		GPUIDs: "all"}
	path, err := launch.DefaultConfigFile()
	require.NoError(t, err)
	require.NoError(t, config.Write(path))
	require.NoError(t, start(), "the default place")
	assert.Equal(t, "1 of 2 bf16 true", read("1"))
	named := filepath.Join(dir, "named.yaml")
	config.NumProcesses = 3
	require.NoError(t, config.Write(named))
	require.NoError(t, start("--config_file", named, "--mixed_precision=no"))
	assert.Equal(t, "2 of 3 no true", read("2"))
	require.NoError(t, start("--num_processes=2"), "a flag for the number: no configuration is read")
	assert.Equal(t, "1 of 2", read("1"))
	require.NoError(t, start("-n", "2", "--cpu"))
	assert.Equal(t, "1 of 2  true", read("1"))
	assert.ErrorContains(t, start("--num_processes=2", "--use_fsdp", "--fsdp_sharding_strategy=SHARD"), "there are these")
	assert.ErrorContains(t, start("--num_processes=2", "--zero_stage=2"), "needs --use_deepspeed")
	require.NoError(t, start("--num_processes=2", "--use_fsdp"))
	assert.ErrorContains(t, start("-n", "2", "--num_processes=2"), "want one of them")
	assert.ErrorContains(t, start("--config_file", named+"x"), "there is no configuration")
}
