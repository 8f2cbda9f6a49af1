package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// actsAs is the environment variable with the line that this test binary prints when it runs as one
// of the programs.
const actsAs = "BENCH_COMPARE_TEST_LINE"

func TestMain(m *testing.M) {
	if text := os.Getenv(actsAs); text != "" {
		fmt.Printf("a record of the log\n%s\n", text)
		if strings.Contains(text, "workload") {
			return
		}
		fmt.Fprintln(os.Stderr, "it has failed")
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func run(millis, memory, first, last float64) line {
	return line{Workload: "mlp", Steps: 10, Threads: 1, Millis: millis, Memory: memory, LossFirst: first,
		LossLast: last}
}

func TestReport(t *testing.T) {
	peer := run(3, 600, 2.3, 0.5)
	peer.Versions = map[string]string{"torch": "2.11.0", "accelerate": "1.15.0"}
	results := []compared{
		{row: row{name: "mlp", peers: []string{"raw", "hf", "accelerate"}}, threads: 1, load: 0.5,
			runs: map[string][]line{
				ours:  {run(1, 200, 2.3, 0.5), run(2, 200, 2.3, 0.5), run(1, 200, 2.3, 0.5)},
				"raw": {peer, run(4, 600, 2.3, 0.5), run(2, 600, 2.3, 0.5)},
				"hf":  {run(9, 800, 2.4, 0.5), run(8, 800, 2.4, 0.5), run(7, 800, 2.4, 0.5)},
			},
			skipped: map[string]string{"accelerate": "failed"}},
		{row: row{name: "mlp", peers: []string{"raw"}}, threads: 2, load: 1.25,
			runs: map[string][]line{ours: {run(1, 200, 2.3, 0.5)}, "raw": {run(2, 100, 2.3, 0.5)}}},
	}
	got := report("2 CPUs, a make", time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC), options{rounds: 3}, results)
	assert.Equal(t, `23 November 2026: 2 CPUs, a make, load average 0.5 to 1.2 before a row.
Python: accelerate 1.15.0, torch 2.11.0.
Medians of 3 rounds, with the range; times in ms a step.
A ratio is the peer's figure divided by ours, round by round.

Threads within an operator: 1.

| work | peer | ours | the peer's | ratio of times | ratio of memory | same work |
| --- | --- | --- | --- | --- | --- | --- |
| `+"`mlp`"+` | raw | 1 (1 to 2) | 3 (2 to 4) | 2 (2 to 3) | 3.00 | yes |
| `+"`mlp`"+` | hf | 1 (1 to 2) | 8 (7 to 9) | 7 (4 to 9) | 4.00 | no: first loss 2.3 and 2.4 |
| `+"`mlp`"+` | accelerate | 1 (1 to 2) | failed | | | |

Threads within an operator: 2.

| work | peer | ours | the peer's | ratio of times | ratio of memory | same work |
| --- | --- | --- | --- | --- | --- | --- |
| `+"`mlp`"+` | raw | 1 (1 to 1) | 2 (2 to 2) | 2 (2 to 2) | 0.50 | yes |
`, got)
	for line := range strings.Lines(got) {
		for cell := range strings.SplitSeq(line, "|") {
			assert.LessOrEqual(t, len(cell), 160)
		}
	}
}

func TestTablesAreReplacedInTheDocument(t *testing.T) {
	document := "# Title\n" + begin + "\nold\n" + end + "\nrest\n"
	got, err := replace(document, "new\n")
	require.NoError(t, err)
	assert.Equal(t, "# Title\n"+begin+"\nnew\n"+end+"\nrest\n", got)
	again, err := replace(got, "new\n")
	require.NoError(t, err)
	assert.Equal(t, got, again)
	_, err = replace("# Title\n"+begin, "new\n")
	assert.ErrorContains(t, err, "there are no lines")

	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "performance.md"))
	require.NoError(t, err)
	_, err = replace(string(text), "")
	assert.NoError(t, err, "the document has a place for the tables")
}

func TestWhatIsTheSameWork(t *testing.T) {
	with := func(change func(*line)) line {
		l := run(1, 1, 2, 0.01)
		change(&l)
		return l
	}
	for name, c := range map[string]struct {
		a, b line
		want int // doubts
	}{
		"equal":               {run(1, 1, 2, 0.01), run(5, 9, 2, 0.01), 0},
		"rounding at the end": {run(1, 1, 2, 0.01), run(1, 1, 2, 0.02), 0},
		"another loss":        {run(1, 1, 2, 1), run(1, 1, 2.01, 2), 2},
		"dropout": {run(1, 1, 2, 1),
			with(func(l *line) { l.Dropout, l.LossFirst, l.LossLast = 0.1, 2.05, 1.2 }), 0},
		"steps and threads": {run(1, 1, 2, 0.01), with(func(l *line) { l.Steps, l.Threads = 11, 2 }), 2},
		"tokens": {with(func(l *line) { l.Workload, l.LossFirst = "tokenize", 39938 }),
			with(func(l *line) { l.Workload, l.LossFirst = "tokenize", 39939 }), 1},
	} {
		assert.Len(t, doubts(c.a, c.b), c.want, name)
	}
}

