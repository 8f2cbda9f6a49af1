package arguments_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/dist/shard"
	"github.com/gotrainer/gotrainer/hub"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/run"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/arguments"
	"github.com/gotrainer/gotrainer/trainer/callback"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

func TestMain(m *testing.M) { os.Exit(testenv.Run(m)) }

// golden is the output of testdata/hf_arguments.py: what transformers does.
type golden struct {
	Lines []struct {
		Line                string
		Values              map[string]any
		Refused, Unreadable bool
	}
	Dicts []struct {
		JSON       map[string]any
		Unreadable bool
	}
	Files []struct {
		Files  map[string]string
		Kwargs struct {
			Look *bool  `json:"look_for_args_file"`
			Name string `json:"args_filename"`
			Flag string `json:"args_file_flag"`
		}
		Line       string
		Values     own
		Unreadable bool
	}
	Reported struct {
		Line  string
		Texts map[string]string
	}
}

func readGolden(t *testing.T) (g golden) {
	t.Helper()
	text, err := os.ReadFile("testdata/hf_arguments.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &g))
	return g
}

// values returns the fields of the arguments by their names, following pointers.
func values(a *arguments.TrainingArguments) map[string]any {
	out := map[string]any{}
	v := reflect.ValueOf(a).Elem()
	for i := range v.NumField() {
		if name, ok := v.Type().Field(i).Tag.Lookup("name"); ok {
			f := v.Field(i)
			if f.Kind() == reflect.Pointer && !f.IsNil() {
				f = f.Elem()
			}
			out[name] = f.Interface()
		}
	}
	return out
}

// TestCommandLinesAsHfArgumentParser parses each line as Python does.
func TestCommandLinesAsHfArgumentParser(t *testing.T) {
	var usual arguments.TrainingArguments
	require.NoError(t, arguments.Parse(nil, &usual))
	for _, c := range readGolden(t).Lines {
		var a arguments.TrainingArguments
		err := arguments.Parse(strings.Fields(c.Line), &a)
		if c.Unreadable {
			if err == nil { // enumerations are checked later
				err = a.Validate()
			}
			assert.Error(t, err, c.Line)
			continue
		}
		if !assert.NoError(t, err, c.Line) {
			continue
		}
		want := values(&usual)
		for name, value := range c.Values {
			want[name] = value
		}
		got := values(&a)
		for name := range want {
			assert.Equal(t, fmt.Sprint(want[name]), fmt.Sprint(got[name]), "%s: %s", c.Line, name)
		}
		if err := a.Validate(); c.Refused {
			assert.Error(t, err, "%s: TrainingArguments refuses it", c.Line)
		} else {
			assert.NoError(t, err, c.Line)
		}
	}
}

// TestFilesAsHfArgumentParser reads each object as JSON and as YAML, as Python does.
func TestFilesAsHfArgumentParser(t *testing.T) {
	for _, c := range readGolden(t).Dicts {
		text, err := json.Marshal(c.JSON)
		require.NoError(t, err)
		var first *arguments.TrainingArguments
		for _, name := range []string{"a.json", "a.yaml", "a.yml"} { // JSON is YAML
			path := filepath.Join(t.TempDir(), name)
			require.NoError(t, os.WriteFile(path, text, 0o600))
			var a arguments.TrainingArguments
			err := arguments.Parse([]string{path}, &a)
			if err == nil {
				err = a.Validate()
			}
			if c.Unreadable {
				assert.Error(t, err, "%s", text)
				continue
			}
			require.NoError(t, err, "%s", text)
			for name, want := range c.JSON {
				assert.Equal(t, fmt.Sprint(values(&a)[name]), strings.ReplaceAll(fmt.Sprint(want), "<nil>",
					fmt.Sprint(values(&a)[name])), "%s: %s", text, name)
			}
			if first == nil {
				first = &a
			}
			assert.Equal(t, first, &a, "%s as %s", text, name)
		}
	}
	path := filepath.Join(t.TempDir(), "a.yaml")
	require.NoError(t, os.WriteFile(path, []byte("eval_strategy: no\nlearning_rate: 5e-5\nmax_grad_norm: null\n"),
		0o600))
	var a arguments.TrainingArguments
	require.NoError(t, arguments.ParseFile(path, &a))
	assert.Equal(t, "no", a.EvalStrategy)
	assert.InDelta(t, 5e-5, a.LearningRate, 0)
	assert.Nil(t, a.MaxGradNorm)
}

// own is the class with the same name in testdata/hf_arguments.py.
type own struct {
	Rate   float64  `name:"rate" default:"0.1"`
	Name   string   `name:"name" default:"none"`
	Train  bool     `name:"train"`
	Labels []string `name:"labels"`
}

// TestArgsFilesAsHfArgumentParser reads files of arguments as parse_args_into_dataclasses does.
func TestArgsFilesAsHfArgumentParser(t *testing.T) {
	program := os.Args[0]
	t.Cleanup(func() { os.Args[0] = program })
	for _, c := range readGolden(t).Files {
		t.Chdir(t.TempDir())
		os.Args[0] = filepath.Join(".", "program.exe")
		for name, text := range c.Files {
			require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		}
		files := arguments.ArgsFiles{Name: c.Kwargs.Name, Flag: c.Kwargs.Flag,
			NoProgramFile: c.Kwargs.Look != nil && !*c.Kwargs.Look}
		var got own
		err := files.Parse(strings.Fields(c.Line), &got)
		if c.Unreadable {
			assert.Error(t, err, "%v %q", c.Files, c.Line)
			continue
		}
		require.NoError(t, err, "%v %q", c.Files, c.Line)
		if len(got.Labels) == 0 {
			got.Labels = c.Values.Labels[:0]
		}
		assert.Equal(t, c.Values, got, "%v %q", c.Files, c.Line)
		if files == (arguments.ArgsFiles{}) {
			got = own{}
			require.NoError(t, arguments.Parse(strings.Fields(c.Line), &got))
			assert.Equal(t, c.Values.Rate, got.Rate, "Parse reads the program's file too")
		}
	}
	for _, files := range []arguments.ArgsFiles{{Name: "none.args"}, {Flag: "--args_file"}} {
		err := files.Parse(strings.Fields("--args_file none.args"), new(own))
		assert.ErrorContains(t, err, "none.args", "a file that is named must be there")
	}
}

// TestEveryArgumentIsAField compares names and defaults with the class.
func TestEveryArgumentIsAField(t *testing.T) {
	text, err := os.ReadFile("../testdata/training_arguments.json")
	require.NoError(t, err)
	var python struct{ Arguments map[string]any }
	require.NoError(t, json.Unmarshal(text, &python))
	var a arguments.TrainingArguments
	require.NoError(t, arguments.ParseDict(nil, &a))
	got := values(&a)
	for name, want := range python.Arguments {
		if !assert.Contains(t, got, name) {
			continue
		}
		mine := got[name]
		switch name {
		case "report_to":
			mine = strings.Join(a.ReportTo, " ")
		case "debug":
			mine = strings.Join(a.Debug, " ")
		}
		if want == nil {
			assert.True(t, mine == nil || reflect.ValueOf(mine).IsZero(), "%s is %v, want none", name, mine)
			continue
		}
		assert.Equal(t, fmt.Sprint(want), fmt.Sprint(mine), name)
	}
	assert.Len(t, got, len(python.Arguments))
}

// apply parses a line and applies it to options that a program has prepared.
func apply(t *testing.T, line string, o trainer.Options, e engine.Options) (trainer.Options, engine.Options, error) {
	t.Helper()
	var a arguments.TrainingArguments
	require.NoError(t, arguments.Parse(strings.Fields(line), &a), line)
	err := a.Apply(&o, &e)
	return o, e, err
}

func TestArgumentsBecomeOptions(t *testing.T) {
	testenv.RequireTorch(t)
	o, e, err := apply(t, `--output_dir out --learning_rate 2e-5 --per_device_train_batch_size 16
		--per_device_eval_batch_size 4 --num_train_epochs 2 --weight_decay 0.01 --eval_strategy epoch --save_strategy epoch
		--load_best_model_at_end --metric_for_best_model f1 --bf16 --use_cpu --gradient_accumulation_steps 2
		--lr_scheduler_type cosine --lr_scheduler_kwargs {"num_cycles":"0.25"} --warmup_steps 0.1 --max_grad_norm 0
		--logging_steps 0.1 --save_total_limit 2 --seed 7 --dataloader_num_workers 3 --dataloader_prefetch_factor 4
		--include_num_input_tokens_seen non_padding --neftune_noise_alpha 5 --report_to tensorboard --disable_tqdm 1
		--resume_from_checkpoint True --enable_jit_checkpoint --log_level error --no_log_on_each_node`,
		trainer.Options{LimitBatches: 9}, engine.Options{})
	require.NoError(t, err)
	assert.Equal(t, "out", o.OutputDir)
	assert.InDelta(t, 2e-5, o.LearningRate, 0)
	assert.Equal(t, []int{16, 4, 2, 2, 3, 12, 9}, []int{o.BatchSize, o.EvalBatchSize, o.Accumulate, o.KeepCheckpoints,
		o.Workers, o.Prefetch, o.LimitBatches})
	assert.InDelta(t, 2, o.Epochs, 0)
	assert.Equal(t, trainer.Every(1, trainer.Epoch), o.Eval)
	assert.Equal(t, trainer.Every(1, trainer.Epoch), o.Save)
	assert.Equal(t, trainer.EveryShare(0.1), o.Log)
	assert.Equal(t, "f1", o.MetricForBest)
	assert.True(t, o.LoadBestAtEnd)
	assert.Equal(t, lr.Cosine{Warmup: 0.1, Cycles: 0.25}, o.Schedule)
	assert.Equal(t, data.Shuffled{Seed: 7}, o.Order)
	assert.Equal(t, trainer.Latest, o.ResumeFrom)
	assert.True(t, o.SaveInterrupted)
	assert.Equal(t, io.Discard, o.Progress)
	assert.Equal(t, []any{&callback.TensorBoard{}}, o.Callbacks)
	assert.Equal(t, slog.LevelError, o.LogLevel.Level())
	assert.False(t, o.LogOnEachNode)
	assert.True(t, o.CountTokens)
	assert.Equal(t, engine.Options{Optimizer: e.Optimizer, MaxGradNorm: math.Inf(1), Device: torch.CPU,
		Precision: amp.BF16, NEFTuneAlpha: 5, NonPaddingTokens: true}, e)
	adam, ok := e.Optimizer.(optim.AdamW)
	require.True(t, ok, "%T", e.Optimizer)
	assert.InDelta(t, 0.01, *adam.WeightDecay, 0)

	o, e, err = apply(t, "--max_steps 10 --seed 0 --use_cpu --hub_model_id me/m --push_to_hub --hub_strategy end",
		trainer.Options{}, engine.Options{})
	require.NoError(t, err)
	assert.Equal(t, "trainer_output", o.OutputDir)
	assert.Equal(t, []any{10, 0.0, uint64(trainer.SeedZero)}, []any{o.MaxSteps, o.Epochs, o.Seed})
	assert.Equal(t, trainer.Never, o.Eval)
	assert.Equal(t, &hub.Pusher{Repo: "me/m"}, o.Pusher)
	assert.Equal(t, trainer.PushAtEnd, o.PushStrategy)
	assert.InDelta(t, 1, e.MaxGradNorm, 0)

	o, _, err = apply(t, "--push_to_hub --output_dir your-model --use_cpu", trainer.Options{}, engine.Options{})
	require.NoError(t, err)
	assert.Equal(t, new(hub.Pusher), o.Pusher, "the switch: repository and card are those of the run")
	o, _, err = apply(t, "--push_to_hub --hub_token hf_secret --hub_revision dev --hub_private_repo yes --use_cpu",
		trainer.Options{}, engine.Options{})
	require.NoError(t, err)
	assert.Equal(t, &hub.Pusher{Client: &hub.Client{Token: hub.NewSecret("hf_secret")},
		Options: hub.PushOptions{Branch: "dev", Private: true}}, o.Pusher)

	o, _, err = apply(t, "--learning_rate 0 --use_cpu", trainer.Options{}, engine.Options{})
	require.NoError(t, err)
	assert.InDelta(t, 0, o.Schedule.Plan(o.LearningRate, 10)(5), 0)
}

func TestTargetModulesAreAStringOrAList(t *testing.T) {
	testenv.RequireTorch(t)
	_, e, err := apply(t, "--optim galore_adamw --optim_target_modules .*attn.* --use_cpu", trainer.Options{},
		engine.Options{})
	require.NoError(t, err)
	assert.Equal(t, optim.Targets{Pattern: ".*attn.*"}, e.LowRankTargets)
	var a arguments.TrainingArguments // the listing in the guide
	require.NoError(t, arguments.ParseDict(map[string]any{"optim": "galore_adamw", "use_cpu": true, "max_steps": 100,
		"optim_target_modules": []any{"attn", "mlp"}, "optim_args": "rank=64, update_proj_gap=100, scale=0.10"}, &a))
	for _, list := range []any{a.OptimTargetModules, []string{"attn", "mlp"}} {
		a.OptimTargetModules = list
		e = engine.Options{}
		require.NoError(t, a.Apply(new(trainer.Options), &e))
		assert.Equal(t, optim.Targets{Parts: []string{"attn", "mlp"}}, e.LowRankTargets)
	}
}

// TestGradientsThatAreUsedUpAreNotClipped: engine.New refuses a limit for optimizers that use up
// the gradients.
func TestGradientsThatAreUsedUpAreNotClipped(t *testing.T) {
	testenv.RequireTorch(t)
	for _, name := range []string{"galore_adamw_layerwise --optim_target_modules a", "lomo", "adalomo"} {
		for _, line := range []string{"", " --max_grad_norm 0", " --max_grad_norm 1"} {
			_, e, err := apply(t, "--use_cpu --optim "+name+line, trainer.Options{}, engine.Options{})
			require.NoError(t, err)
			assert.Zero(t, e.MaxGradNorm, name+line)
		}
		_, _, err := apply(t, "--use_cpu --max_grad_norm 0.5 --optim "+name, trainer.Options{}, engine.Options{})
		require.ErrorContains(t, err, "max_grad_norm is 0.5; want 0")
	}
}

func TestTheEnvironmentCountsWhereArgumentsSayNothing(t *testing.T) {
	testenv.RequireTorch(t)
	t.Setenv("ACCELERATE_USE_CPU", "true")
	t.Setenv("ACCELERATE_MIXED_PRECISION", "bf16")
	_, e, err := apply(t, "", trainer.Options{}, engine.Options{})
	require.NoError(t, err)
	assert.Equal(t, amp.BF16, e.Precision)
	assert.Equal(t, torch.CPU, e.Device)
	t.Setenv("ACCELERATE_USE_FSDP", "true")
	for line, want := range map[string]shard.Strategy{"": shard.FullShard, "--fsdp no_shard": 0, "--fsdp": shard.FullShard,
		`--fsdp shard_grad_op`: shard.ShardGradOp, "--fsdp hybrid_shard": shard.FullShard,
		"--fsdp hybrid_shard_zero2": shard.ShardGradOp} {
		_, e, err = apply(t, line, trainer.Options{}, engine.Options{})
		require.NoError(t, err, line)
		assert.Equal(t, want, e.Sharding, line)
		assert.Equal(t, strings.Contains(line, "hybrid"), e.ShardingReplicas == shard.OnePerMachine, line)
	}
	t.Setenv("FSDP_OFFLOAD_PARAMS", "true")
	_, _, err = apply(t, "", trainer.Options{}, engine.Options{})
	assert.ErrorContains(t, err, "FSDP_OFFLOAD_PARAMS is true; want false: parameters stay on their device")
}

// MLflow gets what transformers' MLflowCallback sends: str() of every argument.
func TestArgumentsAsMLflowShowsThem(t *testing.T) {
	testenv.RequireTorch(t)
	golden := readGolden(t).Reported
	o, _, err := apply(t, golden.Line, trainer.Options{}, engine.Options{})
	require.NoError(t, err)
	require.Len(t, o.Callbacks, 1)
	report, ok := o.Callbacks[0].(*callback.MLflow)
	require.True(t, ok)
	assert.Equal(t, "first", report.RunName)
	want := golden.Texts
	want["accelerator_config"] = "None" // Python's texts of this and the next come from __post_init__
	want["dataloader_pin_memory"] = "True"
	want["label_names"] = "[]" // a slice is not None
	assert.Equal(t, want, report.Params)
}

// TestWhatMeansNothingIsRefusedByName: each argument that is not at its default and would have no
// effect is refused.
func TestWhatMeansNothingIsRefusedByName(t *testing.T) {
	testenv.RequireTorch(t)
	for line, want := range map[string]string{
		"--torch_compile":                             "the compiler is Python's",
		"--use_liger_kernel":                          "Triton",
		"--run_name x":                                "only report_to mlflow",
		"--fsdp offload":                              "nothing is moved to the host",
		"--deepspeed ds.json":                         "DeepSpeed's engine",
		"--ddp_bucket_cap_mb 0":                       "at least 1",
		"--ddp_backend nccl":                          `is "nccl"; want gloo or none: the run is on the CPU`,
		"--ddp_timeout 10":                            "dist.Options.Timeout",
		"--no_dataloader_pin_memory":                  "from pinned memory",
		`--parallelism_config {"tp_size":2}`:          "engine.Options.Sharding",
		"--dataloader_persistent_workers":             "microseconds",
		"--no_remove_unused_columns":                  "typed",
		"--include_for_metrics inputs":                "engine.Predictions.Inputs",
		"--label_names start end":                     "typed batch",
		"--report_to wandb":                           "none, tensorboard or mlflow",
		"--hub_model_id me/m":                         "push_to_hub",
		"--batch_eval_metrics":                        "engine.Options.BatchMetrics",
		"--train_sampling_strategy group_by_length":   "Lengths",
		"--local_rank 1":                              "LOCAL_RANK",
		"--optim adamw_torch_4bit":                    "adamw_torch_4bit",
		"--optim galore_adamw":                        "optim_target_modules",
		"--optim_target_modules attn":                 "projects no gradients",
		"--optim sgd --optim_args nestrov=true":       "nestrov",
		"--lr_scheduler_kwargs {\"x\":1}":             "x",
		"--lr_scheduler_kwargs x":                     "an object",
		"--learning_rate -1":                          "0 or more",
		"--max_steps 0":                               "trains nothing",
		"--num_train_epochs 0":                        "trains nothing",
		"--per_device_train_batch_size 0":             "at least 1",
		"--seed -1":                                   "0 or more",
		`--accelerator_config {"split_batches":true}`: "split_batches",
		`--accelerator_config {"batches":true}`:       "even_batches",
		// the main process would send batches of sets, too
		`--accelerator_config {"dispatch_batches":true}`: "dispatch_batches",
		`--gradient_checkpointing_kwargs {"x":1}`:        "use_reentrant",
		"--skip_memory_metrics false":                    "measured from outside",
		// optimizers that warm up by themselves
		"--optim schedule_free_sgd --warmup_steps 0.1": "how long the run is",
	} {
		_, _, err := apply(t, line+" --use_cpu", trainer.Options{}, engine.Options{})
		var refused *arguments.Error
		require.ErrorAs(t, err, &refused, line)
		assert.ErrorContains(t, err, want, line)
		assert.Equal(t, 2, refused.ExitCode())
	}
	_, e, err := apply(t, "--ddp_bucket_cap_mb 5 --ddp_broadcast_buffers false --ddp_backend gloo --use_cpu",
		trainer.Options{}, engine.Options{})
	require.NoError(t, err)
	assert.Equal(t, &ddp.Options{FindUnusedParameters: true, BucketCapMB: 5, KeepBuffers: true}, e.Distributed)
	group, err := dist.Init(context.Background(), dist.Options{World: 1})
	require.NoError(t, err)
	o, _, err := apply(t, `--accelerator_config {"dispatch_batches":false} --use_cpu`, trainer.Options{},
		engine.Options{})
	require.NoError(t, err)
	assert.True(t, o.NoDispatchBatches)
	_, _, err = apply(t, "--ddp_timeout 10 --use_cpu", trainer.Options{Group: group}, engine.Options{})
	assert.NoError(t, err)
}

func TestBackendIsTheOneOfTheDevice(t *testing.T) {
	for _, c := range []struct {
		backend string
		device  torch.Device
		nccl    bool
		want    string // in the error; empty: accepted
	}{
		{"", torch.CPU, false, ""},
		{"gloo", torch.CPU, true, ""},
		{"nccl", torch.CPU, true, "want gloo or none: the run is on the CPU"},
		{"", torch.CUDA(1), true, ""},
		{"nccl", torch.CUDA(1), true, ""},
		{"gloo", torch.CUDA(1), true, "want nccl or none: the run is on cuda:1; gloo is for the CPU (use_cpu)"},
		{"gloo", torch.CUDA(1), false, ""},
		{"nccl", torch.CUDA(1), false, "want gloo or none: libcgotorch_cuda was built without nccl.h"},
		{"mpi", torch.CUDA(1), true, `ddp_backend is "mpi"; want nccl`},
	} {
		err := arguments.CheckBackend(c.backend, c.device, c.nccl)
		if c.want == "" {
			assert.NoError(t, err, "%+v", c)
			continue
		}
		assert.ErrorContains(t, err, c.want, "%+v", c)
	}
}

func TestSplitBatchesAreDividedByTheProcesses(t *testing.T) {
	group, err := dist.Init(t.Context(), dist.Options{Fake: true, World: 4})
	require.NoError(t, err)
	t.Cleanup(func() { _ = group.Close() })
	const split = `--accelerator_config {"split_batches":true} --use_cpu --per_device_train_batch_size `
	o, _, err := apply(t, split+"32 --per_device_eval_batch_size 12", trainer.Options{Group: group}, engine.Options{})
	require.NoError(t, err)
	assert.Equal(t, []int{8, 3}, []int{o.BatchSize, o.EvalBatchSize})
	_, _, err = apply(t, split+"30", trainer.Options{Group: group}, engine.Options{})
	require.ErrorContains(t, err, "per_device_train_batch_size")
	assert.ErrorContains(t, err, "a multiple of 4, the number of processes")
	_, _, err = apply(t, split+"32", trainer.Options{}, engine.Options{})
	assert.ErrorContains(t, err, "trainer.Options.Group to be set before Apply")
}

// num_steps replaces gradient_accumulation_steps before transformers makes the sampler.
func TestOrdersByLengthSeeNumSteps(t *testing.T) {
	lengths := []int{1, 2, 3}
	order := func(strategy, more string) data.Order {
		var a arguments.TrainingArguments
		require.NoError(t, arguments.Parse(strings.Fields("--use_cpu --per_device_train_batch_size 4 "+
			"--train_sampling_strategy "+strategy+" "+more), &a))
		a.Lengths = lengths
		var o trainer.Options
		require.NoError(t, a.Apply(&o, new(engine.Options)))
		assert.Equal(t, 3, o.Accumulate)
		return o.Order
	}
	const steps = `--accelerator_config {"gradient_accumulation_kwargs":{"num_steps":3}}`
	assert.Equal(t, data.GroupedByLength{Lengths: lengths, BatchSize: 12}, order("group_by_length", steps))
	assert.Equal(t, data.BatchRebalance{Lengths: lengths, BatchSize: 4, Accumulate: 3}, order("batch_rebalance", steps))
	for _, strategy := range []string{"group_by_length", "batch_rebalance"} {
		assert.Equal(t, order(strategy, "--gradient_accumulation_steps 3"), order(strategy, steps), strategy)
	}
}

// TestNothingIsAcceptedAndIgnored: arguments that docs/training-arguments.md calls "not here" are
// refused by name if they are not at their defaults.
func TestNothingIsAcceptedAndIgnored(t *testing.T) {
	testenv.RequireTorch(t)
	page, err := os.ReadFile("../../docs/training-arguments.md")
	require.NoError(t, err)
	rows := regexp.MustCompile("(?m)^\\| `(\\w+)` \\|[^|]*\\| (not here|always)").FindAllStringSubmatch(string(page),
		-1)
	require.Greater(t, len(rows), 29)
	for _, row := range rows {
		var a arguments.TrainingArguments
		require.NoError(t, arguments.ParseDict(map[string]any{"use_cpu": true}, &a))
		v := reflect.ValueOf(&a).Elem()
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("name") == row[1] {
				change(v.Field(i))
			}
		}
		err := a.Apply(new(trainer.Options), new(engine.Options))
		var refused *arguments.Error
		if assert.ErrorAs(t, err, &refused, row[1]) {
			assert.Contains(t, refused.Argument, row[1])
		}
	}
}

