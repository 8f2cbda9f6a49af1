package callback

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/gotrainer/gotrainer/trainer"
)

// MLflow records a run on an MLflow tracking server: MLflowCallback of Hugging Face. The run gets
// its settings as parameters and every row of the log as metrics, under the names of the log, with
// the update as the step. Only the main process talks to the server.
//
// Rows are sent by a goroutine of their own, so training does not wait for the network. Requests
// that fail are repeated for half a minute. If the server cannot be reached at the beginning
// of the run, that is an error. If it fails later, a warning is given and nothing more is sent;
// metrics.jsonl still has every row.
//
// The identifier of the MLflow run is kept in checkpoints, so a resumed run continues the same
// MLflow run. Rows logged after that checkpoint and before the interruption are sent again, as they
// are trained again. A run that ends normally is FINISHED, an interrupted one KILLED, any other
// FAILED.
//
// Unlike Python's, this callback does not upload checkpoints (HF_MLFLOW_LOG_ARTIFACTS), and
// TrackingURI must be a server: "file:", "sqlite:" and "databricks" are refused.
type MLflow struct {
	// TrackingURI is the address of the server, such as "http://localhost:5000". Empty:
	// $MLFLOW_TRACKING_URI. Credentials are those of $MLFLOW_TRACKING_USERNAME and
	// $MLFLOW_TRACKING_PASSWORD, or $MLFLOW_TRACKING_TOKEN.
	TrackingURI string
	// Experiment is the name of the experiment, which is created if it does not exist. Empty:
	// $MLFLOW_EXPERIMENT_NAME or, if that is not set, "Default".
	Experiment string
	// RunName is the name that the server shows. Empty: that of the run's OutputDir.
	RunName string
	// RunID continues an existing MLflow run. Empty: $MLFLOW_RUN_ID; if that is not set either, the
	// run of the checkpoint that is resumed or, without one, a new run.
	RunID string
	// Tags are set on the run, in addition to those of $MLFLOW_TAGS, a JSON object.
	Tags map[string]string
	// Params are further parameters. They replace those of the same names that the run has.
	Params map[string]string
	// Client sends the requests, for proxies and certificates. nil: one with a timeout of 20 seconds.
	Client *http.Client

	patience time.Duration // for tests; 0: the usual one

	client *mlflowClient
	run    string        // identifier of the last run
	sender *mlflowSender // nil: no run is active
	failed bool          // the user has been warned
}

var _ trainer.StateSaver = (*MLflow)(nil)

// TrainBegin starts or continues an MLflow run and sends the run's settings.
func (m *MLflow) TrainBegin(r *trainer.Run) error {
	if !r.Info.Process.Main() {
		return nil
	}
	if m.sender != nil { // AutoFindBatchSize begins the run again
		m.end(r, "FAILED")
	}
	m.failed = false
	if err := m.begin(r); err != nil {
		return err
	}
	if yes, _ := strconv.ParseBool(os.Getenv("HF_MLFLOW_LOG_ARTIFACTS")); yes {
		r.Warn("callback.MLflow: HF_MLFLOW_LOG_ARTIFACTS is set, but checkpoints are not uploaded to MLflow")
	}
	params := m.params(r)
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if n := len(params[name]); n > maxMLflowParam {
			r.Warn("callback.MLflow: the parameter %s has %d bytes, and MLflow takes %d; it is left out", name, n,
				maxMLflowParam)
			delete(params, name)
		}
	}
	err := m.client.logParams(context.Background(), m.run, params)
	if hasMLflowCode(err, "INVALID_PARAMETER_VALUE") {
		// those of a resumed run may have changed, such as the number of epochs; MLflow keeps the old ones
		r.Warn("callback.MLflow: parameters of the run %s were not set: %v", m.run, err)
	} else if err != nil {
		return err
	}
	m.sender = newMLflowSender(m.client, m.run)
	return nil
}

// begin connects to the server and sets m.run.
func (m *MLflow) begin(r *trainer.Run) (err error) {
	ctx := context.Background()
	if m.client, err = newMLflowClient(cmp.Or(m.TrackingURI, os.Getenv("MLFLOW_TRACKING_URI")), m.Client); err != nil {
		return err
	}
	m.client.patience = cmp.Or(m.patience, m.client.patience)
	tags, err := m.tags()
	if err != nil {
		return err
	}
	if id := cmp.Or(m.RunID, os.Getenv("MLFLOW_RUN_ID")); id != "" {
		m.run = id
		return m.client.continueRun(ctx, id, tags)
	}
	if r.Info.ResumedFrom != "" && m.run != "" {
		err := m.client.continueRun(ctx, m.run, tags)
		if !hasMLflowCode(err, "RESOURCE_DOES_NOT_EXIST") {
			return err
		}
		r.Warn("callback.MLflow: the server does not have the run %s of the checkpoint (%v); a new one is started",
			m.run, err)
	}
	experiment, err := m.client.experiment(ctx, cmp.Or(m.Experiment, os.Getenv("MLFLOW_EXPERIMENT_NAME"), "Default"))
	if err != nil {
		return err
	}
	name := m.RunName
	if name == "" && r.Info.OutputDir != "" {
		name = filepath.Base(r.Info.OutputDir)
	}
	m.run, err = m.client.createRun(ctx, experiment, name, r.Info.Start, tags)
	return err
}

