package lora

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/internal/optional"
)

// AllLinear, alone in TargetModules, stands for every linear layer except those of the head.
const AllLinear = "all-linear"

// Bias says which biases are trained in addition to the updates.
type Bias string

// The choices of bias.
const (
	NoBias   Bias = "none"      // the default
	AllBias  Bias = "all"       // those of all layers of the model
	LoRABias Bias = "lora_only" // those of the layers with an update
)

// Init says how updates are initialised.
type Init string

// The ways to draw A. B is zero, except with InitRandom.
const (
	InitKaiming  Init = ""         // like linear layers: init_lora_weights=True
	InitGaussian Init = "gaussian" // normal, with a standard deviation of 1/R
	InitRandom   Init = "random"   // A and B like linear layers, for tests: init_lora_weights=False
)

// Config is LoraConfig. Zero fields have peft's defaults.
type Config struct {
	R         int64   // the rank of the updates; 0 means 8
	Alpha     float64 // lora_alpha: updates are multiplied by Alpha/R; 0 means 8
	UseRSLoRA bool    // use_rslora: multiply them by Alpha/sqrt(R) instead
	UseDoRA   bool    // use_dora: also train the norm of each row of the weight; slower
	Dropout   float64 // lora_dropout, for the input of an update
	Bias      Bias    // empty means NoBias

	// TargetModules are the layers that get updates, by their names or the ends of their names,
	// such as "q_proj"; [AllLinear], alone, means all. TargetPattern, used instead, is a regular
	// expression that matches whole names. One of the two is required for a model that is not from
	// package auto.
	TargetModules []string
	TargetPattern string
	// ExcludeModules and ExcludePattern exclude layers in the same way.
	ExcludeModules []string
	ExcludePattern string
	// LayersToTransform, if not empty, are the numbers of the blocks that get updates. The number
	// is the one after a name in LayersPattern, or after the first name that is followed by a
	// number.
	LayersToTransform []int64
	LayersPattern     []string
	// RankPattern and AlphaPattern set a different R and Alpha for some layers, by regular
	// expressions that match the end of their names.
	RankPattern  map[string]int64
	AlphaPattern map[string]float64

	// ModulesToSave are modules that are trained directly and saved with the updates, such as a
	// new head, by the ends of their names: as in peft, "norm" includes input_layernorm, and
	// ".norm" does not.
	ModulesToSave []string

	Init Init

	// TaskType and BaseModel, the folder of the model or its name on the Hub, with Revision,
	// record in the file what the adapter is for. Package auto fills them in.
	TaskType  string
	BaseModel string
	Revision  string
}

// withDefaults fills in the defaults and checks the settings.
func (c Config) withDefaults() (Config, error) {
	c.R, c.Alpha, c.Bias = cmp.Or(c.R, 8), cmp.Or(c.Alpha, 8), cmp.Or(c.Bias, NoBias)
	refuse := func(format string, args ...any) (Config, error) { return c, fmt.Errorf("lora: "+format, args...) }
	if c.R < 1 {
		return refuse("Config.R is %d; want a rank of at least 1", c.R)
	}
	if math.IsNaN(c.Alpha) || math.IsInf(c.Alpha, 0) {
		return refuse("Config.Alpha is %g; want a number", c.Alpha)
	}
	if !(c.Dropout >= 0 && c.Dropout < 1) {
		return refuse("Config.Dropout is %g; want 0 <= Dropout < 1", c.Dropout)
	}
	if !slices.Contains([]Bias{NoBias, AllBias, LoRABias}, c.Bias) {
		return refuse("Config.Bias is %q; want %q, %q or %q", c.Bias, NoBias, AllBias, LoRABias)
	}
	if !slices.Contains([]Init{InitKaiming, InitGaussian, InitRandom}, c.Init) {
		return refuse("Config.Init is %q; want %q, %q or %q", c.Init, InitKaiming, InitGaussian, InitRandom)
	}
	if (c.TargetPattern == "") == (len(c.TargetModules) == 0) {
		return refuse("want either Config.TargetModules or Config.TargetPattern, which say what layers get updates; " +
			"TargetModules: []string{lora.AllLinear} means all")
	}
	if len(c.ExcludeModules) > 0 && c.ExcludePattern != "" {
		return refuse("Config.ExcludeModules and Config.ExcludePattern are both set; want one")
	}
	for pattern, r := range c.RankPattern {
		if r < 1 {
			return refuse("Config.RankPattern[%q] is %d; want a rank of at least 1", pattern, r)
		}
	}
	patterns := slices.Concat([]string{c.TargetPattern, c.ExcludePattern}, c.LayersPattern,
		slices.Collect(maps.Keys(c.RankPattern)), slices.Collect(maps.Keys(c.AlphaPattern)))
	for _, pattern := range patterns {
		if _, err := regexp.Compile(pattern); err != nil {
			return refuse("the pattern %q: %w", pattern, err)
		}
	}
	return c, nil
}

