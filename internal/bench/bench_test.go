package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

func TestMain(m *testing.M) { os.Exit(testenv.Run(m)) }

const sharedData = "../../../shared/data"

// line runs the command and returns the line that it prints, decoded.
func line(t *testing.T, args ...string) map[string]any {
	t.Helper()
	var out, log bytes.Buffer
	require.Zero(t, command(append(args, "-tiny", "-threads", "1"), &out, &log), "%s", &log)
	var m map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &m))
	return m
}

// The expected values were printed by plain PyTorch, by TRL for dpo and grpo, for the same workload
// with -tiny, one thread and dropout 0. Texts and IDs must be equal; pictures differ by a few grey levels.
func TestEveryWorkloadDoesTheWorkOfThePeers(t *testing.T) {
	if _, err := os.Stat(sharedData); err != nil {
		t.Skip("the data sets are not beside the checkout: ", err)
	}
	testenv.RequireTorch(t)
	threads := torch.Threads()
	t.Cleanup(func() { torch.SetThreads(threads) })
	for _, c := range []struct {
		workload    string
		first, last float64
		args        []string
		long        bool
	}{
		{"mlp", 2.321822, 0.420686, nil, false},
		{"mlp_tiny", 2.349649, 1.559890, nil, false},
		{"startup", 2.321822, 2.321822, nil, false},
		{"accum", 2.314199, 0.391224, nil, false},
		{"soak", 2.321822, 0.007766, nil, true},
		{"crnn", 15.937977, 8.812549, nil, true},
		{"bert_small", 0.725129, 0.627632, []string{"-dropout", "0"}, true},
		{"bert_small", 0.725129, 0.627632, []string{"-dropout", "0", "-padding-free", "-fuse-qkv"}, true},
		{"bert_base", 0.674587, 0.677114, []string{"-dropout", "0"}, false},
		{"bert_base", 0.674587, 0.677114, []string{"-dropout", "0", "-padding-free", "-fuse-qkv"}, false},
		{"lm", 10.317544, 10.258849, nil, false},
		{"sft", 10.317544, 10.258849, nil, false},
		{"dpo", 0.693147, 0.695316, nil, false},
		{"grpo", 0.505859, 0.489746, nil, false},
		{"eval", 0.692956, 0.692956, nil, false},
		{"eval", 0.692956, 0.692956, []string{"-padding-free"}, false},
		{"eval", 0.692956, 0.692956, []string{"-sort-by-length"}, false},
		{"images", 0.068753, 0.618328, nil, false},
		{"tokenize", 39938, 176791293, nil, false},
		{"checkpoint", 33631.27, 33631.27, nil, false},
		{"op_add", 24, 24, nil, false},
		{"op_add_inplace", 0.5, 0.5, nil, false},
		{"op_linear", -10.5883, -10.5883, nil, false},
		{"op_linear_train", -476.65663, -476.65663, nil, false},
	} {
		t.Run(c.workload, func(t *testing.T) {
			if c.long && testing.Short() {
				t.Skip("it takes seconds")
			}
			m := line(t, append([]string{"-workload", c.workload, "-data", sharedData}, c.args...)...)
			for _, key := range []string{"steps", "seconds", "ms_per_step", "samples_per_s", "peak_rss_mb",
				"anon_rss_mb", "first_step_s"} {
				assert.Positive(t, m[key], key)
			}
			assert.Equal(t, c.workload, m["workload"])
			assert.Equal(t, "gotrainer", m["impl"])
			assert.EqualValues(t, 1, m["threads"])
			switch c.workload {
			case "tokenize":
				assert.Equal(t, []any{c.first, c.last}, []any{m["loss_first"], m["loss_last"]})
			case "images":
				assert.InDelta(t, c.first, m["loss_first"], 0.003)
				assert.InDelta(t, c.last, m["loss_last"], 0.003)
			default:
				assert.InEpsilon(t, c.first, m["loss_first"], 2e-4)
				assert.InDelta(t, c.last, m["loss_last"], 0.05*max(abs(c.last), 0.2*abs(c.first)))
			}
		})
	}
}

func abs(v float64) float64 { return max(v, -v) }

func TestAnEvaluationAgreesWithPyTorchInEveryAnswer(t *testing.T) {
	if _, err := os.Stat(sharedData); err != nil {
		t.Skip("the data sets are not beside the checkout: ", err)
	}
	testenv.RequireTorch(t)
	m := line(t, "-workload", "eval", "-data", sharedData)
	assert.Equal(t, []any{0.541667, 0.611765}, []any{m["accuracy"], m["f1"]})
}

func TestOperandsOfAFile(t *testing.T) {
	testenv.RequireTorch(t)
	file := filepath.Join(t.TempDir(), "op_linear.safetensors")
	torch.Scope(func() {
		require.NoError(t, nn.Save(file, &operandFile{X: nn.Buffer(torch.Ones(8, 32)),
			Weight: nn.Buffer(torch.Ones(32, 32)), Bias: nn.Buffer(torch.Zeros(32))}, nil))
	})
	m := line(t, "-workload", "op_linear", "-init", file)
	assert.EqualValues(t, 8*32*32, m["loss_first"])
}

func TestFlagsChangeTheSizes(t *testing.T) {
	gpu := torch.CUDA(0)
	none := settings{warmup: -1, dropout: -1}
	with := func(change func(*settings)) workload {
		o := none
		o.workload = "bert_base"
		change(&o)
		return sized(o)
	}
	for name, c := range map[string]struct {
		w    workload
		want [4]any // batch, warm-up, steps, precision
	}{
		"CPU":  {with(func(*settings) {}), [4]any{8, 1, 5, "fp32"}},
		"GPU":  {with(func(o *settings) { o.device = gpu }), [4]any{32, 10, 100, "bf16"}},
		"tiny": {with(func(o *settings) { o.tiny = true }), [4]any{4, 1, 4, "fp32"}},
		"flags": {with(func(o *settings) { o.batch, o.warmup, o.steps, o.precision = 2, 0, 3, "bf16" }),
			[4]any{2, 0, 3, "bf16"}},
	} {
		assert.Equal(t, c.want, [4]any{c.w.batch, c.w.warmup, c.w.steps, c.w.precision}, name)
	}
}

func TestWindowsRunOverTheEndOfAPermutation(t *testing.T) {
	e := oneEpoch{batch: 4, batches: 5}
	got := e.Indices(0, 10)
	require.Len(t, got, 20)
	assert.Equal(t, order(0, 10)[:8], got[:8], "the incomplete batch of the first is dropped")
	assert.Equal(t, order(1, 10)[:8], got[8:16])
	assert.Equal(t, order(2, 10)[:4], got[16:])
}

func TestWhatCannotRunSaysSo(t *testing.T) {
	var log bytes.Buffer
	assert.Equal(t, 1, command([]string{"-workload", "nothing"}, io.Discard, &log))
	assert.Contains(t, log.String(), `there is no workload "nothing"; want one of accum, bert_base`)
	assert.Equal(t, 2, command([]string{"-nothing"}, io.Discard, &log))

	testenv.RequireTorch(t)
	if torch.CUDADevices() > 0 {
		t.Skip("this machine has a GPU")
	}
	var out strings.Builder
	assert.Equal(t, exitSkip, command([]string{"-workload", "mlp", "-device", "cuda"}, &out, &log))
	assert.JSONEq(t, `{"workload": "mlp", "impl": "gotrainer", "skip": "no CUDA device"}`, out.String())
}