// tags are those that the user has set, and those that MLflow's own client sets.
func (m *MLflow) tags() (map[string]string, error) {
	tags := map[string]string{"mlflow.source.type": "LOCAL", "mlflow.source.name": filepath.Base(os.Args[0])}
	if u, err := user.Current(); err == nil {
		tags["mlflow.user"] = u.Username
	}
	if text := os.Getenv("MLFLOW_TAGS"); text != "" {
		var values map[string]any
		if err := json.Unmarshal([]byte(text), &values); err != nil {
			return nil, fmt.Errorf("MLFLOW_TAGS is %q, want a JSON object such as {\"team\": \"search\"}: %w", text, err)
		}
		for name, value := range values {
			tags[name] = fmt.Sprint(value)
		}
	}
	maps.Copy(tags, m.Tags)
	return tags, nil
}

// params are the run's settings, under the names of TrainingArguments where it has them.
func (m *MLflow) params(r *trainer.Run) map[string]string {
	i := r.Info
	params := map[string]string{"step": i.Step, "semantics": i.Semantics.Name, "lr_scheduler_type": i.Schedule}
	for name, n := range map[string]int{
		"per_device_train_batch_size": i.BatchSize, "per_device_eval_batch_size": i.EvalBatchSize,
		"gradient_accumulation_steps": i.Accumulate, "max_steps": r.MaxSteps, "world_size": i.Process.World,
		"train_samples": i.TrainSamples, "eval_samples": i.EvalSamples,
	} {
		params[name] = strconv.Itoa(n)
	}
	params["learning_rate"] = strconv.FormatFloat(i.LearningRate, 'g', -1, 64)
	params["num_train_epochs"] = strconv.FormatFloat(i.Epochs, 'g', -1, 64)
	params["seed"] = strconv.FormatUint(i.Seed, 10)
	params["data_seed"] = strconv.FormatUint(i.DataSeed, 10)
	if i.OutputDir != "" {
		params["output_dir"] = i.OutputDir
	}
	maps.Copy(params, m.Params)
	return params
}

// AfterLog sends a row of the log. A row that comes after the run, as from Trainer.Evaluate, goes
// to the run before; if there was none, to a run of its own.
func (m *MLflow) AfterLog(r *trainer.Run, row trainer.Logs) error {
	if m.failed || !r.Info.Process.Main() {
		return nil
	}
	metrics := mlflowMetrics(row, r.GlobalStep, time.Now())
	if m.sender != nil {
		m.check(r, m.sender.add(metrics))
		return nil
	}
	m.check(r, m.addLate(r, metrics))
	return nil
}

// addLate sends a row while no run is active.
func (m *MLflow) addLate(r *trainer.Run, metrics []mlflowMetric) error {
	ctx := context.Background()
	if m.run != "" && m.client != nil {
		return m.client.logMetrics(ctx, m.run, metrics)
	}
	if err := m.begin(r); err != nil {
		return err
	}
	if err := m.client.logMetrics(ctx, m.run, metrics); err != nil {
		return err
	}
	return m.client.endRun(ctx, m.run, "FINISHED")
}

// unsupported are the characters that the name of a metric may not have.
var unsupported = regexp.MustCompile(`[^0-9A-Za-z_\-. :/]`)

func mlflowMetrics(row trainer.Logs, step int, now time.Time) []mlflowMetric {
	var metrics []mlflowMetric
	for _, name := range slices.Sorted(maps.Keys(row)) {
		if name != "step" {
			metrics = append(metrics, mlflowMetric{Key: unsupported.ReplaceAllString(name, "_"),
				Value: mlflowValue(row[name]), Timestamp: now.UnixMilli(), Step: step})
		}
	}
	return metrics
}

// TrainEnd sends what is left and ends the MLflow run.
func (m *MLflow) TrainEnd(r *trainer.Run) error {
	m.end(r, "FINISHED")
	return nil
}

// TrainFailed sends what is left and ends the MLflow run.
func (m *MLflow) TrainFailed(r *trainer.Run, err error) {
	status := "FAILED"
	if _, ok := errors.AsType[*trainer.InterruptedError](err); ok {
		status = "KILLED"
	}
	m.end(r, status)
}

// end does not wait long for a server that does not answer: a process that was told to stop may not
// have the time.
func (m *MLflow) end(r *trainer.Run, status string) {
	if m.sender == nil {
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	err := m.sender.close(ctx)
	m.sender = nil
	if err == nil {
		err = m.client.endRun(ctx, m.run, status)
	}
	m.check(r, err)
}

// check warns once of an error, after which nothing more is sent.
func (m *MLflow) check(r *trainer.Run, err error) {
	if err == nil || m.failed {
		return
	}
	m.failed = true
	r.Warn("callback.MLflow: %v; nothing more is sent to MLflow, and the run continues", err)
}

// mlflowState has the form of the states of transformers' callbacks.
type mlflowState struct {
	Args       struct{} `json:"args"`
	Attributes struct {
		RunID string `json:"run_id"`
	} `json:"attributes"`
}

// MarshalState implements trainer.StateSaver.
func (m *MLflow) MarshalState() ([]byte, error) {
	var s mlflowState
	s.Attributes.RunID = m.run
	return json.Marshal(s)
}

// UnmarshalState implements trainer.StateSaver.
func (m *MLflow) UnmarshalState(text []byte) error {
	var s mlflowState
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	m.run = s.Attributes.RunID
	return nil
}
