package pymarlin

import (
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"

	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// StatInitArguments configure [Stats]. The zero value has PyMarlin's defaults.
type StatInitArguments struct {
	LogSteps          int  `config:"log_steps"`           // write the frequent values every so many updates; zero: 1
	UpdateSystemStats bool `config:"update_system_stats"` // memory and processor among the frequent values
	LogModelSteps     int  `config:"log_model_steps"`     // LogModel writes every so many updates; zero: 1000

	// ExcludeList is a regular expression of the parameters that LogModel leaves out. Empty:
	// biases, LayerNorm, and of numbered layers all but 0, 11 and 23, as in PyMarlin.
	ExcludeList string `config:"exclude_list"`
}

// defaultExclude is PyMarlin's bias|LayerNorm|layer\.[3-9]|layer\.1(?!1)|layer\.2(?!3) without its
// lookahead.
const defaultExclude = `bias|LayerNorm|layer\.[3-9]|layer\.1([^1]|$)|layer\.2([^3]|$)`

func (a StatInitArguments) withDefaults() StatInitArguments {
	if a.LogSteps == 0 {
		a.LogSteps = 1
	}
	if a.LogModelSteps == 0 {
		a.LogModelSteps = 1000
	}
	if a.ExcludeList == "" {
		a.ExcludeList = defaultExclude
	}
	return a
}

// Stats gather values for the writers: BasicStats. Frequent ones are written every LogSteps
// updates, the others at the end of each epoch and validation; what was written is forgotten. In
// Python they are one global object; here each trainer has its own, see [StatsHolder].
type Stats struct {
	args    StatInitArguments
	exclude *regexp.Regexp
	writers []Writer
	logger  *slog.Logger
	system  systemStats

	short, long collected
	histograms  keyed[[]float64]
}

// collected are the numbers of one interval.
type collected struct {
	scalars keyed[scalar]
	multi   keyed[map[string]float64]
}

// scalar is a number, or a tensor that becomes one when it is written, so that nobody waits for the
// device before.
type scalar struct {
	number float64
	tensor torch.Tensor
}

func (s scalar) value() float64 {
	if s.tensor.Defined() {
		return s.tensor.Item()
	}
	return s.number
}

// keyed is a dict of Python: it keeps the order in which keys came.
type keyed[V any] struct {
	keys   []string
	values map[string]V
}

func (k *keyed[V]) set(key string, v V) {
	if k.values == nil {
		k.values = map[string]V{}
	}
	if _, there := k.values[key]; !there {
		k.keys = append(k.keys, key)
	}
	k.values[key] = v
}

// NewStats makes stats without writers. Settings that cannot be show in Rebuild, which New calls.
func NewStats(args StatInitArguments) *Stats {
	return &Stats{args: args.withDefaults(), exclude: regexp.MustCompile(defaultExclude), logger: slog.Default()}
}

// Rebuild changes settings and writers.
func (s *Stats) Rebuild(args StatInitArguments, writers []Writer) error {
	args = args.withDefaults()
	exclude, err := regexp.Compile(args.ExcludeList)
	if err != nil {
		return argumentf("StatsArgs.ExcludeList: %v", err)
	}
	if args.LogSteps < 1 || args.LogModelSteps < 1 {
		return argumentf("StatsArgs.LogSteps is %d and LogModelSteps %d; want at least 1, or 0 for the default",
			args.LogSteps, args.LogModelSteps)
	}
	s.args, s.exclude, s.writers = args, exclude, writers
	return nil
}

func (s *Stats) interval(frequent bool) *collected {
	if frequent {
		return &s.short
	}
	return &s.long
}

// Update sets a number.
func (s *Stats) Update(key string, value float64, frequent bool) {
	s.setScalar(key, scalar{number: value}, frequent)
}

// UpdateTensor sets a number that is still a tensor, of one element; it is read when it is written.
// The stats keep a copy.
func (s *Stats) UpdateTensor(key string, value torch.Tensor, frequent bool) {
	s.setScalar(key, scalar{tensor: value.Detach().Clone().Keep()}, frequent)
}

func (s *Stats) setScalar(key string, v scalar, frequent bool) {
	scalars := &s.interval(frequent).scalars
	scalars.values[key].tensor.Free() // of a value that nobody will see
	scalars.set(key, v)
}

// UpdateMulti sets several numbers that belong together.
func (s *Stats) UpdateMulti(key string, values map[string]float64, frequent bool) {
	s.interval(frequent).multi.set(key, values)
}

// UpdateHistogram sets values whose distribution is written with the numbers that are not frequent;
// with extend they are added to those there are.
func (s *Stats) UpdateHistogram(key string, values []float64, extend bool) {
	if extend {
		values = append(slices.Clone(s.histograms.values[key]), values...)
	}
	s.histograms.set(key, slices.Clone(values))
}

// LogStats writes the frequent values if step is a multiple of LogSteps, or if it is forced.
func (s *Stats) LogStats(step int, force bool) error {
	if step%s.args.LogSteps != 0 && !force {
		return nil
	}
	if s.args.UpdateSystemStats {
		s.system.update(s)
	}
	defer s.short.reset()
	for _, w := range s.writers {
		if err := s.short.write(w, step); err != nil {
			return err
		}
	}
	return nil
}

// LogLongStats writes the values that are not frequent.
func (s *Stats) LogLongStats(step int) error {
	defer func() {
		s.long.reset()
		s.histograms = keyed[[]float64]{}
	}()
	for _, w := range s.writers {
		if err := s.long.write(w, step); err != nil {
			return err
		}
		if histograms, ok := w.(HistogramWriter); ok {
			for _, key := range s.histograms.keys {
				if err := histograms.LogHistogram(key, s.histograms.values[key], step); err != nil {
					return fmt.Errorf("pymarlin: histogram %s: %w", key, err)
				}
			}
		}
	}
	return nil
}

func (c *collected) write(w Writer, step int) error {
	for _, key := range c.scalars.keys {
		var value float64
		s := c.scalars.values[key]
		if err := torch.Try(func() { value = s.value() }); err != nil {
			return fmt.Errorf("pymarlin: stat %s: %w", key, err)
		}
		if err := w.LogScalar(key, value, step); err != nil {
			return fmt.Errorf("pymarlin: stat %s: %w", key, err)
		}
	}
	for _, key := range c.multi.keys {
		if err := w.LogMulti(key, c.multi.values[key], step); err != nil {
			return fmt.Errorf("pymarlin: stat %s: %w", key, err)
		}
	}
	return nil
}

func (c *collected) reset() {
	for _, s := range c.scalars.values {
		s.tensor.Free()
	}
	*c = collected{}
}

// state is what has not been written.
func (s *Stats) state() State {
	histograms := []any{}
	for _, key := range s.histograms.keys {
		histograms = append(histograms, []any{key, listOf(s.histograms.values[key])})
	}
	return State{"short": s.short.state(), "long": s.long.state(), "histograms": histograms}
}

func (c *collected) state() []any {
	list := []any{}
	for _, key := range c.scalars.keys {
		list = append(list, []any{key, c.scalars.values[key].value()})
	}
	for _, key := range c.multi.keys {
		values := State{}
		for name, v := range c.multi.values[key] {
			values[name] = v
		}
		list = append(list, []any{key, values})
	}
	return list
}

func listOf(values []float64) []any {
	list := make([]any, len(values))
	for i, v := range values {
		list[i] = v
	}
	return list
}

// load continues from what state returned; nil changes nothing.
func (s *Stats) load(saved State) error {
	if saved == nil {
		return nil
	}
	s.Reset()
	for _, part := range []string{"short", "long", "histograms"} {
		list, ok := saved[part].([]any)
		for _, entry := range list {
			pair, _ := entry.([]any)
			ok = ok && len(pair) == 2 && s.put(part == "short", pair[0], pair[1])
		}
		if !ok {
			return fmt.Errorf("%w: %s: want in %s a list of names with their values, found %v", errNotLoaded, statsKey,
				part, saved[part])
		}
	}
	return nil
}

// put sets what state has of a key.
func (s *Stats) put(frequent bool, key, value any) bool {
	name, ok := key.(string)
	switch v := value.(type) {
	case float64:
		s.Update(name, v, frequent)
	case State:
		values := map[string]float64{}
		for k, x := range v {
			f, isNumber := x.(float64)
			values[k], ok = f, ok && isNumber
		}
		s.UpdateMulti(name, values, frequent)
	case []any:
		values := make([]float64, len(v))
		for i, x := range v {
			f, isNumber := x.(float64)
			values[i], ok = f, ok && isNumber
		}
		s.UpdateHistogram(name, values, false)
	default:
		return false
	}
	return ok
}

// Reset forgets what has not been written.
func (s *Stats) Reset() {
	s.short.reset()
	s.long.reset()
	s.histograms = keyed[[]float64]{}
}

// LogArgs hands settings to the writers that keep them.
func (s *Stats) LogArgs(args map[string]string) error {
	for _, w := range s.writers {
		if w, ok := w.(ArgsWriter); ok {
			if err := w.LogArgs(args); err != nil {
				return fmt.Errorf("pymarlin: args: %w", err)
			}
		}
	}
	return nil
}

// LogModel writes the norms of weights and gradients of the parameters that ExcludeList lets
// through, and their histograms, if step is a multiple of LogModelSteps, or if it is forced.
// Gradients are divided by gradScale.
func (s *Stats) LogModel(step int, model any, force bool, gradScale float64) error {
	if step%s.args.LogModelSteps != 0 && !force {
		return nil
	}
	return scoped(func() error {
		for _, p := range nn.Params(modelOf(model)) {
			if s.exclude.MatchString(p.Name) {
				continue
			}
			weights := p.Tensor.Detach()
			var gradients torch.Tensor
			if g := p.Tensor.Grad(); g.Defined() {
				gradients = g.Detach().DivScalar(gradScale)
			}
			for _, w := range s.writers {
				if w, ok := w.(ModelWriter); ok {
					if err := w.LogModel(p.Name, weights, gradients, step); err != nil {
						return fmt.Errorf("pymarlin: model: %w", err)
					}
				}
			}
		}
		return nil
	})
}

// Flush has the writers hand over what they hold. Train does it at its end.
func (s *Stats) Flush() error {
	var errs []error
	for _, w := range s.writers {
		errs = append(errs, w.Flush())
	}
	return errors.Join(errs...)
}

// Finish closes the writers, in the order in which they were given.
func (s *Stats) Finish() error { return closeWriters(s.writers) }