// fits reports whether a name equals one of names or ends with "." and one of them.
func fits(name string, names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return name == n || strings.HasSuffix(name, "."+n) })
}

// fullMatch is Python's re.fullmatch.
func fullMatch(pattern, name string) bool {
	return regexp.MustCompile(`^(?:` + pattern + `)$`).MatchString(name)
}

// targets reports whether the layer with the given name gets an update: check_target_module_exists
// of peft.
func (c Config) targets(name string) bool {
	switch {
	case c.ExcludePattern != "" && fullMatch(c.ExcludePattern, name), fits(name, c.ExcludeModules), c.saves(name):
		return false
	case c.TargetPattern != "":
		return fullMatch(c.TargetPattern, name)
	case slices.Contains(c.TargetModules, name):
		return true
	}
	return fits(name, c.TargetModules) && c.transforms(name)
}

// saves reports whether a module with the given name, or a module that contains it, is among
// ModulesToSave.
func (c Config) saves(name string) bool {
	for end := len(name); end > 0; end = strings.LastIndexByte(name[:end], '.') {
		if slices.ContainsFunc(c.ModulesToSave, func(m string) bool { return strings.HasSuffix(name[:end], m) }) {
			return true
		}
	}
	return false
}

// transforms reports whether the layer with the given name belongs to a block in LayersToTransform.
func (c Config) transforms(name string) bool {
	if len(c.LayersToTransform) == 0 {
		return true
	}
	patterns := c.LayersPattern
	if len(patterns) == 0 {
		patterns = []string{`[^.]*`}
	}
	for _, p := range patterns {
		if found := regexp.MustCompile(`^(?:.*?\.)?(?:` + p + `)\.(\d+)\.`).FindStringSubmatch(name); found != nil {
			return slices.ContainsFunc(c.LayersToTransform, func(i int64) bool {
				return fmt.Sprint(i) == found[len(found)-1]
			})
		}
	}
	return false
}

// scaling returns the rank of a layer's update and the factor that it is multiplied by.
func (c Config) scaling(name string) (r int64, scale float64) {
	r, alpha := ofPattern(c.RankPattern, name, c.R), ofPattern(c.AlphaPattern, name, c.Alpha)
	if c.UseRSLoRA {
		return r, alpha / math.Sqrt(float64(r))
	}
	return r, alpha / float64(r)
}

// ofPattern returns the value of the first pattern that matches the end of a name, or other if none
// does.
func ofPattern[T any](patterns map[string]T, name string, other T) T {
	for _, pattern := range slices.Sorted(maps.Keys(patterns)) {
		if fullMatch(`(.*\.)?(`+pattern+`)`, name) {
			return patterns[pattern]
		}
	}
	return other
}

// file is the content of adapter_config.json.
type file struct {
	PeftType          string             `json:"peft_type"`
	TaskType          *string            `json:"task_type"`
	BaseModel         *string            `json:"base_model_name_or_path"`
	Revision          *string            `json:"revision"`
	InferenceMode     bool               `json:"inference_mode"`
	R                 int64              `json:"r"`
	Alpha             float64            `json:"lora_alpha"`
	UseRSLoRA         bool               `json:"use_rslora"`
	UseDoRA           bool               `json:"use_dora"`
	Dropout           float64            `json:"lora_dropout"`
	Bias              Bias               `json:"bias"`
	TargetModules     oneOrMore[string]  `json:"target_modules"`
	ExcludeModules    oneOrMore[string]  `json:"exclude_modules"`
	LayersToTransform oneOrMore[int64]   `json:"layers_to_transform"`
	LayersPattern     oneOrMore[string]  `json:"layers_pattern"`
	RankPattern       map[string]int64   `json:"rank_pattern"`
	AlphaPattern      map[string]float64 `json:"alpha_pattern"`
	ModulesToSave     []string           `json:"modules_to_save"`
	Init              any                `json:"init_lora_weights"`
	FanInFanOut       bool               `json:"fan_in_fan_out"`
}

// oneOrMore is a single value or a list. It remembers which, because peft distinguishes them.
type oneOrMore[T any] struct {
	one  *T
	list []T
}

func (o oneOrMore[T]) MarshalJSON() ([]byte, error) {
	switch {
	case o.one != nil:
		return json.Marshal(*o.one)
	case len(o.list) == 0:
		return []byte("null"), nil
	}
	return json.Marshal(o.list)
}

func (o *oneOrMore[T]) UnmarshalJSON(text []byte) error {
	if err := json.Unmarshal(text, &o.list); err == nil {
		return nil
	}
	return json.Unmarshal(text, &o.one)
}

