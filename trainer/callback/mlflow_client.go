package callback

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Limits of a request, from mlflow/utils/validation.py.
const (
	maxMLflowParams  = 100
	maxMLflowMetrics = 1000
	maxMLflowParam   = 6000 // bytes of a value
)

// mlflowClient calls version 2.0 of the REST API of an MLflow tracking server.
type mlflowClient struct {
	base           string // with the path, and no slash at the end
	user, password string
	token          string
	http           *http.Client
	pause          time.Duration // before a request is repeated for the first time; it doubles
	patience       time.Duration // for which a request is repeated
}

// mlflowError is the answer of a server that does not do what it was asked.
type mlflowError struct {
	Code    string `json:"error_code"`
	Message string `json:"message"`
	method  string // of the API
	status  int
}

func (e *mlflowError) Error() string {
	text := fmt.Sprintf("%s: the MLflow server answers %d %s", e.method, e.status, http.StatusText(e.status))
	if e.Code != "" {
		text += fmt.Sprintf(": %s: %s", e.Code, e.Message)
	}
	if e.status == http.StatusUnauthorized || e.status == http.StatusForbidden {
		text += "; set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN"
	}
	return text
}

// hasMLflowCode reports whether an error is the answer of a server with this error_code.
func hasMLflowCode(err error, code string) bool {
	answer, ok := errors.AsType[*mlflowError](err)
	return ok && answer.Code == code
}

func newMLflowClient(uri string, h *http.Client) (*mlflowClient, error) {
	const want = "want the address of an MLflow tracking server, such as http://localhost:5000"
	if uri == "" {
		return nil, errors.New("it has no TrackingURI, and MLFLOW_TRACKING_URI is not set: " + want)
	}
	u, err := url.Parse(uri)
	if err != nil {
		return nil, fmt.Errorf("the TrackingURI cannot be parsed: %w; %s", errors.Unwrap(err), want)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("the TrackingURI is %q: %s", u.Redacted(), want)
	}
	c := &mlflowClient{http: h, pause: time.Second / 2, patience: 30 * time.Second,
		user: os.Getenv("MLFLOW_TRACKING_USERNAME"), password: os.Getenv("MLFLOW_TRACKING_PASSWORD"),
		token: os.Getenv("MLFLOW_TRACKING_TOKEN")}
	if u.User != nil {
		c.user = u.User.Username()
		c.password, _ = u.User.Password()
		u.User = nil
	}
	c.base = strings.TrimSuffix(u.String(), "/")
	if h == nil {
		c.http = &http.Client{Timeout: 20 * time.Second}
	}
	return c, nil
}

// call calls a method of the API, such as "runs/create", with in as its argument, and decodes the
// answer into out, unless that is nil. While the server cannot be reached, or says that the problem
// is its own, the request is repeated.
func (c *mlflowClient) call(ctx context.Context, method string, in, out any) error {
	end := time.Now().Add(c.patience)
	for pause := c.pause; ; pause = min(2*pause, 8*time.Second) {
		again, err := c.try(ctx, method, in, out)
		if err == nil || !again || time.Now().Add(pause).After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (after %w)", context.Cause(ctx), err)
		case <-time.After(pause):
		}
	}
}