// change changes the value of a field.
func change(f reflect.Value) {
	switch f.Kind() {
	case reflect.Bool:
		f.SetBool(!f.Bool())
	case reflect.Int:
		f.SetInt(f.Int() + 2)
	case reflect.String:
		f.SetString("x")
	case reflect.Slice:
		f.Set(reflect.ValueOf([]string{"x"}))
	case reflect.Interface:
		f.Set(reflect.ValueOf(map[string]any{"x": true}))
	case reflect.Pointer:
		f.Set(reflect.New(f.Type().Elem()))
		change(f.Elem())
	}
}

func TestProcessLogLevel(t *testing.T) {
	for _, c := range []struct {
		line, verbosity string
		process         trainer.Process
		want            slog.Level
	}{
		{"", "", trainer.Process{}, slog.LevelWarn},
		{"", "info", trainer.Process{}, slog.LevelInfo},
		{"", "INFO", trainer.Process{}, slog.LevelWarn}, // transformers 5.17 warns of an "Unknown option" and uses WARNING
		{"--log_level error", "info", trainer.Process{}, slog.LevelError},
		{"--log_level debug", "", trainer.Process{Rank: 1, LocalRank: 1, World: 4}, slog.LevelWarn},
		{"--log_level debug", "", trainer.Process{Rank: 2, LocalRank: 0, World: 4}, slog.LevelDebug},
		{"--log_level debug --log_level_replica error --log_on_each_node 0", "",
			trainer.Process{Rank: 2, LocalRank: 0, World: 4}, slog.LevelError},
	} {
		t.Setenv("TRANSFORMERS_VERBOSITY", c.verbosity)
		var a arguments.TrainingArguments
		require.NoError(t, arguments.Parse(strings.Fields(c.line), &a))
		assert.Equal(t, c.want, a.ProcessLogLevel(c.process), c)
	}
	t.Setenv("TRANSFORMERS_VERBOSITY", "loud")
	var a arguments.TrainingArguments
	require.NoError(t, arguments.Parse(nil, &a))
	assert.ErrorContains(t, a.Apply(new(trainer.Options), new(engine.Options)), `TRANSFORMERS_VERBOSITY is "loud"`)
}

