package trainertest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/trainer"
)

// Samples returns a data set of the numbers 0 to n-1.
func Samples(n int) data.Dataset[int] {
	s := make(data.Slice[int], n)
	for i := range s {
		s[i] = i
	}
	return s
}

// Step is a trainer.Step over batches of ints that records its calls. Its whole state is a number
// that depends on every call that would change weights or draw random numbers, in order; the losses
// depend on it. It can do everything that a step can, except join a group and recycle batches. The
// zero value is ready to use. It must not be copied.
type Step struct {
	// PerSample is what Count returns for each sample. If its Items is 0, items are not counted.
	PerSample trainer.Counts

	// Evaluations are the arguments of StartEval, in order.
	Evaluations []trainer.Evaluation

	// Momentum is the last argument of SetMomentum.
	Momentum float64

	// BadWeights is what NonFinite returns. A Load empties it.
	BadWeights []string

	// Skip says which updates loss scaling skips; updates count from 1. Nil: none.
	Skip func(update int) bool

	// Loss replaces the loss of a micro-batch, before its division. Nil: a number between 0 and 1
	// computed from the state and the samples.
	Loss func(micro int, batch []int) float64

	// EvalMetrics replaces the numbers of an evaluation; evaluations count from 1. Nil: only
	// "loss", computed from the state.
	EvalMetrics func(evaluation int, rows []int) trainer.Metrics

	// Inject is called at the beginning of each call: op is the method's name in lower case, and n
	// counts the calls of that method from 1. The error that it returns is the result of the call.
	// It may also panic or cancel a context.
	Inject func(op string, n int) error

	// Write is called before the files of a save with Options.AsyncSave are written, by the
	// goroutine that writes them. The error that it returns is the result of the write. It may also
	// block or panic.
	Write func() error

	// Calls are the calls in order, in the form that Trace prints, including seed, loader, clip and
	// report.
	Calls []string

	state  state
	ahead  *forward
	skip   bool // Window.SkipNonFinite, and a loss of the window was not finite
	lately trainer.BatchLoss
	counts map[string]int
	rows   []int
}

// state is what Save writes.
type state struct {
	Weights   uint64  `json:"weights"`   // changed by updates
	Gradients uint64  `json:"gradients"` // changed by training batches
	Generator uint64  `json:"generator"` // changed by training batches and loaders
	Micro     int     `json:"micro"`
	Updates   int     `json:"updates"`
	Evals     int     `json:"evals"`
	LossSum   float64 `json:"-"`
	Norm      float64 `json:"-"`
}

var (
	_ trainer.Step[int, []int] = (*Step)(nil)
	_ trainer.SplitStep[[]int] = (*Step)(nil)
)

// Trace returns the calls that do the arithmetic, in order: train(samples/divisor) or
// forward(samples/divisor) backward, update(rate), eval(rows), metrics, save(folder), load(folder),
// weights(folder).
func (s *Step) Trace() string {
	var calls []string
	for _, c := range s.Calls {
		switch op, _, _ := strings.Cut(c, "("); op {
		case "train", "forward", "backward", "update", "eval", "metrics", "save", "load", "weights":
			calls = append(calls, c)
		}
	}
	return strings.Join(calls, " ")
}

// Weights returns a fingerprint of everything that has changed the weights, in order.
func (s *Step) Weights() uint64 { return s.state.Weights }

// Generator returns a fingerprint of everything that has drawn random numbers.
func (s *Step) Generator() uint64 { return s.state.Generator }

// About implements trainer.Step.
func (s *Step) About() trainer.About {
	return trainer.About{Text: "a recording step", Saves: true, Clips: true, SetsMomentum: true, CountsTokens: true,
		FiltersLoss: true, KeepsMode: true, KnowsMemory: true, SkipsNonFinite: true, SavesLater: true}
}

func (s *Step) begin(op, text string) error {
	if s.counts == nil {
		s.counts = map[string]int{}
	}
	s.counts[op]++
	s.Calls = append(s.Calls, text)
	if s.Inject != nil {
		return s.Inject(op, s.counts[op])
	}
	return nil
}

// mix adds a value to a fingerprint; the order of the values counts.
func mix(h, v uint64) uint64 {
	h ^= v + 0x9e3779b97f4a7c15 + h<<6 + h>>2
	h *= 0xff51afd7ed558ccd
	return h ^ h>>33
}

// Collate implements trainer.Step.
func (s *Step) Collate(samples []int) ([]int, error) { return slices.Clone(samples), nil }

// Loader implements trainer.Step. It leaves the loader to the trainer.
func (s *Step) Loader(data.Dataset[int], trainer.LoaderOptions) (trainer.BatchLoader[[]int], error) {
	return nil, nil
}

// Count implements trainer.Step.
func (s *Step) Count(batch []int) trainer.Counts {
	n := len(batch)
	return trainer.Counts{Items: s.PerSample.Items * int64(n), Tokens: s.PerSample.Tokens * int64(n),
		Flops: s.PerSample.Flops * float64(n)}
}

// Around implements trainer.Step.
func (s *Step) Around(body func() error) error { return body() }

// StartEval implements trainer.Step.
func (s *Step) StartEval(e trainer.Evaluation) error {
	s.Evaluations = append(s.Evaluations, e)
	return s.begin("starteval", "starteval("+e.Name+")")
}

// SetMomentum implements trainer.Step. The next update depends on it.
func (s *Step) SetMomentum(momentum float64) error {
	s.Momentum = momentum
	s.state.Gradients = mix(s.state.Gradients, math.Float64bits(momentum))
	return s.begin("setmomentum", "momentum("+number(momentum)+")")
}