// nameOrPattern returns the value of target_modules or exclude_modules.
func nameOrPattern(names []string, pattern string) oneOrMore[string] {
	if pattern != "" {
		return oneOrMore[string]{one: &pattern}
	}
	return oneOrMore[string]{list: names}
}

func nullIfEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// MarshalJSON encodes c as adapter_config.json in the form that peft reads.
func (c Config) MarshalJSON() ([]byte, error) { return c.marshal(false) }

// marshal returns the adapter_config.json. fanInFanOut says whether the weights of the layers are
// [in, out].
func (c Config) marshal(fanInFanOut bool) ([]byte, error) {
	initial := any(true)
	switch c.Init {
	case InitGaussian:
		initial = "gaussian"
	case InitRandom:
		initial = false
	}
	f := file{PeftType: "LORA", TaskType: nullIfEmpty(c.TaskType), BaseModel: nullIfEmpty(c.BaseModel),
		Revision: nullIfEmpty(c.Revision), InferenceMode: true, R: c.R, Alpha: c.Alpha, UseRSLoRA: c.UseRSLoRA,
		UseDoRA: c.UseDoRA,
		Dropout: c.Dropout, Bias: c.Bias, TargetModules: nameOrPattern(c.TargetModules, c.TargetPattern),
		ExcludeModules:    nameOrPattern(c.ExcludeModules, c.ExcludePattern),
		LayersToTransform: oneOrMore[int64]{list: c.LayersToTransform},
		LayersPattern:     oneOrMore[string]{list: c.LayersPattern},
		RankPattern:       c.RankPattern, AlphaPattern: c.AlphaPattern, ModulesToSave: c.ModulesToSave, Init: initial,
		FanInFanOut: fanInFanOut}
	if f.RankPattern == nil {
		f.RankPattern = map[string]int64{}
	}
	if f.AlphaPattern == nil {
		f.AlphaPattern = map[string]float64{}
	}
	return json.Marshal(f)
}

// variants are settings of peft that change what a layer computes or what the file contains, and
// that are not supported.
var variants = []string{"use_qalora", "use_bdlora", "lora_bias", "trainable_token_indices",
	"target_parameters", "layer_replication", "alora_invocation_tokens", "arrow_config", "velora_config",
	"monteclora_config", "kasa_config", "loftq_config", "megatron_config"}

// UnmarshalJSON decodes adapter_config.json. It refuses, by name, settings of other kinds of
// adapters.
func (c *Config) UnmarshalJSON(text []byte) error {
	f := file{R: 8, Alpha: 8, Bias: NoBias, Init: true}
	all := map[string]json.RawMessage{}
	if err := errors.Join(json.Unmarshal(text, &f), json.Unmarshal(text, &all)); err != nil {
		return err
	}
	if f.PeftType != "LORA" {
		return fmt.Errorf("peft_type is %q; only LORA is supported", f.PeftType)
	}
	for _, name := range variants {
		switch value := string(all[name]); value {
		case "", "null", "false", "{}", "[]":
		default:
			return fmt.Errorf("%s is %s, and this variant of LoRA is not supported", name, value)
		}
	}
	*c = Config{R: f.R, Alpha: f.Alpha, UseRSLoRA: f.UseRSLoRA, UseDoRA: f.UseDoRA, Dropout: f.Dropout, Bias: f.Bias,
		TargetModules: f.TargetModules.list, ExcludeModules: f.ExcludeModules.list,
		LayersToTransform: f.LayersToTransform.list, LayersPattern: f.LayersPattern.list, RankPattern: f.RankPattern,
		AlphaPattern: f.AlphaPattern, ModulesToSave: f.ModulesToSave, TaskType: optional.Or(f.TaskType, ""),
		BaseModel: optional.Or(f.BaseModel, ""), Revision: optional.Or(f.Revision, "")}
	if f.TargetModules.one != nil {
		if strings.EqualFold(*f.TargetModules.one, AllLinear) {
			c.TargetModules = []string{AllLinear}
		} else {
			c.TargetPattern = *f.TargetModules.one
		}
	}
	c.ExcludePattern = optional.Or(f.ExcludeModules.one, "")
	if len(c.RankPattern) == 0 {
		c.RankPattern = nil
	}
	if len(c.AlphaPattern) == 0 {
		c.AlphaPattern = nil
	}
	if i := f.LayersToTransform.one; i != nil {
		c.LayersToTransform = []int64{*i}
	}
	if p := f.LayersPattern.one; p != nil {
		c.LayersPattern = []string{*p}
	}
	switch f.Init {
	case true, nil, "eva", "orthogonal": // the file already contains the initialized weights
	case false:
		c.Init = InitRandom
	case "gaussian":
		c.Init = InitGaussian
	default:
		return fmt.Errorf("init_lora_weights is %v, which changes the weights of the model itself and is not supported",
			f.Init)
	}
	return nil
}
