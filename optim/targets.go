package optim

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dlclark/regexp2"

	"github.com/gotrainer/gotrainer/torch"
)

// Targets say which modules have gradients of low rank: optim_target_modules of Hugging Face's
// Trainer, which is a string or a list of strings.
type Targets struct {
	// Pattern is a Python regular expression for the whole name of a module, or [AllLinear]. It
	// corresponds to the string.
	Pattern string
	// Parts are parts of names, or Python regular expressions for whole names. They correspond to
	// the list. [AllLinear] among them has its usual meaning, whereas in Python it would be a part
	// of a name.
	Parts []string
}

// AllLinear is the target that matches every linear layer. It may also be written with "_".
const AllLinear = "all-linear"

// Module describes a module of a model, for [LowRankGroups].
type Module struct {
	Name   string
	Linear bool // is a linear layer: only the weights of those can have a low rank
}

// LowRankGroups divides parameters as Hugging Face's Trainer does for GaLore and APOLLO. The
// weight matrices of the linear layers that match the targets form the second group, whose
// gradients are projected. All other parameters form the first.
//
// ignored are the names of modules that match but are not linear layers, which the Python Trainer
// warns about. Modules matched by a regular expression are not included, since it may well be
// broad. It is an error if no linear layer matches or if an expression is invalid.
func LowRankGroups(params []torch.Named, modules []Module, targets Targets) (groups []Group, ignored []string,
	err error) {
	match, err := targets.matcher()
	if err != nil {
		return nil, nil, err
	}
	low := map[string]bool{}
	for _, m := range modules {
		found, byExpression, err := match(m.Name)
		switch {
		case err != nil:
			return nil, nil, err
		case m.Linear:
			low[m.Name+".weight"] = found
		case found && !byExpression:
			ignored = append(ignored, m.Name)
		}
	}
	groups = []Group{{Name: "full rank"}, {Name: "low rank", LowRank: true}}
	for _, p := range params {
		g := &groups[0]
		if low[p.Name] {
			g = &groups[1]
		}
		g.Params = append(g.Params, p)
	}
	if len(groups[1].Params) == 0 {
		return nil, nil,
			errorf(ErrParam, "no linear layer matches %s; want a regular expression of a module's whole "+
				"name, a list of parts of names, or %q", targets, AllLinear)
	}
	return groups, ignored, nil
}

// String returns the targets as Python would write them.
func (t Targets) String() string {
	if t.Pattern != "" {
		return `"` + t.Pattern + `"`
	}
	return `["` + strings.Join(t.Parts, `", "`) + `"]`
}

func allLinear(target string) bool { return strings.ReplaceAll(target, "_", "-") == AllLinear }

// matcher is check_target_module_exists of transformers/trainer_utils.py. The function that it
// returns reports whether a name matches, and whether only as a regular expression.
func (t Targets) matcher() (func(name string) (found, byExpression bool, err error), error) {
	list := t.Parts
	switch {
	case t.Pattern != "" && len(list) > 0:
		return nil, errorf(ErrOption, "Targets has both Pattern %q and Parts %q; want one of them", t.Pattern, list)
	case t.Pattern != "":
		list = []string{t.Pattern}
	case len(list) == 0:
		return nil, errorf(ErrOption, "there are no targets; want part of a module's name, a regular expression of "+
			"all "+
			"of it, or %q", AllLinear)
	}
	var expressions []*expression
	for _, target := range list {
		switch {
		case target == "":
			return nil, errorf(ErrOption, "a target is empty; want part of a module's name, a regular expression "+
				"or %q",
				AllLinear)
		case allLinear(target):
			return func(string) (bool, bool, error) { return true, true, nil }, nil
		}
		e, err := compile(target)
		if err != nil {
			return nil, err
		}
		expressions = append(expressions, e)
	}
	return func(name string) (bool, bool, error) {
		if t.Pattern == "" && slices.ContainsFunc(list, func(part string) bool {
			return strings.Contains(name, part)
		}) {
			return true, false, nil
		}
		for _, e := range expressions {
			if found, err := e.matches(name); found || err != nil {
				return found, name != t.Pattern, err
			}
		}
		return false, false, nil
	}, nil
}

// expression is a Python regular expression that must match a whole name: re.fullmatch.
type expression struct {
	text     string
	plain    *regexp.Regexp
	extended *regexp2.Regexp // for features that package regexp lacks, such as lookahead and backreferences
}

// reference is a backreference to a named group in Python's syntax.
var reference = regexp.MustCompile(`\(\?P=(\w+)\)`)

// compile compiles a Python regular expression.
func compile(text string) (*expression, error) {
	// Compiled on its own first, so that an unbalanced bracket cannot close the group added around
	// it.
	if _, err := regexp.Compile(text); err == nil {
		return &expression{text: text, plain: regexp.MustCompile("^(?:" + text + ")$")}, nil
	}
	python := reference.ReplaceAllString(text, `\k<$1>`)
	python = strings.NewReplacer("(?P<", "(?<", `\Z`, `\z`).Replace(python)
	if _, err := regexp2.Compile(python, regexp2.None); err != nil {
		return nil, errorf(ErrOption, "target %q is no regular expression: %v", text, err)
	}
	extended, err := regexp2.Compile(`\A(?:`+python+`)\z`, regexp2.None)
	if err != nil {
		return nil, errorf(ErrOption, "target %q is no regular expression of a whole name: %v", text, err)
	}
	extended.MatchTimeout = time.Second
	return &expression{text: text, extended: extended}, nil
}

func (e *expression) matches(name string) (bool, error) {
	if e.plain != nil {
		return e.plain.MatchString(name), nil
	}
	found, err := e.extended.MatchString(name)
	if err != nil {
		return false, errorf(ErrOption, "target %q, compared with module %q: %v; want an expression that is faster "+
			"to "+
			"decide", e.text, name, err)
	}
	return found, nil
}