func TestProgramsRunInTurn(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	o := options{bench: self, python: self, rounds: 3, timeout: time.Minute, device: cpu}
	r := row{name: "mlp", peers: []string{"raw", "hf"}}
	t.Setenv(actsAs, `{"workload": "mlp", "ms_per_step": 1.5, "steps": 2}`)
	c, err := o.compare(t.Context(), r, 1)
	require.NoError(t, err)
	for _, who := range []string{ours, "raw", "hf"} {
		require.Len(t, c.runs[who], 3, who)
		assert.Equal(t, 1.5, c.runs[who][0].Millis)
	}

	t.Setenv(actsAs, `{"workload": "mlp", "skip": "no CUDA device"}`)
	_, err = o.compare(t.Context(), r, 1)
	require.ErrorContains(t, err, "our program does not run here: no CUDA device")
	o.bench = fake(t, `{"workload": "mlp", "ms_per_step": 1.5, "steps": 2}`)
	c, err = o.compare(t.Context(), r, 1)
	require.NoError(t, err)
	assert.Equal(t, "no CUDA device", c.skipped["raw"])
	o.bench = self

	t.Setenv(actsAs, "nothing")
	_, err = o.compare(t.Context(), r, 1)
	assert.ErrorContains(t, err, "it has failed")
	o.bench = "true"
	_, err = o.compare(t.Context(), r, 1)
	assert.ErrorContains(t, err, "it printed no line with a result")
}

// fake returns a program that prints a line.
func fake(t *testing.T, line string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "fake")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\necho '"+line+"'\n"), 0o755))
	return path
}

func TestCommands(t *testing.T) {
	o := options{bench: "bench", python: "python", peers: "peers", data: "data", tiny: true, rows: "crnn_bf16",
		device: cpu}
	chosen, err := o.chosen()
	require.NoError(t, err)
	assert.Equal(t, "bench -data data --workload crnn --threads 2 --device cpu --tiny --precision bf16",
		strings.Join(o.command(chosen[0], ours, 2), " "))
	assert.Equal(t, "python peers/train.py --impl raw --workload crnn --threads 2 --device cpu --tiny --precision bf16",
		strings.Join(o.command(chosen[0], "raw", 2), " "))
	for _, r := range rows {
		assert.FileExists(t, filepath.Join("peers", r.program+".py"))
	}
}

func TestARowThatIsNotThere(t *testing.T) {
	_, err := options{rows: "mlp,nothing", device: cpu}.chosen()
	assert.ErrorContains(t, err, `there is no row "nothing" on cpu; want one of startup, mlp_tiny`)
}

func TestRowsOfAGPU(t *testing.T) {
	o := options{device: "cuda:1", bench: "bench", data: "data", rows: "bert_base_b128,mlp", impls: "raw_tuned,hf_tuned"}
	got, err := o.chosen()
	require.NoError(t, err)
	require.Len(t, got, 2)
	assert.Equal(t, []string{"raw_tuned", "hf_tuned"}, got[0].peers)
	assert.Equal(t, "bench -data data --workload bert_base --threads 16 --device cuda:1 --batch 128 --steps 50",
		strings.Join(o.command(got[0], ours, 16), " "))
	assert.Equal(t, []string{"raw", "raw_tuned", "accelerate", "hf"}, trainers, "the list itself is unchanged")

	o.rows = "images"
	_, err = o.chosen()
	require.ErrorContains(t, err, `there is no row "images" on cuda:1`)
	o.device, o.rows = cpu, "bert_base_b128"
	_, err = o.chosen()
	require.ErrorContains(t, err, `there is no row "bert_base_b128" on cpu`)
	assert.InDelta(t, 30, memory(line{Memory: 500, GPUMemory: 30}), 0)
}

func TestARowThatFailsLosesNoneBeforeIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bench")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\ncase \"$*\" in *crnn*) exit 1;; esac\n"+
		`echo '{"workload": "mlp", "ms_per_step": 1.5, "steps": 2}'`), 0o755))
	o := options{bench: path, rounds: 1, timeout: time.Minute, device: cpu}
	rows := []row{{name: "mlp"}, {name: "crnn"}, {name: "mlp"}}
	results, err := o.compareAll(t.Context(), rows, []int{1, 2})
	require.ErrorContains(t, err, "crnn: ")
	require.Len(t, results, 1)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	results, err = o.compareAll(ctx, rows, []int{1})
	require.ErrorContains(t, err, "mlp: interrupted")
	assert.Empty(t, results)
}
