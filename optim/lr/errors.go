package lr

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// SettingError says which setting of a schedule is invalid, what was found and what was expected.
type SettingError struct {
	Schedule string // "OneCycleLR"
	Field    string // "PctStart"
	Value    any    // what was found
	Want     string // "a share of the run between 0 and 1"
}

func (e *SettingError) Error() string {
	return fmt.Sprintf("lr: %s.%s is %v: want %s", e.Schedule, e.Field, e.Value, e.Want)
}

// UnknownError says that [ByName] or [AdaptiveByName] was given an unknown name.
type UnknownError struct {
	What  string   // "schedule", or "argument of cosine"
	Name  string   // what was given
	Known []string // the known names, sorted
}

func (e *UnknownError) Error() string {
	known := "it takes none"
	if len(e.Known) > 0 {
		known = "known: " + strings.Join(e.Known, ", ")
	}
	if near := nearest(e.Name, e.Known); near != "" {
		known = fmt.Sprintf("did you mean %q? %s", near, known)
	}
	return fmt.Sprintf("lr: unknown %s %q; %s", e.What, e.Name, known)
}

// ArgumentError says that an argument of [ByName] or [AdaptiveByName] has a value that the
// schedule does not accept.
type ArgumentError struct {
	Schedule, Argument string // "cosine", "num_cycles"
	Value              any    // what was found; nil: none
	Want               string // "a number"
}

func (e *ArgumentError) Error() string {
	if e.Value == nil {
		return fmt.Sprintf("lr: %s has no %s: want %s", e.Schedule, e.Argument, e.Want)
	}
	return fmt.Sprintf("lr: %s was given %s = %v (%T): want %s", e.Schedule, e.Argument, e.Value, e.Value, e.Want)
}

// checks collects the first error in the settings of one schedule.
type checks struct {
	schedule string
	err      error
}

func (c *checks) that(ok bool, field string, value any, want string) {
	if !ok && c.err == nil {
		c.err = &SettingError{c.schedule, field, value, want}
	}
}

func (c *checks) warmup(warmup float64) {
	c.that(warmup >= 0 && warmup <= math.MaxInt32, "Warmup", warmup, "0, a share of the run below 1, or a number of "+
		"updates")
}

// The following methods check the most common requirements.
func (c *checks) notNegative(field string, v float64) {
	c.that(v >= 0 && !math.IsInf(v, 0), field, v, "a finite number that is not negative")
}

func (c *checks) finite(field string, v float64) {
	c.that(!math.IsNaN(v) && !math.IsInf(v, 0), field, v, "a finite number")
}

func (c *checks) count(field string, v int) {
	c.that(v >= 0, field, v, "0 or a positive number of updates")
}

func (c *checks) anneal(a Anneal) {
	c.that(a == "" || a == AnnealCos || a == AnnealLinear, "AnnealStrategy", string(a),
		`"cos", "linear", or "" for the first`)
}

func (c *checks) share(field string, v float64) {
	c.that(v >= 0 && v <= 1, field, v, "a number between 0 and 1")
}

// nearest returns a known name with a small edit distance to name, or else the first that contains
// it, or the empty string.
func nearest(name string, known []string) string {
	best, least := "", max(2, len(name)/3)+1
	for _, k := range known {
		if d := distance(strings.ToLower(name), strings.ToLower(k)); d < least {
			best, least = k, d
		}
	}
	if i := slices.IndexFunc(known,
		func(k string) bool { return len(name) > 3 && strings.Contains(k, name) }); best == "" && i >= 0 {
		return known[i]
	}
	return best
}

// distance returns the Levenshtein distance in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
