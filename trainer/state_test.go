package trainer

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/gotrainer/gotrainer/trainer/semantics"
)

func TestLogsSurviveTheirFile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		row := Logs(rapid.MapOf(rapid.String(), rapid.OneOf(rapid.Float64(),
			rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), 0}))).Draw(t, "row"))
		text, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		var back Logs
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if len(back) != len(clean(row)) {
			t.Fatalf("%d names came back of %d", len(back), len(row))
		}
		for k, v := range clean(row) {
			if got, ok := back[k]; !ok || math.Float64bits(got) != math.Float64bits(v) &&
				!(math.IsNaN(got) && math.IsNaN(v)) {
				t.Fatalf("%q: %v came back as %v", k, v, got)
			}
		}
	})
}

// clean replaces invalid UTF-8 in names, as encoding/json does.
func clean(row Logs) Logs {
	out := Logs{}
	for k, v := range row {
		out[strings.ToValidUTF8(k, "\uFFFD")] = v
	}
	return out
}

func TestKeysAreInReadingOrder(t *testing.T) {
	row := Logs{"step": 1, "epoch": 1, "eval_runtime": 1, "eval_accuracy": 1, "eval_loss": 1, "learning_rate": 1,
		"grad_norm": 1, "loss": 1}
	if got, want := strings.Join(row.Keys(), " "), "loss grad_norm learning_rate eval_loss eval_accuracy "+
		"eval_runtime epoch step"; got != want {
		t.Errorf("Keys() = %s, want %s", got, want)
	}
}

const goodLoop = `{"format":2,"position":{"at":"save","done":true,"epoch":1,"micro_batches":2,"global_step":5,
"epoch_fractional":1.5,"last_logged":3,"last_saved":5,"control":{"should_log":true},"loader_started":true},
"sizes":{"train_samples":8,"batch_size":2,"accumulate":1,"data_seed":42},
"schedule_step":5,"peak_rate":0.1,"next_rate":0.05,
"last_rate":0.06,"loss_sum":"nan","loss_total":3,"grad_norm":"inf","best_metric":"eval_loss","best_metrics":{"eval_loss":1}}`

const goodState = `{"best_global_step":4,"best_metric":1,"best_model_checkpoint":"x","epoch":1.5,"global_step":5,"log_history":[{"loss":1,"step":3}],"stateful_callbacks":{"A":{}}}`

