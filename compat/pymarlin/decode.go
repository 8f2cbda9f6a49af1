package pymarlin

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// TrainerArgumentsFromConfig reads a section whose names are those of Python:
// TrainerArguments(**section). A name that it does not know is an error.
func TrainerArgumentsFromConfig(section Config) (TrainerArguments, error) {
	section = maps.Clone(section)
	for _, flag := range []string{"amp_backend_native", "amp_backend_apex", "amp_level_apex",
		"differential_privacy_args"} {
		switch v := section[flag].(type) {
		case nil, bool, string:
			if v == true {
				return TrainerArguments{}, argumentf("%s: mixed precision is chosen by backend: sp-amp", flag)
			}
			delete(section, flag) // what it says without them
		default:
			return TrainerArguments{}, argumentf("%s: there is no such training here", flag)
		}
	}
	var a TrainerArguments
	err := decode("", section, &a)
	a.zeroEpochs, a.zeroGradNorm = isZero(section["epochs"]), isZero(section["max_grad_norm"])
	return a, err
}

// CheckpointerArgumentsFromConfig reads DefaultCheckpointerArguments(**section).
func CheckpointerArgumentsFromConfig(section Config) (CheckpointerArguments, error) {
	var a CheckpointerArguments
	return a, decode("", section, &a)
}

// StatInitArgumentsFromConfig reads StatInitArguments(**section).
func StatInitArgumentsFromConfig(section Config) (StatInitArguments, error) {
	var a StatInitArguments
	return a, decode("", section, &a)
}

// WriterInitArgumentsFromConfig reads WriterInitArguments(**section).
func WriterInitArgumentsFromConfig(section Config) (WriterInitArguments, error) {
	var a WriterInitArguments
	return a, decode("", section, &a)
}

// needsOne are the arguments of which zero is no value in Python, where the zero of a Go field
// means the default.
var needsOne = []string{"train_batch_size", "gpu_batch_size_limit", "val_batch_size", "period", "log_steps",
	"log_model_steps", "tb_log_hist_steps"}

// fixed are arguments of Python that have one possible value here: its default.
var fixed = map[string]any{
	// of a checkpointer; the trainer has a field, and its logger serves both
	"checkpointer_args.log_level": "INFO", "log_level": "INFO",
	"writer_args.tb_log_multi": false, "tb_log_multi": false, // several numbers go under KEY/NAME
	"distributed_training_args.backend": "nccl", "distributed_training_args.init_method": "env://",
	"distributed_training_args.gather_frequency": nil,
}

// decode fills the fields of a struct whose config tags are names of the section; a tag with !
// stands for the opposite.
func decode(path string, section Config, into any) error {
	v := reflect.ValueOf(into).Elem()
	fields := map[string]reflect.Value{}
	negated := map[string]bool{}
	for f := range v.Type().Fields() {
		if tag := f.Tag.Get("config"); tag != "" {
			name, not := strings.CutPrefix(tag, "!")
			fields[name], negated[name] = v.FieldByIndex(f.Index), not
		}
	}
	for _, name := range slices.Sorted(maps.Keys(section)) {
		value := section[name]
		at := path + name
		field, known := fields[name]
		if !known {
			if only, ok := fixed[at]; ok {
				if value != only && value != nil {
					return argumentf("%s is %s; the only value here is %v", at, describe(value), only)
				}
				continue
			}
			return argumentf("there is no argument %s; want one of %s", at,
				strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		}
		if name == "model_state_save_dir" && (value == nil || value == "") {
			v.FieldByName("NoModelState").SetBool(true)
			continue
		}
		if value == nil {
			continue // None
		}
		if isZero(value) && slices.Contains(needsOne, name) {
			return argumentf("%s is 0; want a positive number", at)
		}
		if err := setField(at, field, value, negated[name]); err != nil {
			return err
		}
	}
	return nil
}

func isZero(value any) bool { return value == 0 || value == 0.0 }

func setField(at string, field reflect.Value, value any, negated bool) error {
	wrong := func(want string) error { return argumentf("%s is %s, want %s", at, describe(value), want) }
	switch field.Kind() {
	case reflect.Bool:
		b, ok := value.(bool)
		if !ok {
			return wrong("true or false")
		}
		field.SetBool(b != negated)
	case reflect.Int:
		n, ok := value.(int)
		if !ok {
			return wrong("a whole number")
		}
		field.SetInt(int64(n))
	case reflect.Float64:
		f, ok := number(value)
		if !ok {
			return wrong("a number")
		}
		field.SetFloat(f)
	case reflect.String:
		s, ok := value.(string)
		if !ok {
			return wrong("a text")
		}
		field.SetString(s)
	case reflect.Slice:
		list, ok := value.([]any)
		names := make([]string, len(list))
		for i, x := range list {
			var isText bool
			names[i], isText = x.(string)
			ok = ok && isText
		}
		if !ok {
			return wrong("a list of names")
		}
		field.Set(reflect.ValueOf(names))
	case reflect.Pointer:
		field.Set(reflect.New(field.Type().Elem()))
		return decodeSection(at, field.Interface(), value)
	case reflect.Struct:
		return decodeSection(at, field.Addr().Interface(), value)
	default:
		return fmt.Errorf("pymarlin: the field of %s has the kind %s", at, field.Kind())
	}
	return nil
}

func decodeSection(at string, into, value any) error {
	section, ok := value.(map[string]any)
	if !ok {
		return argumentf("%s is %s, want a section", at, describe(value))
	}
	return decode(at+".", section, into)
}