// ZeroGrad implements trainer.Step.
func (s *Step) ZeroGrad() error {
	s.state.Gradients = 0
	return s.begin("zerograd", "zerograd")
}

// NonFinite implements trainer.Step.
func (s *Step) NonFinite() ([]string, error) { return s.BadWeights, s.begin("nonfinite", "nonfinite") }

// EmptyCache implements trainer.Step.
func (s *Step) EmptyCache() error { return s.begin("emptycache", "emptycache") }

// ErrOutOfMemory is what Inject returns to simulate that the device runs out of memory.
var ErrOutOfMemory = errors.New("trainertest: out of memory")

// OutOfMemory implements trainer.Step.
func (s *Step) OutOfMemory(err error) bool { return errors.Is(err, ErrOutOfMemory) }

// Seed implements trainer.Step. It does not make a model.
func (s *Step) Seed(seed uint64, o trainer.SeedOptions) error {
	s.state.Generator = seed
	if o.KeepModel {
		return s.begin("reseed", fmt.Sprintf("reseed(%d)", seed))
	}
	return s.begin("seed", fmt.Sprintf("seed(%d)", seed))
}

// StartLoader implements trainer.Step.
func (s *Step) StartLoader(train bool) error {
	s.state.Generator = mix(s.state.Generator, 1)
	if train {
		return s.begin("startloader", "loader(train)")
	}
	return s.begin("startloader", "loader(eval)")
}

// Clip implements trainer.Step. The update does not depend on it.
func (s *Step) Clip(context.Context) error { return s.begin("clip", "clip") }

// Update implements trainer.Step.
func (s *Step) Update(_ context.Context, rate float64) (bool, error) {
	if err := s.begin("update", "update("+number(rate)+")"); err != nil {
		return false, err
	}
	st := &s.state
	st.Updates++
	st.Norm = float64(st.Gradients>>44) / (1 << 20)
	applied := (s.Skip == nil || !s.Skip(st.Updates)) && !s.skip
	s.skip = false
	if applied {
		st.Weights = mix(mix(st.Weights, st.Gradients), math.Float64bits(rate))
	}
	st.Gradients = 0
	return applied, nil
}

// Report implements trainer.Step.
func (s *Step) Report(context.Context) (trainer.Report, error) {
	r := trainer.Report{LossSum: s.state.LossSum, GradNorm: s.state.Norm}
	if s.state.Updates == 0 {
		r.GradNorm = -1
	}
	s.state.LossSum = 0
	return r, s.begin("report", "report")
}

// Eval implements trainer.Step.
func (s *Step) Eval(_ context.Context, batch []int) error {
	s.rows = append(s.rows, batch...)
	loss := float64(mix(s.state.Weights, uint64(len(s.rows)))>>44) / (1 << 20)
	s.lately = trainer.BatchLoss{Loss: loss, Divided: loss}
	return s.begin("eval", "eval("+join(batch)+")")
}

// Metrics implements trainer.Step.
func (s *Step) Metrics(ctx context.Context) (trainer.Metrics, error) {
	rows := s.rows
	s.rows = nil
	s.state.Evals++
	if err := cmp.Or(s.begin("metrics", "metrics"), ctx.Err()); err != nil {
		return nil, err
	}
	if s.EvalMetrics != nil {
		return s.EvalMetrics(s.state.Evals, rows), nil
	}
	h := s.state.Weights
	for _, v := range rows {
		h = mix(h, uint64(v))
	}
	return trainer.Metrics{"loss": float64(h>>44) / (1 << 20)}, nil
}

const stateFile = "step.json"

// Save implements trainer.Step.
func (s *Step) Save(dir string, o trainer.SaveOptions) error {
	op, saved := "save", s.state
	if !o.Gradients {
		saved.Gradients = 0
	}
	if o.WeightsOnly {
		op, saved = "saveweights", state{Weights: s.state.Weights}
	}
	if err := s.begin(op, op); err != nil {
		return err
	}
	text, err := json.Marshal(saved)
	if err != nil {
		return err
	}
	write := func() error { return os.WriteFile(filepath.Join(dir, stateFile), text, 0o666) }
	if o.Later == nil {
		return write()
	}
	bad := s.BadWeights
	o.Later(func() ([]string, error) {
		if s.Write != nil {
			if err := s.Write(); err != nil {
				return nil, err
			}
		}
		return bad, write()
	})
	return nil
}

// Load implements trainer.Step.
func (s *Step) Load(dir string, o trainer.LoadOptions) error {
	op, name := "load", "load"
	if o.WeightsOnly {
		op, name = "loadweights", "weights"
	}
	if err := s.begin(op, name+"("+filepath.Base(dir)+")"); err != nil {
		return err
	}
	loaded, err := read(dir)
	if err != nil {
		return err
	}
	s.BadWeights = nil
	if o.WeightsOnly {
		s.state.Weights = loaded.Weights
		return nil
	}
	loaded.LossSum = s.state.LossSum // a checkpoint does not include what has accumulated for a report
	s.state = loaded
	s.state.Norm = -1 // no norm has been computed since
	return nil
}

func read(dir string) (st state, err error) {
	text, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		return st, err
	}
	if err := json.Unmarshal(text, &st); err != nil {
		return st, fmt.Errorf("%s: %w", stateFile, err)
	}
	if st.Micro < 0 || st.Updates < 0 {
		return st, errors.New(stateFile + ": negative counts")
	}
	return st, nil
}

func join(batch []int) string {
	text := make([]string, len(batch))
	for i, v := range batch {
		text[i] = strconv.Itoa(v)
	}
	return strings.Join(text, ",")
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }
