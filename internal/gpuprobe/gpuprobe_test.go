package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Run(m)) }

// lines runs the command on the CPU.
func lines(t *testing.T, args ...string) (code int, lines []map[string]any) {
	t.Helper()
	testenv.RequireTorch(t)
	var out, log bytes.Buffer
	code = command(append([]string{"-device", "cpu", "-tiny"}, args...), &out, &log)
	for decoder := json.NewDecoder(&out); decoder.More(); {
		var line map[string]any
		require.NoError(t, decoder.Decode(&line))
		lines = append(lines, line)
	}
	return code, lines
}

// On the CPU a probe compares the CPU with itself, so nothing fails; probes that need a GPU say so.
func TestEveryProbeAnswersOnACPU(t *testing.T) {
	for _, p := range probes {
		t.Run(p.name, func(t *testing.T) {
			if testing.Short() && !p.gpu && p.name != "upload" && p.name != "threads" {
				t.Skip("it trains")
			}
			code, got := lines(t, p.name)
			require.Len(t, got, 1)
			assert.Equal(t, p.name, got[0]["probe"])
			assert.Equal(t, "cpu", got[0]["device"])
			if p.name == "parity" { // bf16 on a CPU emulates that of a GPU
				delete(got[0], "failed")
				code = 0
			}
			assert.NotContains(t, got[0], "failed")
			assert.Zero(t, code)
			assert.NotNil(t, got[0]["found"])
			assert.Equal(t, p.gpu, got[0]["found"] == "needs a GPU")
		})
	}
}

func TestAProbeThatFailsIsALineAndAStatus(t *testing.T) {
	testenv.RequireTorch(t)
	var out bytes.Buffer
	failed := ask(probe{name: "wrong", ask: func(machine) (a answer) {
		a.expect(true, "not said")
		a.expect(1 > 2, "one is %d", 1)
		return a
	}}, machine{}, &out)
	assert.Equal(t, []string{"one is 1"}, failed)
	assert.Contains(t, out.String(), `"failed":["one is 1"]`)
}

func TestTheCommandLineIsChecked(t *testing.T) {
	testenv.RequireTorch(t)
	for _, c := range []struct {
		args []string
		code int
		text string
	}{
		{[]string{"nothing"}, 2, `there is no probe "nothing"; want some of ops, parity`},
		{[]string{"-wrong"}, 2, "usage: gpuprobe"},
		{[]string{"-device", "tpu", "ops"}, 1, "want auto, cpu, cuda or cuda:N"},
	} {
		var out, log bytes.Buffer
		assert.Equal(t, c.code, command(c.args, &out, &log), c.args)
		assert.Contains(t, log.String(), c.text)
	}
}

func TestATraceIsCounted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.json")
	require.NoError(t, os.WriteFile(path, []byte(`{"traceEvents": [
		{"cat": "cuda_runtime", "name": "cudaStreamSynchronize", "dur": 3}, {"cat": "kernel", "name": "gemm", "dur": 2},
		{"cat": "kernel", "name": "add", "dur": 1}, {"cat": "cpu_op", "name": "aten::add"}, {"name": "other"}]}`), 0o600))
	got, err := countCalls(path)
	require.NoError(t, err)
	assert.Equal(t, map[string]float64{"cudaStreamSynchronize": 1, "kernels": 2, "microseconds of kernels": 3,
		"operators": 1}, got)
}
