package trainer

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/gotrainer/gotrainer/trainer/semantics"
)

func TestTheLineFitsEveryWidth(t *testing.T) {
	l := progressLine{step: 350, total: 938, hasLoss: true, loss: 0.31242, learningRate: 4.2e-5, perSecond: 12.34,
		left: 48 * time.Second, eval: "eval_accuracy 0.91"}
	for _, c := range []struct {
		columns int
		unicode bool
		want    string
	}{
		{100, true, " 37% ━━━━━━━━━──────────────── 350/938 loss 0.3124 lr 4.20e-05 12.3 it/s ETA 0:48 eval_accuracy " +
			"0.91"},
		{79, true, " 37% ━━━━━─────────── 350/938 loss 0.3124 12.3 it/s ETA 0:48 eval_accuracy 0.91"},
		{79, false, " 37% #####----------- 350/938 loss 0.3124 12.3 it/s ETA 0:48 eval_accuracy 0.91"},
		{40, false, " 37% ##---- 350/938 loss 0.3124 ETA 0:48"},
		{20, false, " 37% ##----- 350/938"},
		{10, false, " 37% 350/9"},
		{0, false, ""},
	} {
		if got := l.text(c.columns, c.unicode); got != c.want {
			t.Errorf("in %d columns:\n got %q\nwant %q", c.columns, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		l := progressLine{
			step: rapid.IntRange(0, 1e6).Draw(t, "step"), total: rapid.IntRange(0, 1e6).Draw(t, "total"),
			hasLoss: rapid.Bool().Draw(t, "has loss"),
			loss:    rapid.Float64().Draw(t, "loss"), perSecond: rapid.Float64Range(0, 1e5).Draw(t, "speed"),
			note: rapid.StringN(0, 30, -1).Draw(t, "note"),
			eval: rapid.SampledFrom([]string{"", "eval_loss 1"}).Draw(t, "eval"),
			left: time.Duration(rapid.Int64Range(0, 1e15).Draw(t, "left")),
		}
		columns := rapid.IntRange(0, 200).Draw(t, "columns")
		if got := l.text(columns, true); utf8.RuneCountInString(got) > columns {
			t.Fatalf("in %d columns: %q", columns, got)
		}
	})
}

func TestShort(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.31242: "0.3124", 5e-5: "5.00e-05", 12345: "1.234e+04",
		3e7: "3.00e+07", math.Inf(1): "+Inf", -0.5: "-0.5"} {
		if got := short(v); got != want {
			t.Errorf("short(%v) = %s, want %s", v, got, want)
		}
	}
	if got := short(math.NaN()); got != "NaN" {
		t.Errorf("short(NaN) = %s, want NaN", got)
	}
	for d, want := range map[time.Duration]string{0: "0:00", 48 * time.Second: "0:48", 725 * time.Second: "12:05",
		11525 * time.Second: "3:12:05"} {
		if got := clock(d); got != want {
			t.Errorf("clock(%v) = %s, want %s", d, got, want)
		}
	}
}

func TestWrapBreaksBetweenEntries(t *testing.T) {
	got := wrap("update 50/150  epoch 1  eval_loss 1  eval_accuracy 0.55  eval_cer 0.031\nshort\n", 50)
	want := "update 50/150  epoch 1  eval_loss 1\n           eval_accuracy 0.55  eval_cer 0.031\nshort\n"
	if got != want {
		t.Errorf("wrap = %q, want %q", got, want)
	}
	table := strings.Repeat("─", 70) + "\n"
	if got := wrap(table, 50); got != table {
		t.Errorf("wrap = %q, want the table's line as it was", got)
	}
}

func TestOneIsSingular(t *testing.T) {
	for want, got := range map[string]string{"1 update": counted(1, "update"), "0 updates": counted(0, "update"),
		"2 micro-batches": counted(2, "micro-batch")} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	r := &Run{GlobalStep: 1, Epoch: 1, MaxSteps: 1, Info: Info{Semantics: semantics.Default, TrainSamples: 1,
		BatchSize: 8, Epochs: 1, StepsPerEpoch: 1}, loop: &loopView{record: &record{}}}
	end, err := endText(r, "", time.Second, 80)
	if err != nil {
		t.Fatal(err)
	}
	if text := headerText(r) + end; !strings.Contains(text, "data       1 sample\n") || !strings.Contains(text,
		"plan       1 update, 1 epoch of 1, ") || !strings.Contains(text, "finished   1 update, 1 epoch in 0:01\n") {
		t.Errorf("a run of one update says\n%s", text)
	}
}

