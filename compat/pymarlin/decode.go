package pymarlin

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/internal/torchsave"
)

// TrainerArgumentsFromConfig reads a section with Python's names: TrainerArguments(**section). An
// unknown name is an error.
func TrainerArgumentsFromConfig(section Config) (TrainerArguments, error) {
	section = maps.Clone(section)
	for _, flag := range []string{"amp_backend_native", "amp_backend_apex", "amp_level_apex",
		"differential_privacy_args"} {
		switch v := section[flag].(type) {
		case nil, bool, string:
			if v == true {
				return TrainerArguments{}, argumentf("%s: mixed precision is chosen by backend: sp-amp", flag)
			}
			delete(section, flag) // the default
		default:
			return TrainerArguments{}, argumentf("%s: there is no such training here", flag)
		}
	}
	a, err := fromConfig[TrainerArguments](section)
	a.zeroEpochs, a.zeroGradNorm = isZero(section["epochs"]), isZero(section["max_grad_norm"])
	return a, err
}

// CheckpointerArgumentsFromConfig reads DefaultCheckpointerArguments(**section).
func CheckpointerArgumentsFromConfig(section Config) (CheckpointerArguments, error) {
	return fromConfig[CheckpointerArguments](section)
}

// StatInitArgumentsFromConfig reads StatInitArguments(**section).
func StatInitArgumentsFromConfig(section Config) (StatInitArguments, error) {
	return fromConfig[StatInitArguments](section)
}

// WriterInitArgumentsFromConfig reads WriterInitArguments(**section).
func WriterInitArgumentsFromConfig(section Config) (WriterInitArguments, error) {
	return fromConfig[WriterInitArguments](section)
}

func fromConfig[T any](section Config) (a T, err error) {
	err = decode("", section, &a)
	return a, err
}

// needsOne are the arguments that may not be zero in Python; in Go, zero means the default.
var needsOne = []string{"train_batch_size", "gpu_batch_size_limit", "val_batch_size", "period", "log_steps",
	"log_model_steps", "tb_log_hist_steps"}

// fixed are Python's arguments that have no field here, with their allowed values, the default
// first.
var fixed = map[string][]any{
	// Of a checkpointer: the trainer's LogLevel applies to both.
	"checkpointer_args.log_level": {"INFO"}, "log_level": {"INFO"},
	"writer_args.tb_log_multi": {false}, "tb_log_multi": {false}, // several numbers are logged as KEY/NAME
	// Options.Group determines the processes, and outputs are gathered in one piece.
	"distributed_training_args.backend": {"nccl", "gloo"}, "distributed_training_args.init_method": {"env://"},
	"distributed_training_args.gather_frequency": {nil},
}

// decode sets the fields whose config tags name keys of the section; a tag with ! is negated.
func decode(path string, section Config, into any) error {
	v := reflect.ValueOf(into).Elem()
	fields, negated := map[string]reflect.Value{}, map[string]bool{}
	for f, field := range v.Fields() {
		if tag := f.Tag.Get("config"); tag != "" {
			name, not := strings.CutPrefix(tag, "!")
			fields[name], negated[name] = field, not
		}
	}
	for _, name := range slices.Sorted(maps.Keys(section)) {
		value, at := section[name], path+name
		field, known := fields[name]
		values, isFixed := fixed[at]
		isFixed = isFixed && !known
		switch {
		case !known && !isFixed:
			return argumentf("there is no argument %s; want one of %s", at,
				strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		case name == "model_state_save_dir" && (value == nil || value == ""):
			v.FieldByName("NoModelState").SetBool(true)
		case value == nil: // None
		case isFixed && !slices.Contains(values, value):
			return argumentf("%s is %s; the only value here is %v", at, describe(value), values[0])
		case isFixed:
		case isZero(value) && slices.Contains(needsOne, name):
			return argumentf("%s is 0; want a positive number", at)
		default:
			if err := setField(at, field, value, negated[name]); err != nil {
				return err
			}
		}
	}
	return nil
}

func isZero(value any) bool { return value == 0 || value == 0.0 }

// wants describes the kinds of fields in messages.
var wants = map[reflect.Kind]string{reflect.Bool: "true or false", reflect.Int: "a whole number",
	reflect.Float64: "a number", reflect.String: "a text", reflect.Slice: "a list of names"}

func setField(at string, field reflect.Value, value any, negated bool) error {
	switch field.Kind() {
	case reflect.Pointer:
		field.Set(reflect.New(field.Type().Elem()))
		return decodeSection(at, field.Interface(), value)
	case reflect.Struct:
		return decodeSection(at, field.Addr().Interface(), value)
	case reflect.Float64:
		if f, ok := torchsave.Float(value); ok {
			value = f
		}
	case reflect.Bool:
		if b, ok := value.(bool); ok {
			value = b != negated
		}
	case reflect.Slice:
		if names, ok := listOf[string](value); ok {
			value = names
		}
	}
	v := reflect.ValueOf(value)
	if v.Type() != field.Type() {
		return argumentf("%s is %s, want %s", at, describe(value), wants[field.Kind()])
	}
	field.Set(v)
	return nil
}

func decodeSection(at string, into, value any) error {
	section, ok := value.(map[string]any)
	if !ok {
		return argumentf("%s is %s, want a section", at, describe(value))
	}
	return decode(at+".", section, into)
}
