package callback

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// mlflowServer does what an MLflow 3.17 server does with the requests of the callback. Set
// GOTRAINER_TEST_MLFLOW=http://localhost:5000 to run the same tests with a real one.
type mlflowServer struct {
	*httptest.Server
	mu          sync.Mutex
	experiments map[string]string // identifiers by name
	runs        map[string]*mlflowRun
	requests    int
	status      func(request int) int // of the answer to a request; 0 or nil: what MLflow gives
	headers     []http.Header
}

// mlflowRun has the form of an answer of runs/get.
type mlflowRun struct {
	Info struct {
		ID         string `json:"run_id"`
		Experiment string `json:"experiment_id"`
		Name       string `json:"run_name"`
		Status     string `json:"status"`
		EndTime    int64  `json:"end_time"`
	} `json:"info"`
	Data struct {
		Params []mlflowPair `json:"params"`
		Tags   []mlflowPair `json:"tags"`
	} `json:"data"`

	metrics map[string][]recordedMetric
}

type recordedMetric struct {
	Step      int   `json:"step"`
	Value     any   `json:"value"`
	Timestamp int64 `json:"timestamp"`
}

func (r *mlflowRun) param(name string) string { return valueOf(r.Data.Params, name) }
func (r *mlflowRun) tag(name string) string   { return valueOf(r.Data.Tags, name) }

func valueOf(pairs []mlflowPair, name string) string {
	for _, p := range pairs {
		if p.Key == name {
			return p.Value
		}
	}
	return ""
}

