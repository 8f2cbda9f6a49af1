// Package spec reads the description of a recorded training run: spec.json of a conformance case,
// in the format of docs/conformance.md.
//
//	s, err := spec.Read("cases/hf/accum4_tail")
//	fmt.Println(s.Peer, s.Model.Kind, s.Args.Float("learning_rate", 5e-5))
//
// What all trainers have in common are fields of [Spec]. The arguments stay an [Object], since
// their names and defaults depend on the trainer: the code that replays the case takes them one by
// one, and arguments that are not taken make the case unsupported.
package spec

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Spec is one training run.
type Spec struct {
	Dir        string // the folder it was read from
	Name       string
	Peer       string // "hf", "accelerate", "course", ...
	Threads    int    // torch.set_num_threads
	Model      Model
	Init       Init
	Data       Data
	Args       *Object // never nil
	Metrics    []string
	HasMetrics bool   // the field is present, even if empty
	LossFunc   string // "ce_per_item" or empty
	Callbacks  []Callback
	Phases     []Phase
	RTol       *float64
	More       *Object // fields that only some trainers have: log_lr, optimizers, final
}

// Model describes the model to train.
type Model struct {
	Kind    string
	Options *Object  // the fields besides kind and freeze
	Freeze  []string // prefixes of the names of frozen parameters
}

// Init says where the initial weights come from. At most one of its fields is set; if none is, they
// are in init.safetensors.
type Init struct {
	Seed    *uint64 // torch.manual_seed, then the model is constructed
	ByPeer  bool    // "model_init": the trainer seeds and constructs the model
	Formula *Object // computed by a formula instead of a random generator
}

// Data describes the data sets.
type Data struct {
	Kind     string
	Trim     bool // rows are cut to their attention_mask, and batches padded
	Iterable bool // the training set is a stream without a length
	EvalSets []string
	Options  *Object // the recipe, and fields that only some kinds have
}

// Callback is a callback of the recorded run.
type Callback struct {
	Kind    string
	Options *Object
}

// Phase is one step of a case: training (which may resume a run), an evaluation or a prediction.
type Phase struct {
	Do              string
	StopAfterUpdate *int
	Resume          string // name of the checkpoint; empty: none
	ResumeNewest    bool   // resume: true
	SameTrainer     bool
	Args            *Object // override those of the case; nil: none
	Options         *Object // fields that only some trainers have
}

// CaseName returns the last two elements of a folder's path, such as "hf/accum4_tail".
func CaseName(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	return filepath.Base(filepath.Dir(dir)) + "/" + filepath.Base(dir)
}

// Read reads the spec.json in the folder of a case.
func Read(dir string) (*Spec, error) {
	path := filepath.Join(dir, "spec.json")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s.Dir = dir
	return s, nil
}

// Parse parses the text of a spec.json.
func Parse(text []byte) (*Spec, error) {
	o, err := ParseObject(text)
	if err != nil {
		return nil, err
	}
	s := &Spec{Name: o.String("name", ""), Peer: o.String("peer", ""), Threads: o.Int("threads", 1)}
	o.String("shows", "")
	o.Any("_note")
	s.Metrics, s.HasMetrics = o.Strings("metrics"), o.Has("metrics") && o.Any("metrics") != nil
	s.LossFunc, s.RTol = o.OneOf("loss_func", "", "ce_per_item"), o.FloatOrNil("rtol")
	if s.Args = o.Object("args"); s.Args == nil {
		s.Args = newObject("args", map[string]any{}, new(error))
	}
	model, data := o.required("model"), o.required("data")
	s.Model = Model{Kind: model.String("kind", ""), Freeze: model.Strings("freeze"), Options: model}
	s.Data.Options = data
	data.Take(&s.Data, "kind:Kind", "trim:Trim", "iterable:Iterable", "eval_sets:EvalSets")
	data.Any("make") // how the rows were made; they are in data.safetensors
	s.readInit(o)
	for _, c := range o.Objects("callbacks") {
		s.Callbacks = append(s.Callbacks, Callback{c.String("kind", ""), c})
	}
	s.readPhases(o)
	s.More = o
	if err := o.Err(); err != nil {
		return nil, err
	}
	return s, s.check()
}