func TestHintTellsHowToSeeTheLossOnlyWhereNoneWasLogged(t *testing.T) {
	for _, c := range []struct {
		claim   string
		rules   semantics.Rules
		log     Trigger
		steps   int
		history []Logs
		want    string
	}{
		{"a run shorter than the interval", semantics.Default, Every(500, Update), 120, []Logs{{"eval_loss": 1},
			{"train_loss": 2}}, "hint       the loss is logged every 500 updates; to see it during the run, set " +
			"Options.Log: trainer.Every(12, trainer.Update)\n"},
		{"a very short one", semantics.Default, Every(500, Update), 3, nil, "trainer.Every(1, trainer.Update)"},
		{"one of another trainer's semantics", semantics.HuggingFace, Every(500, Update), 120, nil, ""},
		{"one that logs at the end of epochs", semantics.Default, Every(1, Epoch), 120, nil, ""},
		{"a run that logs nothing", semantics.Default, Never, 120, nil, ""},
		{"one that has logged its first update", semantics.Default, Every(500, Update), 120,
			[]Logs{{"loss": 1, "step": 1}}, ""},
		{"one that has logged", semantics.Default, Every(100, Update), 120, []Logs{{"loss": 1, "step": 100}}, ""},
	} {
		r := &Run{GlobalStep: c.steps, Info: Info{Semantics: c.rules, Log: c.log},
			loop: &loopView{record: &record{history: c.history}}}
		if got := lossHint(r); !strings.Contains(got, c.want) || (c.want == "") != (got == "") {
			t.Errorf("%s: %q, want %q", c.claim, got, c.want)
		}
	}
}

func TestTheLineIsRedrawnInPlace(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(0, 0)
	p := newProgress(&out)
	p.terminal, p.now, p.utf8 = true, func() time.Time { return now }, false
	r := &Run{MaxSteps: 4, Info: Info{Step: "a step", Semantics: semantics.Default}, loop: &loopView{record: &record{},
		bestMetric: &bestMetric{name: "loss", track: true}}}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(p.TrainBegin(r))
	out.Reset()
	for range 3 {
		r.GlobalStep++
		now = now.Add(time.Millisecond) // faster than anyone can read
		must(p.StepEnd(r))
	}
	if got := strings.Count(out.String(), "\r"); got != 1 {
		t.Errorf("three updates within 3 ms drew the line %d times, want once: %q", got, out.String())
	}
	out.Reset()
	must(p.AfterLog(r, Logs{"eval_loss": 0.5, "epoch": 1, "step": 3}))
	if got := out.String(); !strings.HasPrefix(got, "\r\x1b[Kupdate 3/4  epoch 1  eval_loss 0.5\n\r 75%") ||
		!strings.HasSuffix(got, "eval_loss 0.5\x1b[K") {
		t.Errorf("an evaluation prints %q, want its row above the line", got)
	}
	out.Reset()
	p.TrainFailed(r, nil)
	if out.String() != "\n" {
		t.Errorf("a failure prints %q, want the end of the line", out.String())
	}
}

func TestWithoutATerminalNothingIsRedrawn(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out)
	history := []Logs{{"loss": 1, "step": 2}, {"eval_loss": 0.5, "epoch": 1, "step": 2, "eval_runtime": 3},
		{"eval_loss": 0.7, "epoch": 2, "step": 4}}
	r := &Run{GlobalStep: 4, Epoch: 2, MaxSteps: 4, Info: Info{Step: "a step", Semantics: semantics.Default,
		TrainSamples: 8, BatchSize: 4, Accumulate: 2, ResumedFrom: "/x/checkpoint-2", Log: Every(500, Update),
		Eval: Every(1, Epoch), Save: AtBest, Warnings: []string{"careful"}},
		loop: &loopView{record: &record{history: history, best: Best{Metric: "eval_loss", Value: 0.5, GlobalStep: 2,
			Checkpoint: "/x/checkpoint-2"}, stopReason: "enough"}, bestMetric: &bestMetric{name: "loss", track: true}}}
	for _, err := range []error{p.TrainBegin(r), p.StepEnd(r), p.EvalStep(r), p.AfterLog(r, history[1]),
		p.AfterSave(r, "/x/checkpoint-4"), p.TrainEnd(r)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	got := out.String()
	if strings.ContainsAny(got, "\r\x1b") {
		t.Errorf("a file gets control characters: %q", got)
	}
	for _, want := range []string{"training   a step\n", "batches of 4 x 2 accumulated",
		"when       log every 500 updates, evaluate every epoch, save at each new best\n", "resumed    checkpoint-2",
		"warning    careful", "eval_loss", "│ best │    2 │",
		"best       eval_loss 0.5 after update 2: /x/checkpoint-2", "last       /x/checkpoint-4", "stopped: enough"} {
		if !strings.Contains(got, want) {
			t.Errorf("output lacks %q:\n%s", want, got)
		}
	}
}

