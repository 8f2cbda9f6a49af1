package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

func TestMain(m *testing.M) {
	if slices.Contains(os.Args, "-here") { // the process for the cases of one set of pins
		os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))
	}
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// TestRecordedRuns replays the runs in testdata, recorded by scripts/conformance/record.py.
func TestRecordedRuns(t *testing.T) {
	testenv.RequireTorch(t)
	cases, err := findCases([]string{"testdata/cases"}, "")
	if err != nil || len(cases) != 13 {
		t.Fatalf("%d cases (%v), want 13", len(cases), err)
	}
	const meanOfNoise = "1 tensors, first norms.0.running_mean"
	counts := map[string]int{}
	for _, dir := range cases {
		t.Run(spec.CaseName(dir), func(t *testing.T) {
			o := replayCase(t.Context(), dir, "", torch.CPU)
			t.Log(o)
			if strings.Contains(o.Reason, meanOfNoise) && !testenv.SameBits() {
				t.Log("accepted: the mean follows a bias without gradient, which Adam moves by the signs of what is rounded")
				o.Verdict = meanOfNoise
			}
			counts[o.Verdict]++
			if o.Verdict != bitwise && (o.Verdict != within && o.Verdict != meanOfNoise || testenv.SameBits()) {
				t.Error(o)
			}
		})
	}
	t.Logf("%d cases: %d bitwise, %d within tolerance, %d that differ in the mean of noise alone", len(cases),
		counts[bitwise], counts[within], counts[meanOfNoise])
}

