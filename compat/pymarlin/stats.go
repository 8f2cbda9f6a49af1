package pymarlin

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/compat/internal/loops"
	"github.com/gotrainer/gotrainer/internal/torchsave"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// StatInitArguments configure [Stats]. The zero value has PyMarlin's defaults.
type StatInitArguments struct {
	LogSteps          int  `config:"log_steps"`           // write the frequent values every LogSteps updates; zero: 1
	UpdateSystemStats bool `config:"update_system_stats"` // include memory and processor in the frequent values
	LogModelSteps     int  `config:"log_model_steps"`     // LogModel writes every LogModelSteps updates; zero: 1000

	// ExcludeList is a regular expression for the parameters that LogModel skips. Empty: biases,
	// LayerNorm, and all numbered layers except 0, 11 and 23, as in PyMarlin.
	ExcludeList string `config:"exclude_list"`
}

// defaultExclude is equivalent to PyMarlin's
// bias|LayerNorm|layer\.[3-9]|layer\.1(?!1)|layer\.2(?!3), without lookahead, which Go does not
// have.
const defaultExclude = `bias|LayerNorm|layer\.[3-9]|layer\.1([^1]|$)|layer\.2([^3]|$)`

func (a StatInitArguments) withDefaults() StatInitArguments {
	a.LogSteps, a.LogModelSteps = cmp.Or(a.LogSteps, 1), cmp.Or(a.LogModelSteps, 1000)
	a.ExcludeList = cmp.Or(a.ExcludeList, defaultExclude)
	return a
}

// Stats collect values for the writers: BasicStats. Frequent values are written every LogSteps
// updates, the others at the end of each epoch and validation; values are dropped once written. In
// Python they are one global object; here each trainer has its own, see [StatsHolder].
type Stats struct {
	args    StatInitArguments
	exclude *regexp.Regexp
	writers []Writer
	system  systemStats

	short, long interval
}

// interval holds the values that are written together: numbers, groups of numbers, then histograms.
type interval struct{ scalars, multi, histograms entries }

// entries behaves like a dict in Python: it keeps the order of insertion. Values are float64,
// map[string]float64, []float64, and tensors with one element, which are read only when they are
// written, to avoid waiting for the device.
type entries []entry

type entry struct {
	key   string
	value any
}

func (e *entries) set(key string, v any) {
	i := slices.IndexFunc(*e, func(x entry) bool { return x.key == key })
	if i < 0 {
		*e = append(*e, entry{key, v})
		return
	}
	torchsave.EachTensor((*e)[i].value, torch.Tensor.Free) // replaced before it was written
	(*e)[i].value = v
}

