package pretrained

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// LoadOptions configures [Load].
type LoadOptions struct {
	// Prefix is the prefix of the encoder's tensor names in a model with a head, such as "bert.".
	// It is removed or added if model and files differ in it.
	Prefix string

	// Rename maps the names that some files use to the model's; nil: there are none.
	Rename func(name string) string

	// Fresh reports which tensors may be missing, or have another shape, because a head is new:
	// they are drawn. Any other such tensor makes the load fail.
	Fresh func(name string) bool
	// InitMissing draws everything that is missing, as transformers does with only a warning.
	InitMissing bool
	// InitMismatched draws tensors whose shapes differ: ignore_mismatched_sizes. Without it they
	// make the load fail.
	InitMismatched bool

	// Init draws the tensors with the given names. It is called only if there are any, and must
	// then be set.
	Init func(missing map[string]bool)

	// Prepare may replace tensors of the model to match those in the files; rename maps their
	// names to those of the model. It may be nil.
	Prepare func(w *Weights, rename func(name string) string) error
	// Take is [nn.LoadOptions].Take.
	Take func(name string, read func() (torch.Tensor, error)) (taken bool, err error)
}

// renames are transformers' replacements for names in the first releases, which come from
// TensorFlow.
var renames = strings.NewReplacer("LayerNorm.gamma", "LayerNorm.weight", "LayerNorm.beta", "LayerNorm.bias")

// Load loads weights into a model and draws those that are missing, from the default generator and
// in transformers' order. After an error the model must not be used; the report, if not nil, says
// what did not match.
func Load(model any, w *Weights, o LoadOptions) (*Report, error) {
	own := stateNames(model)
	r := &Report{Renamed: map[string]string{}}
	rename := renamer(own, w.Contents(), o)
	if o.Prepare != nil {
		if err := o.Prepare(w, rename); err != nil {
			return r, fmt.Errorf("pretrained: %s: %w", w.path, err)
		}
		own = stateNames(model)
		rename = renamer(own, w.Contents(), o)
	}
	loaded, err := nn.LoadStateDict(model, w, nn.LoadOptions{
		IgnoreMissing: true, IgnoreUnexpected: true, IgnoreMismatched: true, Rename: rename, Take: o.Take,
	})
	if loaded != nil {
		r.Report = *loaded
	}
	if err != nil {
		return r, fmt.Errorf("pretrained: %s: %w", w.path, err)
	}
	for _, t := range w.Contents() {
		if name := rename(t.Name); name != t.Name && slices.Contains(r.Loaded, name) {
			r.Renamed[t.Name] = name
		}
	}
	if err := r.reject(w.path, o); err != nil {
		return r, err
	}
	if err := sameTied(model, w, rename); err != nil {
		return r, fmt.Errorf("pretrained: %s: %w", w.path, err)
	}
	missing := map[string]bool{}
	for _, t := range r.Missing {
		missing[t.Name] = true
	}
	for _, t := range r.Mismatched {
		missing[t.Name] = true
	}
	wholes(model, missing)
	for _, name := range own {
		if missing[name] {
			r.Initialized = append(r.Initialized, name)
		}
	}
	if len(missing) == 0 {
		return r, nil
	}
	if o.Init == nil {
		return r, fmt.Errorf("pretrained: %s: %q are to be drawn; set LoadOptions.Init, which draws them", w.path,
			r.Initialized)
	}
	err = torch.Try(func() { o.Init(missing) })
	return r, err
}

// stateNames returns the names of a model's tensors in memory and, if they differ, in files.
func stateNames(model any) (names []string) {
	listed := map[string]bool{}
	torch.Scope(func() { // frees the parts that files have
		for _, t := range append(nn.StateDict(model), nn.FileState(model)...) {
			if !listed[t.Name] {
				listed[t.Name] = true
				names = append(names, t.Name)
			}
		}
	})
	return names
}

// wholes adds the tensors of which missing has a part, since they are drawn as a whole.
func wholes(model any, missing map[string]bool) {
	f, ok := model.(nn.FileForm)
	if !ok {
		return
	}
	torch.Scope(func() {
		for _, t := range nn.StateDict(model) {
			for _, part := range f.InFiles([]torch.Named{t}) {
				if missing[part.Name] {
					delete(missing, part.Name)
					missing[t.Name] = true
				}
			}
		}
	})
}

// sameTied returns an error if a tensor that has two names in the model, such as the token
// embedding that is also the weight of the output layer, has different values under these names in
// the files.
func sameTied(model any, w *Weights, rename func(string) string) error {
	files := map[string]string{} // names in the files, by names in the model
	for _, t := range w.Contents() {
		files[rename(t.Name)] = t.Name
	}
	first := map[torch.Tensor]string{}
	for _, t := range nn.StateDict(model) {
		name, found := files[t.Name]
		if !found {
			continue
		}
		other, tied := first[t.Tensor]
		if !tied {
			first[t.Tensor] = name
			continue
		}
		var same bool
		same, err := w.equal(other, name)
		if err != nil {
			return err
		}
		if !same {
			return fmt.Errorf("the tensors %s and %s differ, but are one in this model; a model with an output layer "+
				"of its "+
				"own (tie_word_embeddings: false) cannot be loaded", other, name)
		}
	}
	return nil
}

// renamer returns the function that maps names in the files to names in the model.
func renamer(own []string, files []nn.TensorInfo, o LoadOptions) func(string) string {
	prefix := o.Prefix
	begins := func(name string) bool { return strings.HasPrefix(name, prefix) }
	ownHas := slices.ContainsFunc(own, begins)
	filesHave := slices.ContainsFunc(files, func(t nn.TensorInfo) bool { return begins(t.Name) })
	known := map[string]bool{}
	for _, name := range own {
		known[name] = true
	}
	return func(name string) string {
		renamed := renames.Replace(name)
		if o.Rename != nil {
			renamed = o.Rename(renamed)
		}
		switch {
		case prefix == "" || ownHas == filesHave:
		case ownHas && known[prefix+renamed]:
			return prefix + renamed
		case filesHave && begins(renamed) && known[renamed[len(prefix):]]:
			return renamed[len(prefix):]
		}
		if !known[renamed] {
			return name // reported as unexpected, under its name in the file
		}
		return renamed
	}
}

// reject returns an error if the load would leave a model with unexpected random weights.
func (r *Report) reject(path string, o LoadOptions) error {
	if len(r.Loaded) == 0 {
		return fmt.Errorf("pretrained: %s has no tensor that fits the model: is it a model of another kind?\n%s", path,
			r)
	}
	fresh := func(name string) bool { return o.Fresh != nil && o.Fresh(name) }
	for _, t := range r.Mismatched {
		if !o.InitMismatched {
			return fmt.Errorf("pretrained: %s: tensor %s has shape %v, but the model wants %v; the option "+
				"InitMismatched draws such tensors at random", path, t.Name, t.Found, t.Want)
		}
	}
	for _, t := range r.Missing {
		if !fresh(t.Name) && !o.InitMissing {
			return fmt.Errorf("pretrained: %s has no tensor %s, of shape %v, and training from a random one is "+
				"hardly meant; the option InitMissing draws such tensors\n%s", path, t.Name, t.Shape, r)
		}
	}
	return nil
}