func TestReadStatesRefusesWhatNoRunWrote(t *testing.T) {
	for _, c := range []struct {
		claim, state, loop, want string
	}{
		{"what a run wrote is read", goodState, goodLoop, ""},
		{"no position", goodState, "", "it has no gotrainer_state.json"},
		{"no JSON", "{", goodLoop, "trainer_state.json: unexpected end"},
		{"another format", goodState, strings.Replace(goodLoop, `"format":2`, `"format":7`, 1),
			"its format is 7, but this version of the trainer reads 2"},
		{"a place that no run comes to", goodState, strings.Replace(goodLoop, `"at":"save"`, `"at":"lunch"`, 1),
			"is impossible"},
		{"a negative position", goodState, strings.Replace(goodLoop, `"micro_batches":2`, `"micro_batches":-2`, 1),
			"is impossible"},
		{"a log of the future", goodState, strings.Replace(goodLoop, `"last_logged":3`, `"last_logged":30`, 1),
			"is impossible"},
		{"empty batches", goodState, strings.Replace(goodLoop, `"batch_size":2`, `"batch_size":0`, 1), "its sizes"},
		{"a null number", strings.Replace(goodState, `{"loss":1`, `{"loss":null`, 1), goodLoop, "null"},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{stateFile: c.state, loopFile: c.loop} {
			if text == "" {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		_, _, err := readStates(dir)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: readStates = %v, want an error with %q", c.claim, err, c.want)
		}
	}
}

// FuzzReadStates fills both state files with arbitrary text: readStates must refuse it or return a
// position from which a loop comes to an end.
func FuzzReadStates(f *testing.F) {
	f.Add(goodState, goodLoop)
	f.Add("{}", "{}")
	f.Add(goodState, strings.Replace(goodLoop, `"at":"save","done":true`, `"at":"next window"`, 1))
	f.Fuzz(func(t *testing.T, state, loop string) {
		var s savedState
		var l loopState
		if json.Unmarshal([]byte(state), &s) != nil || json.Unmarshal([]byte(loop), &l) != nil || l.validate() != nil {
			return
		}
		text, err := json.Marshal(l)
		if err != nil {
			t.Fatalf("%+v was read but cannot be written: %v", l, err)
		}
		var again loopState
		if err := json.Unmarshal(text, &again); err != nil {
			t.Fatalf("%s was written but cannot be read: %v", text, err)
		}
		if l.Position.GlobalStep > 50 {
			return
		}
		for _, rules := range []semantics.Rules{semantics.Default, semantics.HuggingFace, semantics.Hezar,
			semantics.PytorchAccelerated, semantics.PyMarlin} {
			m := newLoop(newPlan(lengths{batches: 5, accumulate: 2, epochs: 3}, rules),
				flow{save: Every(1, Update), eval: Every(1, Epoch), rules: rules})
			m.resume(l.Position)
			if list := drive(m, nil); list[len(list)-1] == "endless" {
				t.Fatalf("%s: the loop does not come to an end from %+v", rules.Name, l.Position)
			}
		}
	})
}

type listHook struct{ state string }

func (*listHook) StepEnd(*Run) error              { return nil }
func (h *listHook) MarshalState() ([]byte, error) { return []byte(h.state), nil }
func (h *listHook) UnmarshalState(s []byte) error { h.state = string(s); return nil }

func TestHooksOfOneTypeKeepTheirOwnStates(t *testing.T) {
	states, err := hookStates([]any{&listHook{`1`}, &listHook{`2`}})
	if err != nil {
		t.Fatal(err)
	}
	a, b, c := &listHook{}, &listHook{}, &listHook{"new"}
	unknown, err := restoreHooks([]any{a, b, c}, states)
	if err != nil {
		t.Fatal(err)
	}
	if a.state != "1" || b.state != "2" || c.state != "new" || len(unknown) != 1 {
		t.Errorf("states %q %q %q, unknown %q, want 1, 2, new and one unknown", a.state, b.state, c.state, unknown)
	}
	if _, err := hookStates([]any{&listHook{`{`}}); err == nil || !strings.Contains(err.Error(), "*trainer.listHook") {
		t.Errorf("a state that is no JSON: %v, want an error that names the hook", err)
	}
}

// If the run has another number of hooks of one type than the checkpoint, as many as possible get a
// state.
func TestAnotherNumberOfHooksOfOneType(t *testing.T) {
	list := func(hooks ...any) map[string]json.RawMessage {
		states, err := hookStates(hooks)
		require.NoError(t, err)
		return states
	}
	one, two := list(&objectHook{1}), list(&objectHook{1}, &objectHook{2})
	a, b := &objectHook{}, &objectHook{7}

	notes, err := restoreHooks([]any{a, b}, one)
	require.NoError(t, err)
	assert.Equal(t, []int{1, 7}, []int{a.Count, b.Count})
	require.Len(t, notes, 1)
	assert.Contains(t, notes[0], "which starts over")

	a = &objectHook{}
	notes, err = restoreHooks([]any{a}, two)
	require.NoError(t, err)
	assert.Equal(t, 1, a.Count)
	require.Len(t, notes, 1)
	assert.Contains(t, notes[0], "the last 1 are left out")

	own := &listHook{}
	notes, err = restoreHooks([]any{own}, list(&listHook{`[1,2]`}))
	require.NoError(t, err)
	assert.Equal(t, `[1,2]`, own.state, "a list may be the state of one hook")
	assert.Empty(t, notes)
}

type objectHook struct{ Count int }

func (*objectHook) StepEnd(*Run) error              { return nil }
func (h *objectHook) MarshalState() ([]byte, error) { return json.Marshal(*h) }
func (h *objectHook) UnmarshalState(s []byte) error { return json.Unmarshal(s, h) }

func TestGreaterIsBetterByName(t *testing.T) {
	f := &Options{}
	for name, want := range map[string]bool{"loss": false, "valid_loss": false, "cer": false, "test_wer": false,
		"mse": false, "mae": false, "val_rmse": false, "perplexity": false, "mseless": true,
		"accuracy": true, "soccer": true, "f1": true} {
		o := *f
		o.MetricForBest = "eval_" + name
		if got := newBestMetric(&o).greater; got != want {
			t.Errorf("%s: greater is better = %v, want %v", name, got, want)
		}
		o.Semantics.OnlyLossIsLower = true
		if got, want := newBestMetric(&o).greater, !strings.HasSuffix(name, "loss"); got != want {
			t.Errorf("%s, only loss is lower: greater is better = %v, want %v", name, got, want)
		}
		o.Direction = LowerIsBetter
		if newBestMetric(&o).greater {
			t.Errorf("%s: LowerIsBetter does not hold", name)
		}
	}
}
