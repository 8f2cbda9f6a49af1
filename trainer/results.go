package trainer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/internal/pyfloat"
)

// The result files that Hugging Face's example programs write. Only the main process writes them.

// SaveMetrics writes numbers to SPLIT_results.json in OutputDir, and adds them to all_results.json
// there. It is Hugging Face's save_metrics. Split says what the numbers belong to: "train", "eval",
// "test" or any other name.
//
//	result, err := t.Fit(ctx, train, valid)
//	err = t.SaveMetrics("train", result.Metrics)
func (t *core) SaveMetrics(split string, m Logs) error {
	if split == "" || split != filepath.Base(split) {
		return fmt.Errorf("trainer: SaveMetrics: %q cannot be part of a file name: want \"train\", \"eval\" or the like",
			split)
	}
	if err := t.needsOutput("SaveMetrics"); err != nil || !t.options.Process.Main() {
		return err
	}
	if err := os.MkdirAll(t.options.OutputDir, 0o777); err != nil { // missing if the program has only evaluated
		return fmt.Errorf("trainer: SaveMetrics: %w", err)
	}
	results := filepath.Join(t.options.OutputDir, split+"_results.json")
	if err := writeResults(results, m, map[string]json.RawMessage{}); err != nil {
		return err
	}
	path := filepath.Join(t.options.OutputDir, "all_results.json")
	all := map[string]json.RawMessage{}
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("trainer: SaveMetrics: %w", err)
	}
	if err == nil {
		if err := json.Unmarshal(text, &all); err != nil {
			return fmt.Errorf("trainer: SaveMetrics: %s: %w; repair or delete it", path, err)
		}
	}
	return writeResults(path, m, all)
}

func writeResults(path string, m Logs, all map[string]json.RawMessage) error {
	for name, v := range m {
		if name == "step" { // only for the log
			continue
		}
		text, err := jsonFloat(v).MarshalJSON()
		if err != nil {
			return err
		}
		all[name] = text
	}
	text, err := json.MarshalIndent(all, "", "    ")
	if err != nil {
		return err
	}
	if err := replaceFile(path, text); err != nil {
		return fmt.Errorf("trainer: %w", err)
	}
	return nil
}

// SaveState writes trainer_state.json, as of the end of the last Fit, to OutputDir. It is Hugging
// Face's save_state. A resumed run uses the trainer_state.json of its checkpoint, not this one.
func (t *core) SaveState() error {
	if err := t.needsOutput("SaveState"); err != nil {
		return err
	}
	switch {
	case t.last == nil || !t.last.begun: // there may have been an evaluation
		return errors.New("trainer: SaveState: call Fit first")
	case !t.options.Process.Main():
		return nil
	}
	state, err := t.last.savedState(t.last.best.Checkpoint)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(state, "", "  ")
	if err != nil {
		return err
	}
	if err := replaceFile(filepath.Join(t.options.OutputDir, stateFile), append(text, '\n')); err != nil {
		return fmt.Errorf("trainer: SaveState: %w", err)
	}
	return nil
}

func (t *core) needsOutput(method string) error {
	if t.options.OutputDir == "" {
		return fmt.Errorf("trainer: %s: Options.OutputDir is empty, so there is no folder to write to", method)
	}
	return nil
}

// LogMetrics prints numbers as a table to Options.Progress. It is Hugging Face's log_metrics, with
// the same formats.
func (t *core) LogMetrics(split string, m Logs) {
	_, _ = fmt.Fprint(t.options.Progress, metricsText(split, m)) // a failure to show it is not worth an error
}

func metricsText(split string, m Logs) string {
	var b strings.Builder
	fmt.Fprintf(&b, "***** %s metrics *****\n", split)
	cells, names, values := map[string]string{}, 0, 0
	for name, v := range m {
		if name == "step" {
			continue
		}
		cells[name] = metricText(name, v)
		names, values = max(names, len(name)), max(values, len(cells[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(cells)) {
		fmt.Fprintf(&b, "  %-*s = %*s\n", names, name, values, cells[name])
	}
	return b.String()
}

// metricText formats as transformers.trainer_pt_utils.metrics_format does.
func metricText(name string, v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return strings.ToLower(strings.TrimPrefix(fmt.Sprint(v), "+"))
	case strings.Contains(name, "_runtime"):
		return timedelta(v)
	case name == "total_flos":
		return fmt.Sprintf("%dGF", int64(v)>>30)
	}
	text := fmt.Sprint(pyfloat.Round(v, 4))
	if !strings.ContainsAny(text, ".e") && name != "num_input_tokens_seen" {
		text += ".0" // Python shows floats with a decimal point
	}
	return text
}

// timedelta is _secs2timedelta of transformers.trainer_pt_utils: the whole seconds as
// str(datetime.timedelta), then hundredths.
func timedelta(seconds float64) string {
	const perDay = 24 * 60 * 60
	whole := int(seconds)
	text, rest := "", whole%perDay
	switch days := whole / perDay; {
	case days == 1:
		text = "1 day, "
	case days > 1:
		text = fmt.Sprintf("%d days, ", days)
	}
	return text + fmt.Sprintf("%d:%02d:%02d.%02d", rest/3600, rest/60%60, rest%60, int((seconds-float64(whole))*100))
}
