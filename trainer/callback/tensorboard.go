package callback

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/trainer"
)

// TensorBoard writes the log of a run for TensorBoard: TensorBoardCallback of Hugging Face. Rows of
// the training go under train/, those of an evaluation under eval/, of a prediction under test/,
// with the update as the step. Only the main process writes.
type TensorBoard struct {
	// Dir is where the events go. Empty: $TENSORBOARD_LOGGING_DIR, else runs/MonDD_HH-MM-SS_HOST in
	// the run's OutputDir, as transformers names it.
	Dir string

	writer *EventWriter
}

// TrainBegin opens a new file of events and notes the run's settings in it.
func (t *TensorBoard) TrainBegin(r *trainer.Run) error {
	if !r.Info.Process.Main() {
		return nil
	}
	dir := cmp.Or(t.Dir, os.Getenv("TENSORBOARD_LOGGING_DIR"))
	if dir == "" && r.Info.OutputDir == "" {
		return errors.New("it has no Dir, and the run has no OutputDir to put one in; set either")
	}
	if dir == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "localhost"
		}
		dir = filepath.Join(r.Info.OutputDir, "runs", r.Info.Start.Format("Jan02_15-04-05")+"_"+host)
	}
	w, err := NewEventWriter(dir)
	if err != nil {
		return err
	}
	t.writer = w
	info, err := json.MarshalIndent(map[string]any{
		"step": r.Info.Step, "semantics": r.Info.Semantics.Name, "train_samples": r.Info.TrainSamples,
		"batch_size": r.Info.BatchSize, "accumulate": r.Info.Accumulate,
		"epochs": r.Info.Epochs, "max_steps": r.MaxSteps, "learning_rate": r.Info.LearningRate,
		"schedule": r.Info.Schedule, "seed": r.Info.Seed,
	}, "    ", "  ") // indented by four, so that Markdown leaves it as it is
	if err != nil {
		return err
	}
	return w.AddText("args", "    "+string(info), r.GlobalStep)
}

// AfterLog writes a row of the log.
func (t *TensorBoard) AfterLog(r *trainer.Run, row trainer.Logs) error {
	if t.writer == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(row)) {
		if name == "step" {
			continue
		}
		tag := "train/" + name
		for _, set := range []string{"eval", "test"} {
			if rest, ok := strings.CutPrefix(name, set+"_"); ok {
				tag = set + "/" + rest
			}
		}
		if err := t.writer.AddScalar(tag, row[name], r.GlobalStep); err != nil {
			return err
		}
	}
	return t.writer.Flush()
}

// TrainEnd closes the file.
func (t *TensorBoard) TrainEnd(*trainer.Run) error { return t.close() }

// TrainFailed closes the file of a run that has failed.
func (t *TensorBoard) TrainFailed(*trainer.Run, error) { _ = t.close() }

func (t *TensorBoard) close() error {
	if t.writer == nil {
		return nil
	}
	w := t.writer
	t.writer = nil
	return w.Close()
}