func TestTheTableOfEvaluationsFitsAndSaysWhatItLeavesOut(t *testing.T) {
	row := Logs{"step": 12345, "epoch": 0.7692, "eval_loss": 0.5, "eval_accuracy": 0.9, "eval_f1": 0.8,
		"eval_matthews_correlation": 0.7, "eval_recall": 0.6, "eval_runtime": 3}
	for _, c := range []struct {
		claim   string
		columns int
		best    string
		header  []string
		omitted []string
	}{
		{"all fit a wide window", 200, "eval_loss", []string{"step", "epoch", "eval_loss", "eval_accuracy", "eval_f1",
			"eval_matthews_correlation", "eval_recall"}, nil},
		{"a wide column makes way for narrow ones", 80, "eval_loss", []string{"step", "epoch", "eval_loss",
			"eval_accuracy", "eval_f1", "eval_recall"}, []string{"eval_matthews_correlation"}},
		{"the deciding metric comes first", 45, "eval_recall", []string{"step", "epoch", "eval_recall"},
			[]string{"eval_loss", "eval_accuracy", "eval_f1", "eval_matthews_correlation"}},
	} {
		table, omitted, err := evalTable([]Logs{row}, Best{Metric: c.best, GlobalStep: 12345}, c.columns)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(table, "\n")
		if got := strings.Fields(strings.ReplaceAll(lines[1], "│", " ")); !slices.Equal(got, c.header) ||
			!slices.Equal(omitted, c.omitted) {
			t.Errorf("%s: columns %q without %q, want %q without %q", c.claim, got, omitted, c.header, c.omitted)
		}
		if width := utf8.RuneCountInString(lines[0]); width > c.columns {
			t.Errorf("%s: the table has %d columns in a window of %d:\n%s", c.claim, width, c.columns, table)
		}
	}
}

func TestTheTableHasTheMetricsOfAllSets(t *testing.T) {
	history := []Logs{
		{"eval_a_loss": 0.5, "eval_a_f1": 0.25, "step": 2, "epoch": 1}, {"eval_b_loss": 0.75, "step": 2, "epoch": 1},
		{"loss": 1, "step": 3},
		{"eval_a_loss": 0.125, "eval_a_f1": 0.375, "step": 4, "epoch": 2}, {"eval_b_loss": 1.5, "step": 4, "epoch": 2},
		{"eval_a_loss": 0.0625, "step": 4, "epoch": 2}, // again, after a resume
	}
	table, omitted, err := evalTable(history, Best{Metric: "eval_b_loss", GlobalStep: 2}, 100)
	require.NoError(t, err)
	assert.Empty(t, omitted)
	var lines []string
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "│") {
			lines = append(lines, strings.Join(strings.Fields(strings.ReplaceAll(line, "│", " ")), " "))
		}
	}
	assert.Equal(t, []string{"step epoch eval_b_loss eval_a_loss eval_a_f1", "best 2 1 0.75 0.5 0.25",
		"4 2 1.5 0.125 0.375", "4 2 0.0625"}, lines)
	assert.NotContains(t, history[0], "eval_b_loss", "the log itself stays")
}

func TestTheLineForgetsAnEvaluationThatIsNotLogged(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out)
	p.terminal = true
	r := &Run{MaxSteps: 4, Info: Info{Semantics: semantics.Default}, evalBatches: 2, loop: &loopView{record: &record{}}}
	require.NoError(t, p.TrainBegin(r))
	for range 2 {
		require.NoError(t, p.EvalBegin(r))
		require.NoError(t, p.EvalStep(r))
		require.NoError(t, p.EvalStep(r))
		assert.Equal(t, "evaluating 2/2", p.line.note)
		out.Reset()
		require.NoError(t, p.EvalEnd(r, nil))
		assert.Contains(t, out.String(), "\r  0%")
		assert.NotContains(t, out.String(), "evaluating")
	}
}

func TestWhenSomethingIsDoneIsSaidInWords(t *testing.T) {
	for _, c := range []struct {
		trigger    Trigger
		step, want string
	}{
		{Never, "update", "never"},
		{AtBest, "update", "at each new best"},
		{Every(1, Update), "update", "every update"},
		{Every(500, Update), "update", "every 500 updates"},
		{Every(2, Update), "micro-batch", "every 2 micro-batches"},
		{Every(3, Epoch), "update", "every 3 epochs"},
		{Every(100, Update).AndEpochs(1), "update", "every 100 updates and every epoch"},
		{EveryShare(0.1).resolve(95), "update", "every 10 updates"},
	} {
		if got := c.trigger.words(c.step); got != c.want {
			t.Errorf("%v: %q, want %q", c.trigger, got, c.want)
		}
	}
}