func TestStructsOfAProgramAreArgumentsToo(t *testing.T) {
	type own struct {
		Model  string  `name:"model_name_or_path" required:"" help:"Folder or name on the Hub."`
		Length int     `name:"max_seq_length" default:"128"`
		Share  float64 `name:"share"`
		Cased  bool    `name:"cased" default:"true"`
	}
	var o own
	var a arguments.TrainingArguments
	line := strings.Fields("--model_name_or_path bert --no_cased --share -1e-3 --do_train")
	require.NoError(t, arguments.Parse(line, &o, &a))
	assert.Equal(t, own{"bert", 128, -1e-3, false}, o)
	assert.True(t, a.DoTrain)
	assert.ErrorContains(t, arguments.Parse(nil, &o, &a), "model_name_or_path")
	assert.ErrorContains(t, arguments.ParseDict(map[string]any{}, &o, &a), "required")
	assert.NoError(t, arguments.ParseDict(map[string]any{"model_name_or_path": "x"}, &o, &a))
	assert.ErrorContains(t, arguments.Parse(nil, o), "pointers to structs")
	assert.ErrorContains(t, arguments.Parse(nil, &a, &a), "two structs have the argument")
}

// TestFieldsWithoutANameAreArgumentsToo: flags with "_" or "-", and keys of a file.
func TestFieldsWithoutANameAreArgumentsToo(t *testing.T) {
	type own struct {
		TrainFile string
		MaxLength int `default:"128"`
		HTTPPort  int
		NaN       bool
		Skipped   func() `kong:"-"`
	}
	var o own
	var a arguments.TrainingArguments
	line := strings.Fields("--train-file a.csv --max_length 5 --http_port 80 --na-n --max_steps 3")
	require.NoError(t, arguments.Parse(line, &o, &a))
	assert.Equal(t, own{TrainFile: "a.csv", MaxLength: 5, HTTPPort: 80, NaN: true}, o)
	o = own{}
	require.NoError(t, arguments.ParseDict(map[string]any{"train_file": "b.csv", "max_steps": 3}, &o, &a))
	assert.Equal(t, own{TrainFile: "b.csv", MaxLength: 128}, o)
	assert.Error(t, arguments.ParseDict(map[string]any{"skipped": 1}, &o, &a))
}

