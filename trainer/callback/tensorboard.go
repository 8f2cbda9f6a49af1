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
// training are written under train/, those of an evaluation under eval/ and those of a prediction
// under test/, with the update as the step. Rows logged after the run, as by Trainer.Evaluate, go
// to the same folder. Only the main process writes.
//
// If the file cannot be created at the beginning of the run, that is an error. If it cannot be
// written later, because the disk is full for example, a warning is given and nothing more is
// written; metrics.jsonl still has every row.
type TensorBoard struct {
	// Dir is the folder for the events. Empty: $TENSORBOARD_LOGGING_DIR or, if that is not set,
	// runs/MonDD_HH-MM-SS_HOST in the run's OutputDir, as in transformers.
	Dir string

	folder string // folder of the last run
	writer *EventWriter
	begun  bool // a run is in progress
	failed bool // writing failed, and there was a warning
}

// TrainBegin creates a new event file and writes the run's settings to it.
func (t *TensorBoard) TrainBegin(r *trainer.Run) error {
	_ = t.close() // of the attempt before, if AutoFindBatchSize starts over
	t.folder, t.begun, t.failed = "", true, false
	if !r.Info.Process.Main() {
		return nil
	}
	if err := t.open(r); err != nil {
		return err
	}
	info, err := json.MarshalIndent(map[string]any{
		"step": r.Info.Step, "semantics": r.Info.Semantics.Name, "train_samples": r.Info.TrainSamples,
		"batch_size": r.Info.BatchSize, "accumulate": r.Info.Accumulate,
		"epochs": r.Info.Epochs, "max_steps": r.MaxSteps, "learning_rate": r.Info.LearningRate,
		"schedule": r.Info.Schedule, "seed": r.Info.Seed,
	}, "    ", "  ") // indented by four, so that Markdown shows it as it is
	if err != nil {
		return err
	}
	return t.writer.AddText("args", "    "+string(info), r.GlobalStep)
}

func (t *TensorBoard) open(r *trainer.Run) (err error) {
	dir := cmp.Or(t.folder, t.Dir, os.Getenv("TENSORBOARD_LOGGING_DIR"))
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
	t.folder = dir
	t.writer, err = NewEventWriter(dir)
	return err
}

// AfterLog writes a row of the log.
func (t *TensorBoard) AfterLog(r *trainer.Run, row trainer.Logs) error {
	if t.failed || !r.Info.Process.Main() {
		return nil
	}
	err := t.add(r, row)
	if !t.begun { // after the run there is no event for the last row
		err = errors.Join(err, t.close())
	}
	t.check(r, err)
	return nil
}

func (t *TensorBoard) add(r *trainer.Run, row trainer.Logs) error {
	if t.writer == nil {
		if err := t.open(r); err != nil {
			return err
		}
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

// check gives a warning for the first error, after which nothing more is written.
func (t *TensorBoard) check(r *trainer.Run, err error) {
	if err == nil || t.failed {
		return
	}
	t.failed = true
	_ = t.close()
	r.Warn("callback.TensorBoard: %v; nothing more is written for TensorBoard, and the run continues", err)
}

// TrainEnd closes the file.
func (t *TensorBoard) TrainEnd(r *trainer.Run) error {
	t.begun = false
	t.check(r, t.close())
	return nil
}

// TrainFailed closes the file when the run has failed.
func (t *TensorBoard) TrainFailed(*trainer.Run, error) {
	t.begun = false
	_ = t.close()
}

func (t *TensorBoard) close() error {
	if t.writer == nil {
		return nil
	}
	w := t.writer
	t.writer = nil
	return w.Close()
}