// NewStats makes stats without writers. Invalid settings are reported by Rebuild, which New calls.
func NewStats(args StatInitArguments) *Stats {
	return &Stats{args: args.withDefaults(), exclude: regexp.MustCompile(defaultExclude)}
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

func (s *Stats) interval(frequent bool) *interval {
	if frequent {
		return &s.short
	}
	return &s.long
}

// Update sets a number.
func (s *Stats) Update(key string, value float64, frequent bool) {
	s.interval(frequent).scalars.set(key, value)
}

// UpdateTensor sets a number given as a tensor of one element. The stats keep a copy, which is
// read when it is written.
func (s *Stats) UpdateTensor(key string, value torch.Tensor, frequent bool) {
	s.interval(frequent).scalars.set(key, value.Detach().Clone().Keep())
}

// UpdateMulti sets several numbers that belong together.
func (s *Stats) UpdateMulti(key string, values map[string]float64, frequent bool) {
	s.interval(frequent).multi.set(key, values)
}

// UpdateHistogram sets values whose distribution is written with the infrequent values; with
// extend they are added to the existing ones.
func (s *Stats) UpdateHistogram(key string, values []float64, extend bool) {
	var before []float64
	for _, e := range s.long.histograms {
		if extend && e.key == key {
			before, _ = e.value.([]float64)
		}
	}
	s.long.histograms.set(key, slices.Concat(before, values))
}

// LogStats writes the frequent values if step is a multiple of LogSteps, or if forced.
func (s *Stats) LogStats(step int, force bool) error {
	if step%s.args.LogSteps != 0 && !force {
		return nil
	}
	if s.args.UpdateSystemStats {
		s.system.update(s)
	}
	return s.short.write(s.writers, step)
}

// LogLongStats writes the infrequent values.
func (s *Stats) LogLongStats(step int) error { return s.long.write(s.writers, step) }

// write writes all values and removes them.
func (i *interval) write(writers []Writer, step int) error {
	defer i.reset()
	for _, w := range writers {
		for _, e := range slices.Concat(i.scalars, i.multi, i.histograms) {
			if err := e.log(w, step); err != nil {
				return fmt.Errorf("pymarlin: stat %s: %w", e.key, err)
			}
		}
	}
	return nil
}

func (e entry) log(w Writer, step int) error {
	switch v := e.value.(type) {
	case float64:
		return w.LogScalar(e.key, v, step)
	case torch.Tensor:
		var number float64
		if err := torch.Try(func() { number = v.Item() }); err != nil {
			return err
		}
		return w.LogScalar(e.key, number, step)
	case map[string]float64:
		return w.LogMulti(e.key, v, step)
	case []float64:
		if h, ok := w.(HistogramWriter); ok {
			return h.LogHistogram(e.key, v, step)
		}
	}
	return nil
}

func (i *interval) reset() {
	for _, e := range i.scalars {
		torchsave.EachTensor(e.value, torch.Tensor.Free)
	}
	*i = interval{}
}

// state returns the values that have not been written, as lists of names with values.
func (s *Stats) state() State {
	return State{"short": slices.Concat(s.short.scalars, s.short.multi).state(),
		"long":       slices.Concat(s.long.scalars, s.long.multi).state(),
		"histograms": s.long.histograms.state()}
}

func (e entries) state() []any {
	list := make([]any, len(e))
	for i, x := range e {
		value := x.value
		switch v := value.(type) {
		case torch.Tensor:
			value = v.Item()
		case map[string]float64:
			values := State{}
			for name, x := range v {
				values[name] = x
			}
			value = values
		case []float64:
			value = toAny(v)
		}
		list[i] = []any{x.key, value}
	}
	return list
}

// load restores what state returned; nil changes nothing.
func (s *Stats) load(saved State) error {
	if saved == nil {
		return nil
	}
	s.Reset()
	for _, part := range []string{"short", "long", "histograms"} {
		list, ok := listOf[[]any](saved[part])
		for _, pair := range list {
			ok = ok && len(pair) == 2 && s.put(part == "short", pair[0], pair[1])
		}
		if !ok {
			return fmt.Errorf("%w: %s: want in %s a list of names with their values, found %v", errNotLoaded, statsKey,
				part, saved[part])
		}
	}
	return nil
}

// put sets the value of one key from a state.
func (s *Stats) put(frequent bool, key, value any) bool {
	name, ok := key.(string)
	switch v := value.(type) {
	case float64:
		s.Update(name, v, frequent)
	case State:
		values := map[string]float64{}
		for k, x := range v {
			var number bool
			values[k], number = x.(float64)
			ok = ok && number
		}
		s.UpdateMulti(name, values, frequent)
	case []any:
		values, numbers := listOf[float64](v)
		s.UpdateHistogram(name, values, false)
		return ok && numbers
	default:
		return false
	}
	return ok
}

// Reset drops the values that have not been written.
func (s *Stats) Reset() {
	s.short.reset()
	s.long.reset()
}

// LogArgs passes settings to the writers that record them.
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

// LogModel writes the norms of weights and gradients, and their histograms, for the parameters
// that ExcludeList does not exclude, if step is a multiple of LogModelSteps, or if forced.
// Gradients are divided by gradScale.
func (s *Stats) LogModel(step int, model any, force bool, gradScale float64) error {
	if step%s.args.LogModelSteps != 0 && !force {
		return nil
	}
	return loops.Scoped(func() error {
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

// Flush flushes the writers. Train calls it at its end.
func (s *Stats) Flush() (err error) {
	for _, w := range s.writers {
		err = errors.Join(err, w.Flush())
	}
	return err
}

// Finish closes the writers, in the order in which they were given.
func (s *Stats) Finish() error { return closeWriters(s.writers) }

// systemStats reads the load of the machine from /proc. On systems without /proc it adds nothing.
type systemStats struct {
	busy, total float64 // processor time at the last reading
}

// update adds the numbers of PyMarlin's update_system_stats. Processor usage is measured since the
// last call, whereas PyMarlin sleeps for a second to measure it.
func (y *systemStats) update(s *Stats) {
	all, available := numbersOf("/proc/meminfo", "MemTotal:"), numbersOf("/proc/meminfo", "MemAvailable:")
	if len(all) == 1 && len(available) == 1 { // in kB
		s.Update("system/RAM/memory_used_pct", 100*(all[0]-available[0])/all[0], true)
		if pages := numbersOf("/proc/self/statm", ""); len(pages) > 1 {
			s.Update("system/RAM/memory_elr_pct", 100*pages[1]*float64(os.Getpagesize())/(all[0]*1024), true)
		}
	}
	times := numbersOf("/proc/stat", "cpu ") // user, nice, system, idle, iowait, irq, softirq, steal, ...
	if len(times) < 8 {
		return
	}
	total := 0.0
	for _, t := range times[:8] {
		total += t
	}
	busy := total - times[3] - times[4]
	if total > y.total {
		s.Update("system/CPU/pct", 100*(busy-y.busy)/(total-y.total), true)
	}
	y.busy, y.total = busy, total
}

// numbersOf returns the numbers in the first line of a file that begins with a text, or none.
func numbersOf(path, begin string) (numbers []float64) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		rest, ok := strings.CutPrefix(line, begin)
		if !ok {
			continue
		}
		for word := range strings.FieldsSeq(rest) {
			if v, err := strconv.ParseFloat(word, 64); err == nil {
				numbers = append(numbers, v)
			}
		}
		return numbers
	}
	return nil
}