// TestAWrongCommandLineIsAConfigurationError, whoever notices it.
func TestAWrongCommandLineIsAConfigurationError(t *testing.T) {
	for _, line := range []string{"--lerning_rate 1", "--learning_rate abc", "--save_strategy", "--save 1"} {
		err := arguments.Parse(strings.Fields(line), new(arguments.TrainingArguments))
		assert.Equal(t, run.Configuration, run.CodeOf(err), "%s: %v", line, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("--do_train true --label_names a b --learning_rate=1e-3")
	f.Add("--no_x -1 -- --=")
	f.Fuzz(func(t *testing.T, line string) {
		words := strings.Fields(line)
		for _, w := range words {
			if strings.HasPrefix(w, "-h") || strings.HasPrefix(w, "--h") || strings.HasSuffix(w, "ml") ||
				strings.HasSuffix(w, ".json") { // help ends the process; files are not part of the line
				return
			}
		}
		var a arguments.TrainingArguments
		if arguments.Parse(words, &a) == nil {
			_ = a.Validate()
		}
	})
}

func ExampleParse() {
	var model struct {
		Name string `name:"model_name_or_path" required:"" help:"Folder or name on the Hub."`
	}
	var args arguments.TrainingArguments
	line := "--model_name_or_path bert-base-cased --do_train --learning_rate 5e-5 --fp16 false --output_dir out"
	if err := arguments.Parse(strings.Fields(line), &model, &args); err != nil {
		fmt.Println(err)
	}
	fmt.Println(model.Name, args.DoTrain, args.LearningRate, args.FP16, args.OutputDir)
	// Output: bert-base-cased true 5e-05 false out
}

// The Trainer guide's NEFTune and GaLore: arguments by their names, for any model.
func ExampleTrainingArguments_Apply() {
	var args arguments.TrainingArguments
	err := arguments.ParseDict(map[string]any{
		"output_dir":                  "test-galore",
		"max_steps":                   100,
		"per_device_train_batch_size": 2,
		"neftune_noise_alpha":         0.1,
		"optim":                       "galore_adamw",
		"optim_target_modules":        []any{"attn", "mlp"},
		"optim_args":                  "rank=64, update_proj_gap=100, scale=0.10",
	}, &args)
	var o trainer.Options
	var e engine.Options
	if err == nil {
		err = args.Apply(&o, &e)
	}
	fmt.Println(o.MaxSteps, o.BatchSize, e.NEFTuneAlpha, e.LowRankTargets.Parts, err)
	// Output: 100 2 0.1 [attn mlp] <nil>
}

// The Trainer guide's "one level for all modules".
func ExampleTrainingArguments_ProcessLogLevel() {
	var args arguments.TrainingArguments
	if err := arguments.Parse([]string{"--log_level", "warning", "--log_level_replica", "error"}, &args); err != nil {
		fmt.Println(err)
	}
	var level slog.LevelVar
	level.Set(args.ProcessLogLevel(trainer.Process{Rank: 0, World: 2}))
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{Level: &level,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr { // without the time
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
	logger.Info("not shown")
	logger.Warn("shown")
	// Output: level=WARN msg=shown
}
