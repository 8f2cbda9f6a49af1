package pymarlin

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/callback"
)

// Writer receives the values collected by [Stats]: Writer of pymarlin.utils.writer.base. A writer
// that can do more implements the interfaces below.
type Writer interface {
	LogScalar(key string, value float64, step int) error
	LogMulti(key string, values map[string]float64, step int) error
	// Flush writes out what the writer holds.
	Flush() error
	// Close is called once, after the last value: finish.
	Close() error
}

// What some writers can do in addition.
type (
	// HistogramWriter receives distributions: log_histogram.
	HistogramWriter interface {
		LogHistogram(key string, values []float64, step int) error
	}
	// ModelWriter receives a parameter and its gradient, undefined if there is none: log_model.
	ModelWriter interface {
		LogModel(name string, weights, gradients torch.Tensor, step int) error
	}
	// ArgsWriter receives settings: log_args.
	ArgsWriter interface {
		LogArgs(args map[string]string) error
	}
)

// WriterInitArguments configure writers made by name. The zero value has PyMarlin's defaults.
type WriterInitArguments struct {
	// folder of TensorBoard's events, and of stats.jsonl; empty: logs
	TBLogDir string `config:"tb_log_dir"`
	// environment variable with the path of its parent folder; empty: none
	TBLogPathParentEnv string `config:"tb_logpath_parent_env"`
	HistogramSteps     int    `config:"tb_log_hist_steps"` // write histograms only at multiples of this step; zero: 20000
	ModelLogLevel      string `config:"model_log_level"`   // DEBUG: LogModel prints norms too; empty: INFO
}

func (a WriterInitArguments) withDefaults() WriterInitArguments {
	a.TBLogDir, a.HistogramSteps = cmp.Or(a.TBLogDir, "logs"), cmp.Or(a.HistogramSteps, 20000)
	a.ModelLogLevel = cmp.Or(a.ModelLogLevel, "INFO")
	return a
}

// dir returns the folder for the files.
func (a WriterInitArguments) dir() string {
	if a.TBLogPathParentEnv != "" {
		if parent, ok := os.LookupEnv(a.TBLogPathParentEnv); ok {
			return filepath.Join(parent, a.TBLogDir)
		}
	}
	return a.TBLogDir
}

var writerNames = []string{"stdout", "tensorboard", "jsonl"}

// azureML is the name of another writer of PyMarlin, which is not supported.
const azureML = "aml"

func unknownWriter(name string) error {
	return argumentf("there is no writer %q; want one of %s", name, strings.Join(writerNames, ", "))
}

// BuildWriter makes a writer by name: "stdout" prints lines, "tensorboard" writes events, and
// "jsonl" writes stats.jsonl, one object per value.
func BuildWriter(name string, args WriterInitArguments) (Writer, error) {
	args = args.withDefaults()
	switch name {
	case "stdout":
		return NewStdout(os.Stdout, args)
	case "tensorboard":
		return NewTensorboard(args)
	case "jsonl":
		return NewJSONLines(args)
	}
	return nil, unknownWriter(name)
}

func closeWriters(writers []Writer) (err error) {
	for _, w := range writers {
		err = errors.Join(err, w.Close())
	}
	return err
}

// Stdout prints one line for each value: "step = 20, loss : 0.25".
type Stdout struct {
	out   io.Writer
	norms bool
}

// NewStdout prints to out.
func NewStdout(out io.Writer, args WriterInitArguments) (*Stdout, error) {
	level, err := parseLevel(args.withDefaults().ModelLogLevel)
	if err != nil {
		return nil, err
	}
	return &Stdout{out: out, norms: level <= slog.LevelDebug}, nil
}

// LogScalar prints a number.
func (w *Stdout) LogScalar(key string, value float64, step int) error {
	_, err := fmt.Fprintf(w.out, "step = %d, %s : %s\n", step, key, formatFloat(value))
	return err
}

// LogMulti prints numbers, in the order of their names.
func (w *Stdout) LogMulti(key string, values map[string]float64, step int) error {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		parts = append(parts, fmt.Sprintf("'%s': %s", name, formatFloat(values[name])))
	}
	_, err := fmt.Fprintf(w.out, "step = %d, %s : {%s}\n", step, key, strings.Join(parts, ", "))
	return err
}

// LogModel prints the norms of a parameter if the level is DEBUG. It waits for the device.
func (w *Stdout) LogModel(name string, weights, gradients torch.Tensor, step int) error {
	if !w.norms {
		return nil
	}
	gradient := "None"
	if gradients.Defined() {
		gradient = formatFloat(norm(gradients))
	}
	_, err := fmt.Fprintf(w.out, "step = %d , %s : weight_norm = %s, grad_norm = %s\n", step, name,
		formatFloat(norm(weights)), gradient)
	return err
}

// Flush does nothing.
func (w *Stdout) Flush() error { return nil }

// Close does not close out.
func (w *Stdout) Close() error { return nil }

func norm(t torch.Tensor) (n float64) {
	torch.Scope(func() { n = t.ToDType(torch.Float32).NormDim(2.0, nil, false).Item() })
	return n
}

// logNorms logs the norms of a parameter and of its gradient, if it has one.
func logNorms(log func(key string, v float64, step int) error, name string, weights, gradients torch.Tensor,
	step int) error {
	err := log("weight_norm/"+name, norm(weights), step)
	if err == nil && gradients.Defined() {
		err = log("grad_norm/"+name, norm(gradients), step)
	}
	return err
}