// required takes a nested object that must be present.
func (o *Object) required(name string) *Object {
	if found := o.Object(name); found != nil {
		return found
	}
	o.Fail(name, "an object")
	return newObject(name, map[string]any{}, o.err)
}

func (s *Spec) readInit(o *Object) {
	switch v := o.Any("init").(type) {
	case nil:
	case string:
		if s.Init.ByPeer = v == "model_init"; !s.Init.ByPeer && v != "file" {
			*o.err = Unsupportedf("init is %q; known are file, model_init, {\"seed\": n} and {\"formula\": ...}", v)
		}
	case map[string]any:
		init := o.Object("init")
		if !init.Has("seed") {
			s.Init.Formula = init
			return
		}
		s.Init.Seed = new(uint64(init.Int("seed", 0)))
		if err := init.Done(); err != nil && o.Err() == nil {
			*o.err = err
		}
	default:
		o.Fail("init", "a string or an object")
	}
}

func (s *Spec) readPhases(o *Object) {
	if !o.Has("phases") {
		s.Phases = []Phase{{Do: "train", Options: newObject("phases[0]", map[string]any{}, o.err)}}
	}
	for _, p := range o.Objects("phases") {
		phase := Phase{Options: p}
		p.Take(&phase, "do:Do", "stop_after_update:StopAfterUpdate", "same_trainer:SameTrainer", "args:Args")
		switch r := p.Any("resume").(type) {
		case nil:
		case bool:
			phase.ResumeNewest = r
		case string:
			phase.Resume = r
		default:
			p.Fail("resume", "true or the name of a checkpoint")
		}
		s.Phases = append(s.Phases, phase)
	}
}

// check refuses specifications that are invalid for any trainer.
func (s *Spec) check() error {
	switch {
	case s.Peer == "":
		return fmt.Errorf("peer is missing: the name of the trainer that was recorded")
	case s.Model.Kind == "":
		return fmt.Errorf("model.kind is missing")
	case s.Threads < 1 || s.Threads > 1024:
		return fmt.Errorf("threads is %d, want at least 1", s.Threads)
	case len(s.Phases) == 0:
		return fmt.Errorf("phases is empty, want at least one")
	}
	for i, p := range s.Phases {
		if !slices.Contains([]string{"train", "evaluate", "predict"}, p.Do) {
			return Unsupportedf("phases[%d].do is %q; known are train, evaluate and predict", i, p.Do)
		}
	}
	return nil
}

// PhaseArgs returns the arguments of a phase: those of the case, overridden by the phase's own.
func (s *Spec) PhaseArgs(p Phase) *Object {
	return s.Args.Merge(p.Args)
}

// Tolerance returns the allowed relative difference of the case's numbers: rtol, or the default for
// its precision.
func (s *Spec) Tolerance() float64 {
	if s.RTol != nil {
		return *s.RTol
	}
	return s.DeviceTolerance()
}

// The default tolerances, also for another device than that of the recording.
const (
	ToleranceFP32 = 1e-4
	ToleranceBF16 = 2e-2
)

// DeviceTolerance returns the allowed relative difference of the case's numbers on another device
// than that of the recording.
func (s *Spec) DeviceTolerance() float64 {
	a := s.Args.fields
	if a["bf16"] == true || a["bf16_full_eval"] == true || a["mixed_precision"] == "bf16" ||
		a["mixed_precision"] == "fp16" {
		return ToleranceBF16
	}
	return ToleranceFP32
}

// DrawsRandom reports whether the model draws random numbers in training.
func (s *Spec) DrawsRandom() bool {
	positive := func(v any) bool {
		p, ok := number(v)
		return ok && p > 0
	}
	dropouts, above := 0, false
	look := func(fields map[string]any) {
		for name, p := range fields {
			if strings.Contains(name, "dropout") {
				dropouts, above = dropouts+1, above || positive(p)
			}
		}
	}
	look(s.Model.Options.fields)
	if config, ok := s.Model.Options.fields["config"].(map[string]any); ok {
		look(config)
	}
	// BERT has two dropout probabilities, whose default is 0.1.
	return above || positive(s.Args.fields["neftune_noise_alpha"]) || s.Model.Kind == "bert" && dropouts < 2
}