// TestSharedRecordings replays every recording in the folder next to the checkout, each on the code
// paths that it was recorded on.
func TestSharedRecordings(t *testing.T) {
	testenv.RequireTorch(t)
	if build, err := torch.BuildInfo(); err != nil || build.Reproducible == 0 {
		t.Skip("the code paths of the recordings take a CPU with AVX2")
	}
	const root = "../../../shared/conformance/"
	if _, err := os.Stat(root); err != nil {
		t.Skipf("the recorded runs are not here: %v", err)
	}
	var out, problems bytes.Buffer
	if status := command([]string{"-data", "../../../shared/data", root + "cases", root + "cases_reproducible"}, &out,
		&problems); status != 0 {
		t.Errorf("status %d; lines that are not good, and the sum:\n%s%s", status, notGood(out.String()), &problems)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	t.Log(lines[len(lines)-1])
}

// notGood returns the lines of cases that failed or are not supported, and the last line.
func notGood(lines string) string {
	var list []string
	for line := range strings.Lines(lines) {
		if !strings.HasPrefix(line, bitwise) && !strings.HasPrefix(line, within) {
			list = append(list, line)
		}
	}
	return strings.Join(list, "")
}

// altered copies a case and replaces parts of one of its files.
func altered(t *testing.T, name, file string, replace ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "peer", "altered")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata/cases", name))); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, file)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.NewReplacer(replace...).Replace(string(text))
	if changed == string(text) {
		t.Fatalf("%s: nothing was replaced in %s", name, file)
	}
	if err := os.WriteFile(path, []byte(changed), 0o666); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestVerdicts alters recorded runs, so that the replay differs or the case is invalid.
func TestVerdicts(t *testing.T) {
	testenv.RequireTorch(t)
	for _, c := range []struct {
		claim, name, file string
		replace           []string
		verdict, reason   string
	}{
		{"an argument that TrainingArguments does not have", "hf/defaults", "spec.json", []string{`"learning_rate"`,
			`"future_option": 1, "learning_rate"`}, failed, "future_option"},
		{"an argument that is not known", "accelerate/resume_accum", "spec.json", []string{`"num_epochs"`,
			`"future_option": 1, "num_epochs"`}, unsupported, "args.future_option is not known"},
		{"a value that is not built", "hf/defaults", "spec.json", []string{`"learning_rate"`,
			`"torch_compile": true, "learning_rate"`}, unsupported, "args.torch_compile is true"},
		{"a trainer that is not known", "hf/defaults", "spec.json", []string{`"peer": "hf"`, `"peer": "keras"`},
			unsupported, `the trainer "keras"`},
		{"a model that is not known", "hf/defaults", "spec.json", []string{`"kind": "mlp"`, `"kind": "gpt"`},
			unsupported, `model.kind is "gpt"`},
		{"a setting of the model", "hf/defaults", "spec.json", []string{`"sizes"`, `"rank": 3, "sizes"`}, unsupported,
			"model.rank is not known"},
		{"a field of the case", "course/torch_CyclicLR", "spec.json", []string{`"threads"`, `"hardware": 1, "threads"`},
			unsupported, "hardware is not known"},
		{"callbacks for a loop that has none", "course/torch_CyclicLR", "spec.json",
			[]string{`"threads"`, `"callbacks": [{"kind": "x"}], "threads"`}, unsupported,
			"callbacks with the trainer course"},
		{"a string for a number", "hf/defaults", "spec.json", []string{`"learning_rate": 0.01`,
			`"learning_rate": "fast"`}, failed, `args.learning_rate is "fast", want a number`},
		{"a string for a number in a loop", "accelerate/resume_accum", "spec.json", []string{`"num_epochs": 3`,
			`"num_epochs": "3"`}, failed, `args.num_epochs is "3"`},
		{"another rate", "hf/defaults", "spec.json", []string{`"learning_rate": 0.01`, `"learning_rate": 0.02`}, failed,
			"micro_losses: "},
		{"a run that should have been refused", "hf/refused_steps", "spec.json",
			[]string{`"load_best_model_at_end": true`, `"load_best_model_at_end": false`}, failed, "the peer refused"},
		{"a refusal that should have been a run", "hf/defaults", "spec.json", []string{`"learning_rate"`,
			`"lr_scheduler_type": "nope", "learning_rate"`}, failed, "the peer ran, this side"},
		{"another event", "hf/early_stop_resume", "trace.json", []string{`"on_evaluate"`, `"on_predict"`}, failed,
			"events: "},
		{"weights of other sizes", "hf/defaults", "spec.json", []string{"16", "17"}, failed, "the peer ran, this side"},
		{"a broken trace", "hf/defaults", "trace.json", []string{`"phases"`, `phases`}, failed, "trace.json"},
		{"a number in its last bits", "hf/defaults", "trace.json", []string{`"grad_norm": "0x1.`,
			`"grad_norm": "0x1.000000`}, failed, "updates: "},
	} {
		o := replayCase(t.Context(), altered(t, c.name, c.file, c.replace...), "", torch.CPU)
		if o.Verdict != c.verdict || !strings.Contains(o.Reason, c.reason) {
			t.Errorf("%s: %v, want %s with %q", c.claim, o, c.verdict, c.reason)
		}
	}
}

func TestReport(t *testing.T) {
	testenv.RequireTorch(t)
	good, bad := "testdata/cases/hf/refused_steps", altered(t, "hf/refused_steps", "spec.json", `"peer": "hf"`,
		`"peer": "keras"`)
	traces := t.TempDir()
	for _, c := range []struct {
		claim  string
		args   []string
		status int
		lines  string
	}{
		{"text", []string{"-traces", traces, good}, 0, "bitwise hf/refused_steps\n1 cases: 1 bitwise, 0 within " +
			"tolerance, 0 failed, 0 unsupported\n"},
		{"one that is not supported", []string{good, bad}, 1, "bitwise hf/refused_steps\nunsupported peer/altered: " +
			"the trainer \"keras\"\n2 cases: 1 bitwise, 0 within tolerance, 0 failed, 1 unsupported\n"},
		{"by name", []string{"-case", "hf/refused_steps", good, bad}, 0,
			"bitwise hf/refused_steps\n1 cases: 1 bitwise, 0 within tolerance, 0 failed, 0 unsupported\n"},
		{"JSON", []string{"-json", "-case", "altered", good, bad}, 1,
			"{\"case\":\"peer/altered\",\"verdict\":\"unsupported\",\"reason\":\"the trainer \\\"keras\\\"\"}\n" +
				"{\"bitwise\":0,\"cases\":1,\"failed\":0,\"unsupported\":1,\"within_tolerance\":0}\n"},
		{"a name that is not there", []string{"-case", "none", good}, 2, ""},
	} {
		var out, problems bytes.Buffer
		if status := command(c.args, &out, &problems); status != c.status || out.String() != c.lines {
			t.Errorf("%s: status %d, want %d; printed\n%s%swant\n%s", c.claim, status, c.status, &out, &problems,
				c.lines)
		}
	}
	text, err := os.ReadFile(filepath.Join(traces, "hf/refused_steps/trace.json"))
	if err != nil || !json.Valid(text) {
		t.Errorf("the trace that was kept: %v\n%s", err, text)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if status := runCases(ctx, []string{good}, caseOptions{}, &bytes.Buffer{}, &bytes.Buffer{}); status != 2 {
		t.Errorf("interrupted: status %d, want 2", status)
	}
}

// On a GPU, a case is replayed only if its numbers can equal the recording's.
func TestAnotherDeviceThanThatOfTheRecording(t *testing.T) {
	testenv.RequireTorch(t)
	if torch.CUDADevices() > 0 {
		t.Skip("what is said without a GPU")
	}
	cases, err := findCases([]string{"testdata/cases"}, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range cases {
		o := replayCase(t.Context(), dir, "", torch.CUDA(0))
		hf := strings.HasPrefix(o.Case, "hf/") || strings.HasPrefix(o.Case, "accelerate/") ||
			strings.HasPrefix(o.Case, "course/")
		if o.Verdict == bitwise && !strings.Contains(o.Case, "refused") || !hf && o.Verdict != unsupported {
			t.Error(o)
		}
	}
	v := &verdicts{out: new(bytes.Buffer), device: torch.CUDA(1), counts: map[string]int{unsupported: 1}, total: 3}
	if status := v.sum(); status != 0 {
		t.Errorf("status %d, want 0: what needs the CPU is no failure of a GPU", status)
	}
	want := "3 cases on cuda:1, where not bits are compared but numbers, within 0.0001 in float32 without TF32 " +
		"and 0.02 in bf16"
	if text := fmt.Sprint(v.out); !strings.HasPrefix(text, want) {
		t.Errorf("printed %s, want %s", text, want)
	}
	var problems bytes.Buffer
	if status := command([]string{"-device", "cuda", "testdata/cases"}, io.Discard, &problems); status != 2 ||
		!strings.HasPrefix(problems.String(), "conformance: -device: ") {
		t.Errorf("status %d, %s", status, &problems)
	}
}