// formatFloat formats a number with as few digits as needed to parse it back exactly.
func formatFloat(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// JSONLines writes one object per value to stats.jsonl: {"step":20,"key":"loss","value":0.25}. A
// run that continues appends to the file.
type JSONLines struct {
	file  *os.File
	every int
}

// NewJSONLines opens stats.jsonl in TBLogDir.
func NewJSONLines(args WriterInitArguments) (*JSONLines, error) {
	args = args.withDefaults()
	if err := os.MkdirAll(args.dir(), 0o777); err != nil {
		return nil, fmt.Errorf("pymarlin: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(args.dir(), "stats.jsonl"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return nil, fmt.Errorf("pymarlin: %w", err)
	}
	return &JSONLines{f, args.HistogramSteps}, nil
}

// jsonNumber returns v, or a string if JSON cannot represent it.
func jsonNumber(v float64) any {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return strings.ToLower(strconv.FormatFloat(v, 'g', -1, 64))
	}
	return v
}

func (w *JSONLines) line(key string, value any, step int) error {
	text, err := json.Marshal(struct {
		Step  int    `json:"step"`
		Key   string `json:"key"`
		Value any    `json:"value"`
	}{step, key, value})
	if err != nil {
		return err
	}
	_, err = w.file.Write(append(text, '\n')) // unbuffered, so that a run that is killed leaves complete lines
	return err
}

// LogScalar writes a number.
func (w *JSONLines) LogScalar(key string, value float64, step int) error {
	return w.line(key, jsonNumber(value), step)
}

// LogMulti writes numbers by their names.
func (w *JSONLines) LogMulti(key string, values map[string]float64, step int) error {
	out := map[string]any{}
	for name, v := range values {
		out[name] = jsonNumber(v)
	}
	return w.line(key, out, step)
}

// LogHistogram writes the distribution of the values, their number, extremes, mean and deviation,
// at multiples of HistogramSteps.
func (w *JSONLines) LogHistogram(key string, values []float64, step int) error {
	if step%w.every != 0 || len(values) == 0 {
		return nil
	}
	sum, squares := 0.0, 0.0
	for _, v := range values {
		sum += v
	}
	mean := sum / float64(len(values))
	for _, v := range values {
		squares += (v - mean) * (v - mean)
	}
	return w.line(key, map[string]any{"num": len(values), "min": jsonNumber(slices.Min(values)),
		"max":  jsonNumber(slices.Max(values)),
		"mean": jsonNumber(mean), "std": jsonNumber(math.Sqrt(squares / float64(len(values))))}, step)
}

// LogModel writes the norms of a parameter.
func (w *JSONLines) LogModel(name string, weights, gradients torch.Tensor, step int) error {
	return logNorms(w.LogScalar, name, weights, gradients, step)
}

// LogArgs writes settings.
func (w *JSONLines) LogArgs(args map[string]string) error { return w.line("args", args, 0) }

// Flush flushes the file to disk.
func (w *JSONLines) Flush() error { return w.file.Sync() }

// Close closes the file.
func (w *JSONLines) Close() error { return w.file.Close() }

// Tensorboard writes TensorBoard's events. Several numbers go under KEY/NAME. Events of earlier
// runs are kept, so that a resumed run continues its curves; PyMarlin empties the folder.
type Tensorboard struct {
	events *callback.EventWriter
	every  int
}

// NewTensorboard makes a new file of events in TBLogDir.
func NewTensorboard(args WriterInitArguments) (*Tensorboard, error) {
	args = args.withDefaults()
	events, err := callback.NewEventWriter(args.dir())
	if err != nil {
		return nil, fmt.Errorf("pymarlin: %w", err)
	}
	return &Tensorboard{events, args.HistogramSteps}, nil
}

// LogScalar writes a number.
func (w *Tensorboard) LogScalar(key string, value float64, step int) error {
	return w.events.AddScalar(key, value, step)
}

// LogMulti writes each number under KEY/NAME.
func (w *Tensorboard) LogMulti(key string, values map[string]float64, step int) error {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if err := w.events.AddScalar(key+"/"+name, values[name], step); err != nil {
			return err
		}
	}
	return nil
}

// LogHistogram writes the distribution of the values, at multiples of HistogramSteps. Values that
// are not finite, which TensorBoard cannot show, are skipped with a warning.
func (w *Tensorboard) LogHistogram(key string, values []float64, step int) error {
	if step%w.every != 0 || len(values) == 0 {
		return nil
	}
	h, err := callback.NewHistogram(values)
	if err != nil {
		slog.Warn(fmt.Sprintf("pymarlin: no histogram of %s at step %d: %v", key, step, err))
		return nil
	}
	return w.events.AddHistogram(key, h, step)
}

// LogModel writes the norms of a parameter and of its gradient and, at multiples of
// HistogramSteps, their distributions.
func (w *Tensorboard) LogModel(name string, weights, gradients torch.Tensor, step int) error {
	if step%w.every == 0 {
		if err := w.LogHistogram("weights/"+name, numbers(weights), step); err != nil {
			return err
		}
		if gradients.Defined() {
			if err := w.LogHistogram("grads/"+name, numbers(gradients), step); err != nil {
				return err
			}
		}
	}
	return logNorms(w.LogScalar, name, weights, gradients, step)
}

func numbers(t torch.Tensor) (values []float64) {
	torch.Scope(func() { values = torch.Values[float64](t.ToDType(torch.Float64)) })
	return values
}

// LogArgs writes each setting as a text.
func (w *Tensorboard) LogArgs(args map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(args)) {
		if err := w.events.AddText(name, args[name], 0); err != nil {
			return err
		}
	}
	return nil
}

// Flush makes what was written visible to TensorBoard.
func (w *Tensorboard) Flush() error { return w.events.Flush() }

// Close closes the file.
func (w *Tensorboard) Close() error { return w.events.Close() }