func newMLflowServer(t *testing.T) *mlflowServer {
	s := &mlflowServer{experiments: map[string]string{"Default": "0"}, runs: map[string]*mlflowRun{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	for _, name := range []string{"TRACKING_URI", "EXPERIMENT_NAME", "RUN_ID", "TAGS", "TRACKING_USERNAME",
		"TRACKING_PASSWORD", "TRACKING_TOKEN"} {
		t.Setenv("MLFLOW_"+name, "")
	}
	return s
}

func (s *mlflowServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.headers = append(s.headers, r.Header)
	s.requests++
	if s.status != nil {
		if status := s.status(s.requests); status != 0 {
			http.Error(w, "<html>no</html>", status)
			return
		}
	}
	answer, err := s.answer(r)
	if err != nil {
		w.WriteHeader(err.status)
		answer = err
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (s *mlflowServer) answer(r *http.Request) (any, *mlflowError) {
	method := strings.TrimPrefix(r.URL.Path, "/api/2.0/mlflow/")
	if method == "experiments/get-by-name" {
		name := r.URL.Query().Get("experiment_name")
		if id, ok := s.experiments[name]; ok {
			return map[string]any{"experiment": map[string]string{"experiment_id": id, "lifecycle_stage": "active"}}, nil
		}
		return nil, &mlflowError{"RESOURCE_DOES_NOT_EXIST", "Could not find experiment with name '" + name + "'", "", 404}
	}
	var in struct {
		Name       string
		Experiment string `json:"experiment_id"`
		RunName    string `json:"run_name"`
		ID         string `json:"run_id"`
		Status     string
		EndTime    int64 `json:"end_time"`
		Tags       []mlflowPair
		Params     []mlflowPair
		Metrics    []struct {
			Key string
			recordedMetric
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return nil, &mlflowError{"BAD_REQUEST", err.Error(), "", 400}
	}
	run := s.runs[in.ID]
	if run == nil && (method == "runs/update" || method == "runs/log-batch") {
		return nil, &mlflowError{"RESOURCE_DOES_NOT_EXIST", "Run with id=" + in.ID + " not found", "", 404}
	}
	switch method {
	case "experiments/create":
		id := fmt.Sprint(len(s.experiments))
		s.experiments[in.Name] = id
		return map[string]string{"experiment_id": id}, nil
	case "runs/create":
		run = &mlflowRun{metrics: map[string][]recordedMetric{}}
		run.Info.ID, run.Info.Experiment, run.Info.Name = fmt.Sprintf("run%d", len(s.runs)), in.Experiment, in.RunName
		run.Info.Status, run.Data.Tags = "RUNNING", in.Tags
		s.runs[run.Info.ID] = run
		return map[string]any{"run": run}, nil
	case "runs/update":
		run.Info.Status, run.Info.EndTime = in.Status, in.EndTime
		return map[string]any{}, nil
	case "runs/log-batch":
		for _, p := range in.Params {
			if old := run.param(p.Key); old != "" && old != p.Value {
				return nil, &mlflowError{"INVALID_PARAMETER_VALUE", "Changing param values is not allowed. Params were " +
					"already logged='[{'key': '" + p.Key + "'", "", 400}
			}
		}
		run.Data.Params = append(run.Data.Params, in.Params...)
		run.Data.Tags = append(in.Tags, run.Data.Tags...)
		for _, m := range in.Metrics {
			if unsupported.MatchString(m.Key) {
				return nil, &mlflowError{"INVALID_PARAMETER_VALUE", "Names may only contain alphanumerics", "", 400}
			}
			run.metrics[m.Key] = append(run.metrics[m.Key], m.recordedMetric)
		}
		return map[string]any{}, nil
	}
	return nil, &mlflowError{"ENDPOINT_NOT_FOUND", method, "", 404}
}

// run returns a run of the server.
func (s *mlflowServer) run(t *testing.T, id string) *mlflowRun {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Contains(t, s.runs, id)
	return s.runs[id]
}

// fit trains for four epochs of two updates with a row of the log after each update.
func fit(t *testing.T, m *MLflow, change func(*trainer.Options)) (*trainer.Result, error) {
	t.Helper()
	step := &trainertest.Step{EvalMetrics: func(n int, _ []int) trainer.Metrics {
		return trainer.Metrics{"loss": 1 / float64(n), "f1 (macro)": math.Inf(1)}
	}}
	o := trainer.Options{Epochs: 4, BatchSize: 4, Log: trainer.Every(1, trainer.Update), Callbacks: []any{m},
		Progress: io.Discard}
	if change != nil {
		change(&o)
	}
	tr, err := trainer.New(step, o)
	require.NoError(t, err)
	return tr.Fit(t.Context(), trainertest.Samples(8), trainertest.Samples(1))
}

func TestCallbackHasTheMethodsOfHooks(t *testing.T) { trainertest.TestCallback(t, &MLflow{}) }

func TestMLflowHasTheSettingsAndTheLogOfARun(t *testing.T) {
	s := newMLflowServer(t)
	t.Setenv("MLFLOW_TRACKING_URI", s.URL)
	t.Setenv("MLFLOW_TAGS", `{"release": 2, "team": "search"}`)
	dir := filepath.Join(t.TempDir(), "first")
	m := &MLflow{Experiment: "plates", Tags: map[string]string{"team": "vision"},
		Params: map[string]string{"depth": "3", "long": strings.Repeat("x", maxMLflowParam+1)}}
	result, err := fit(t, m, func(o *trainer.Options) { o.OutputDir, o.LearningRate = dir, 5e-5 })
	require.NoError(t, err)
	require.Len(t, result.Warnings, 1)
	assert.Contains(t, result.Warnings[0], "the parameter long has 6001 bytes, and MLflow takes 6000")

	run := s.run(t, m.run)
	assert.Equal(t, s.experiments["plates"], run.Info.Experiment)
	assert.Equal(t, "first", run.Info.Name)
	assert.Equal(t, "FINISHED", run.Info.Status)
	assert.InDelta(t, time.Now().UnixMilli(), run.Info.EndTime, 60_000)
	for name, want := range map[string]string{"learning_rate": "5e-05", "per_device_train_batch_size": "4", "depth": "3",
		"num_train_epochs": "4", "max_steps": "8", "output_dir": dir, "lr_scheduler_type": "Linear", "long": ""} {
		assert.Equal(t, want, run.param(name), name)
	}
	for name, want := range map[string]string{"release": "2", "team": "vision", "mlflow.source.type": "LOCAL"} {
		assert.Equal(t, want, run.tag(name), name)
	}
	require.Len(t, run.metrics["loss"], 8)
	for i, p := range run.metrics["loss"] {
		assert.Equal(t, i+1, p.Step)
	}
	require.Len(t, run.metrics["eval_loss"], 4)
	assert.Equal(t, []any{0.25, 8}, []any{run.metrics["eval_loss"][3].Value, run.metrics["eval_loss"][3].Step})
	assert.Equal(t, "Infinity", run.metrics["eval_f1 _macro_"][0].Value)
	assert.Len(t, run.metrics["train_runtime"], 1)
	assert.NotContains(t, run.metrics, "step")
}

func TestAResumedRunContinuesItsMLflowRun(t *testing.T) {
	s := newMLflowServer(t)
	dir := t.TempDir()
	options := func(o *trainer.Options) { o.OutputDir, o.Save = dir, trainer.Every(1, trainer.Update) }
	ctx, cancel := context.WithCancel(t.Context())
	first := &MLflow{TrackingURI: s.URL}
	step := &trainertest.Step{}
	o := trainer.Options{Epochs: 4, BatchSize: 4, Callbacks: []any{first, &cancelAt{3, cancel}}, Progress: io.Discard,
		Log: trainer.Every(1, trainer.Update)}
	options(&o)
	tr, err := trainer.New(step, o)
	require.NoError(t, err)
	_, err = tr.Fit(ctx, trainertest.Samples(8), nil)
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, "KILLED", s.run(t, first.run).Info.Status)

	again := &MLflow{TrackingURI: s.URL, Params: map[string]string{"output_dir": "elsewhere"}}
	result, err := fit(t, again, func(o *trainer.Options) {
		options(o)
		o.ResumeFrom = trainer.Latest
	})
	require.NoError(t, err)
	assert.Equal(t, first.run, again.run)
	assert.Len(t, s.runs, 1)
	run := s.run(t, again.run)
	assert.Equal(t, "FINISHED", run.Info.Status)
	var steps []int
	for _, p := range run.metrics["loss"] {
		steps = append(steps, p.Step)
	}
	assert.Equal(t, []int{1, 2, 3, 4, 5, 6, 7, 8}, steps)
	require.NotEmpty(t, result.Warnings)
	assert.Contains(t, strings.Join(result.Warnings, "\n"), "Changing param values is not allowed")

	elsewhere := newMLflowServer(t) // which does not have the run
	m := &MLflow{TrackingURI: elsewhere.URL}
	result, err = fit(t, m, func(o *trainer.Options) {
		options(o)
		o.ResumeFrom, o.Epochs = trainer.Latest, 5
	})
	require.NoError(t, err)
	assert.Contains(t, strings.Join(result.Warnings, "\n"), "does not have the run")
	assert.Len(t, elsewhere.run(t, m.run).metrics["loss"], 2)

	_, err = fit(t, &MLflow{TrackingURI: s.URL, RunID: "nope"}, nil)
	require.ErrorContains(t, err, "Run with id=nope not found")
}

// cancelAt interrupts a run after an update.
type cancelAt struct {
	step   int
	cancel func()
}

func (c *cancelAt) StepEnd(r *trainer.Run) error {
	if r.GlobalStep == c.step {
		c.cancel()
	}
	return nil
}

func TestAFailedRunIsFailedForMLflow(t *testing.T) {
	s := newMLflowServer(t)
	m := &MLflow{TrackingURI: s.URL}
	_, err := fit(t, m, func(o *trainer.Options) { o.Callbacks = append(o.Callbacks, brokenHook{}) })
	require.ErrorContains(t, err, "broken")
	assert.Equal(t, "FAILED", s.run(t, m.run).Info.Status)
}

type brokenHook struct{}

func (brokenHook) StepEnd(*trainer.Run) error { return fmt.Errorf("broken") }

func TestRowsOutsideOfARun(t *testing.T) {
	s := newMLflowServer(t)
	m := &MLflow{TrackingURI: s.URL}
	tr, err := trainer.New(&trainertest.Step{}, trainer.Options{Callbacks: []any{m}, Progress: io.Discard, Epochs: 1})
	require.NoError(t, err)
	_, err = tr.Evaluate(t.Context(), trainertest.Samples(2))
	require.NoError(t, err)
	alone := m.run
	assert.Len(t, s.run(t, alone).metrics["eval_loss"], 1)
	assert.Equal(t, "FINISHED", s.run(t, alone).Info.Status)
	_, err = tr.Fit(t.Context(), trainertest.Samples(8), nil)
	require.NoError(t, err)
	assert.NotEqual(t, alone, m.run)
	_, err = tr.Evaluate(t.Context(), trainertest.Samples(2))
	require.NoError(t, err)
	assert.Len(t, s.run(t, m.run).metrics["eval_loss"], 1)
	assert.Len(t, s.runs, 2)
}

func TestAnMLflowServerThatFailsDuringARun(t *testing.T) {
	t.Run("for a moment", func(t *testing.T) {
		s := newMLflowServer(t)
		s.status = func(request int) int { return map[int]int{5: 503, 6: 429}[request] }
		m := &MLflow{TrackingURI: s.URL}
		result, err := fit(t, m, nil)
		require.NoError(t, err)
		assert.Empty(t, result.Warnings)
		assert.Len(t, s.run(t, m.run).metrics["loss"], 8)
	})
	t.Run("for good", func(t *testing.T) {
		s := newMLflowServer(t)
		s.status = func(request int) int { return map[bool]int{true: 502}[request > 4] }
		result, err := fit(t, &MLflow{TrackingURI: s.URL, patience: time.Millisecond}, nil)
		require.NoError(t, err)
		require.Len(t, result.Warnings, 1)
		assert.Contains(t, result.Warnings[0], "runs/log-batch: the MLflow server answers 502 Bad Gateway; nothing more "+
			"is sent to MLflow, and the run continues")
	})
}

func TestOnlyTheMainProcessSendsToMLflow(t *testing.T) {
	s := newMLflowServer(t)
	_, err := fit(t, &MLflow{TrackingURI: s.URL}, func(o *trainer.Options) {
		o.Process = trainer.Process{Rank: 1, LocalRank: 1, World: 2}
	})
	require.NoError(t, err)
	assert.Zero(t, s.requests)
}

func TestMLflowCredentials(t *testing.T) {
	s := newMLflowServer(t)
	address := strings.TrimPrefix(s.URL, "http://")
	for name, c := range map[string]struct {
		uri  string
		env  map[string]string
		want string
	}{
		"none":        {s.URL, nil, ""},
		"password":    {s.URL + "/", map[string]string{"USERNAME": "me", "PASSWORD": "secret"}, "Basic bWU6c2VjcmV0"},
		"token":       {s.URL, map[string]string{"TOKEN": "abc"}, "Bearer abc"},
		"the address": {"http://me:secret@" + address, map[string]string{"TOKEN": "abc"}, "Basic bWU6c2VjcmV0"},
	} {
		t.Run(name, func(t *testing.T) {
			for name, value := range c.env {
				t.Setenv("MLFLOW_TRACKING_"+name, value)
			}
			s.headers = nil
			_, err := fit(t, &MLflow{TrackingURI: c.uri}, nil)
			require.NoError(t, err)
			for _, h := range s.headers {
				require.Equal(t, c.want, h.Get("Authorization"))
			}
		})
	}
}

func TestWhatCannotBeAnMLflowServerIsRefused(t *testing.T) {
	s := newMLflowServer(t)
	s.status = func(int) int { return http.StatusUnauthorized }
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }))
	defer page.Close()
	object := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") }))
	defer object.Close()
	for uri, want := range map[string]string{
		"":                         "MLFLOW_TRACKING_URI is not set",
		"sqlite:///mlflow.db":      `the TrackingURI is "sqlite:///mlflow.db": want the address of an MLflow tracking server`,
		"databricks":               "want the address of an MLflow tracking server",
		"http://me:secret@ho st":   "cannot be parsed",
		"ftp://me:secret@host":     `"ftp://me:xxxxx@host"`,
		"http://127.0.0.1:1":       "connection refused",
		s.URL:                      "401 Unauthorized; set MLFLOW_TRACKING_USERNAME",
		page.URL:                   "is not an MLflow server: invalid character",
		object.URL:                 "is not an MLflow server: it gives no experiment_id",
		"http://secret@[::1]:port": "cannot be parsed",
	} {
		_, err := fit(t, &MLflow{TrackingURI: uri, patience: time.Millisecond}, nil)
		require.ErrorContains(t, err, want, uri)
		assert.NotContains(t, err.Error(), "secret", uri)
	}
	t.Setenv("MLFLOW_TAGS", "[1]")
	_, err := fit(t, &MLflow{TrackingURI: s.URL}, nil)
	require.ErrorContains(t, err, "want a JSON object")
}

// TestARealMLflowServer holds the stand-in of the tests above against MLflow itself.
func TestARealMLflowServer(t *testing.T) {
	uri := os.Getenv("GOTRAINER_TEST_MLFLOW")
	if uri == "" {
		t.Skip("GOTRAINER_TEST_MLFLOW has the address of an MLflow server to test with")
	}
	dir := t.TempDir()
	m := &MLflow{TrackingURI: uri, Experiment: t.Name(), Tags: map[string]string{"team": "vision"}}
	result, err := fit(t, m, func(o *trainer.Options) { o.OutputDir, o.Save = dir, trainer.Every(2, trainer.Epoch) })
	require.NoError(t, err)
	assert.Empty(t, result.Warnings)
	again := &MLflow{TrackingURI: uri, Experiment: t.Name()}
	result, err = fit(t, again, func(o *trainer.Options) {
		o.OutputDir, o.Epochs, o.ResumeFrom = dir, 5, trainer.Latest
	})
	require.NoError(t, err)
	assert.Equal(t, m.run, again.run)
	assert.Contains(t, strings.Join(result.Warnings, "\n"), "Changing param values is not allowed")

	get := func(method string, out any) {
		answer, err := http.Get(uri + "/api/2.0/mlflow/" + method)
		require.NoError(t, err)
		defer func() { _ = answer.Body.Close() }()
		require.Equal(t, http.StatusOK, answer.StatusCode)
		require.NoError(t, json.NewDecoder(answer.Body).Decode(out))
	}
	var found struct{ Run mlflowRun }
	get("runs/get?run_id="+m.run, &found)
	assert.Equal(t, []string{"FINISHED", filepath.Base(dir), "vision", "4"}, []string{found.Run.Info.Status,
		found.Run.Info.Name, found.Run.tag("team"), found.Run.param("num_train_epochs")})
	var history struct{ Metrics []recordedMetric }
	get("metrics/get-history?metric_key=loss&run_id="+m.run, &history)
	require.Len(t, history.Metrics, 10)
	assert.Equal(t, 10, history.Metrics[9].Step)
	_, err = fit(t, &MLflow{TrackingURI: uri, RunID: "nope"}, nil)
	require.ErrorContains(t, err, "Run with id=nope not found")
}