// try calls a method once; again reports whether it may succeed later.
func (c *mlflowClient) try(ctx context.Context, method string, in, out any) (again bool, err error) {
	body, err := json.Marshal(in)
	if err != nil {
		return false, err
	}
	verb := http.MethodPost
	if in == nil {
		verb, body = http.MethodGet, nil
	}
	request, err := http.NewRequestWithContext(ctx, verb, c.base+"/api/2.0/mlflow/"+method, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "gotrainer")
	switch {
	case c.user != "" || c.password != "":
		request.SetBasicAuth(c.user, c.password)
	case c.token != "":
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return true, fmt.Errorf("the MLflow server: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 16<<20))
	if err != nil {
		return true, fmt.Errorf("the MLflow server: %s: %w", method, err)
	}
	method, _, _ = strings.Cut(method, "?")
	if answer.StatusCode != http.StatusOK {
		e := &mlflowError{method: method, status: answer.StatusCode}
		_ = json.Unmarshal(text, e) // a proxy's page has no code
		return e.status >= 500 || e.status == http.StatusTooManyRequests, e
	}
	if out == nil {
		return false, nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return false, fmt.Errorf("%s: what answers at %s is not an MLflow server: %w", method, c.base, err)
	}
	return false, nil
}

// experiment returns the identifier of an experiment, which is created if need be.
func (c *mlflowClient) experiment(ctx context.Context, name string) (string, error) {
	var found struct {
		Experiment struct {
			ID    string `json:"experiment_id"`
			Stage string `json:"lifecycle_stage"`
		}
	}
	get := "experiments/get-by-name?" + url.Values{"experiment_name": {name}}.Encode()
	err := c.call(ctx, get, nil, &found)
	if hasMLflowCode(err, "RESOURCE_DOES_NOT_EXIST") {
		var made struct {
			ID string `json:"experiment_id"`
		}
		err = c.call(ctx, "experiments/create", map[string]string{"name": name}, &made)
		return made.ID, err
	}
	switch {
	case err != nil:
		return "", err
	case found.Experiment.Stage == "deleted":
		return "", fmt.Errorf("the experiment %q has been deleted on the MLflow server; restore it or choose another "+
			"name", name)
	case found.Experiment.ID == "":
		return "", fmt.Errorf("what answers at %s is not an MLflow server: it gives no experiment_id", c.base)
	}
	return found.Experiment.ID, nil
}

// mlflowPair is a tag or a parameter.
type mlflowPair struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

func mlflowPairs(values map[string]string) []mlflowPair {
	var pairs []mlflowPair
	for _, name := range slices.Sorted(maps.Keys(values)) {
		pairs = append(pairs, mlflowPair{name, values[name]})
	}
	return pairs
}

// createRun returns the identifier of a new run.
func (c *mlflowClient) createRun(ctx context.Context, experiment, name string, start time.Time,
	tags map[string]string) (string, error) {
	var made struct {
		Run struct {
			Info struct {
				ID string `json:"run_id"`
			}
		}
	}
	err := c.call(ctx, "runs/create", map[string]any{"experiment_id": experiment, "run_name": name,
		"start_time": start.UnixMilli(), "tags": mlflowPairs(tags)}, &made)
	if err == nil && made.Run.Info.ID == "" {
		err = fmt.Errorf("what answers at %s is not an MLflow server: it gives no run_id", c.base)
	}
	return made.Run.Info.ID, err
}

// continueRun sets an existing run to RUNNING again.
func (c *mlflowClient) continueRun(ctx context.Context, run string, tags map[string]string) error {
	err := c.call(ctx, "runs/update", map[string]any{"run_id": run, "status": "RUNNING"}, nil)
	if err != nil {
		return err
	}
	return c.logBatch(ctx, run, map[string]any{"tags": mlflowPairs(tags)})
}

// endRun sets how a run has ended: FINISHED, FAILED or KILLED.
func (c *mlflowClient) endRun(ctx context.Context, run, status string) error {
	return c.call(ctx, "runs/update", map[string]any{"run_id": run, "status": status,
		"end_time": time.Now().UnixMilli()}, nil)
}

func (c *mlflowClient) logBatch(ctx context.Context, run string, batch map[string]any) error {
	batch["run_id"] = run
	return c.call(ctx, "runs/log-batch", batch, nil)
}

func (c *mlflowClient) logParams(ctx context.Context, run string, params map[string]string) error {
	for chunk := range slices.Chunk(mlflowPairs(params), maxMLflowParams) {
		if err := c.logBatch(ctx, run, map[string]any{"params": chunk}); err != nil {
			return err
		}
	}
	return nil
}

type mlflowMetric struct {
	Key       string      `json:"key"`
	Value     mlflowValue `json:"value"`
	Timestamp int64       `json:"timestamp"` // milliseconds since 1970
	Step      int         `json:"step"`
}

// mlflowValue is a number in the JSON of protocol buffers, where those that are not finite are
// strings.
type mlflowValue float64

func (v mlflowValue) MarshalJSON() ([]byte, error) {
	switch x := float64(v); {
	case math.IsNaN(x):
		return []byte(`"NaN"`), nil
	case math.IsInf(x, 0):
		return []byte(map[bool]string{true: `"Infinity"`, false: `"-Infinity"`}[x > 0]), nil
	default:
		return strconv.AppendFloat(nil, x, 'g', -1, 64), nil
	}
}

func (c *mlflowClient) logMetrics(ctx context.Context, run string, metrics []mlflowMetric) error {
	for chunk := range slices.Chunk(metrics, maxMLflowMetrics) {
		if err := c.logBatch(ctx, run, map[string]any{"metrics": chunk}); err != nil {
			return err
		}
	}
	return nil
}

// mlflowSender sends metrics in the background, in one request all that have come meanwhile.
type mlflowSender struct {
	stop    context.CancelFunc
	mu      sync.Mutex
	waiting []mlflowMetric
	err     error         // why nothing more is sent
	more    chan struct{} // has an element if metrics are waiting
	done    chan struct{} // closed when the goroutine has ended
}

func newMLflowSender(c *mlflowClient, run string) *mlflowSender {
	ctx, stop := context.WithCancel(context.Background())
	s := &mlflowSender{stop: stop, more: make(chan struct{}, 1), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		for range s.more {
			s.mu.Lock()
			metrics := s.waiting
			s.waiting = nil
			s.mu.Unlock()
			if err := c.logMetrics(ctx, run, metrics); err != nil {
				s.mu.Lock()
				s.err = err
				s.mu.Unlock()
				return
			}
		}
	}()
	return s
}

// add queues metrics. It returns an error if earlier ones could not be sent.
func (s *mlflowSender) add(metrics []mlflowMetric) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	s.waiting = append(s.waiting, metrics...)
	select {
	case s.more <- struct{}{}:
	default: // the goroutine has not yet taken what was waiting before
	}
	return nil
}

// close waits until everything has been sent, or until the context ends.
func (s *mlflowSender) close(ctx context.Context) error {
	defer s.stop()
	close(s.more)
	select {
	case <-s.done:
	case <-ctx.Done():
		s.stop()
		<-s.done
	}
	return s.err
}
