// Package arguments reads the arguments of transformers.TrainingArguments under their own names, as
// flags, from a JSON or YAML file or from the environment, and turns them into the options of
// packages trainer and engine. It follows transformers.HfArgumentParser: a program can have structs
// of its own beside [TrainingArguments], and each of their fields is a flag.
//
//	var model struct {
//		ModelNameOrPath string `name:"model_name_or_path" required:"" help:"Folder or name on the Hub."`
//	}
//	var args arguments.TrainingArguments
//	if err := arguments.Parse(os.Args[1:], &model, &args); err != nil {
//		return run.Usage(err)
//	}
//	o, e := trainer.Options{}, engine.Options{ComputeMetrics: metrics}
//	if err := args.Apply(&o, &e); err != nil {
//		return run.Usage(err)
//	}
//
// docs/training-arguments.md says what each argument means here. An argument that has no meaning
// here is refused with its name and the reason, unless it has its default; none is accepted and
// ignored.
package arguments

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"

	"github.com/gotrainer/gotrainer/run"
)

// Parse reads a command line, without the name of the program, into the structs that the pointers
// in into point to, as parse_args_into_dataclasses does. The rules are those of HfArgumentParser:
//
//   - A flag may be written with "_" or "-", and abbreviated where that is unambiguous.
//   - A truth value is set by the flag alone or with a value: --fp16, --fp16 true, --fp16=no. One
//     that is true by default can also be unset by its --no_ form.
//   - A list takes all values up to the next flag.
//   - If a flag is repeated, the last one counts.
//
// A file beside the program, run_glue.args for run_glue, is read before the command line, which
// takes precedence; [ArgsFiles] supports other files. A single argument that ends in .json, .yaml
// or .yml is a file, which is read by [ParseFile], as in the example programs of transformers.
// --help prints the flags and ends the process. The tags of a field are those of package kong:
// name, default, required, help, enum. A field without a name has its Go name as the flag, TrainFile
// being --train_file. An error ends a program of package run with [run.Configuration].
func Parse(args []string, into ...any) error {
	if len(args) == 1 && slices.Contains([]string{".json", ".yaml", ".yml"}, filepath.Ext(args[0])) {
		return ParseFile(args[0], into...)
	}
	return ArgsFiles{}.Parse(args, into...)
}

// parse reads a command line with kong, which leaves the values to [set].
func parse(args []string, into []any) error {
	fields, err := fieldsOf(into)
	if err != nil {
		return err
	}
	words, err := canonical(args, fields)
	if err != nil {
		return run.Usage(err)
	}
	options := []kong.Option{kong.Name(filepath.Base(os.Args[0])), kong.FlagNamer(flagName),
		kong.ConfigureHelp(kong.HelpOptions{FlagsLast: true})}
	for _, kind := range []reflect.Kind{reflect.Bool, reflect.Int, reflect.Uint64, reflect.Float64, reflect.String,
		reflect.Slice, reflect.Pointer, reflect.Interface} {
		options = append(options, kong.KindMapper(kind, kong.MapperFunc(decodeFlag)))
	}
	for _, structure := range into {
		options = append(options, kong.Embed(structure))
	}
	parser, err := kong.New(&struct{}{}, options...)
	if err == nil {
		_, err = parser.Parse(words)
	}
	if err != nil {
		return run.Usage(fmt.Errorf("arguments: %w", err)) // kong's own exit code is 80
	}
	return nil
}

// flagName is the name of a field that has none in its tag: "train_file" of TrainFile.
func flagName(field string) string {
	letters := []rune(field)
	var name strings.Builder
	for i, letter := range letters {
		begins := i > 0 && unicode.IsUpper(letter) && (!unicode.IsUpper(letters[i-1]) ||
			i+1 < len(letters) && unicode.IsLower(letters[i+1]))
		if begins && letters[i-1] != '_' {
			name.WriteByte('_')
		}
		name.WriteRune(unicode.ToLower(letter))
	}
	return name.String()
}

// decodeFlag takes as many words for a value as argparse would.
func decodeFlag(ctx *kong.DecodeContext, target reflect.Value) error {
	var words []any
	attached := ctx.Scan.Peek().Type == kong.FlagValueToken // --name=value: takes no further words
	many := target.Kind() == reflect.Slice
	for isValue(ctx.Scan.Peek()) && (len(words) == 0 || many && !attached) {
		words = append(words, word(ctx.Scan.Pop().String()))
	}
	var value any = true
	switch {
	case many && len(words) > 0:
		value = words
	case len(words) > 0:
		value = words[0]
	case target.Kind() != reflect.Bool && ctx.Value.Tag.Get("nargs") != "?":
		return errors.New("it has no value; want one")
	}
	if err := set(target, value); err != nil {
		return fmt.Errorf("it is %q; want %w", value, err)
	}
	return nil
}

// isValue distinguishes a value from a flag; a negative number is a value.
func isValue(t kong.Token) bool {
	if t.IsEOL() {
		return false
	}
	word := t.String()
	return t.Type == kong.FlagValueToken || !strings.HasPrefix(word, "-") || word == "-" || isNumber(word)
}

// canonical rewrites the flags of a command line to the names of the fields: "-" becomes "_",
// abbreviations are expanded, and --no_name becomes --name=false.
func canonical(args []string, fields map[string]field) ([]string, error) {
	out := make([]string, 0, len(args))
	for _, word := range args {
		flag, isFlag := strings.CutPrefix(word, "--")
		name, value, hasValue := strings.Cut(flag, "=")
		if !isFlag || name == "" || name == "help" {
			out = append(out, word)
			continue
		}
		name = strings.ReplaceAll(name, "-", "_")
		if positive, no := strings.CutPrefix(name, "no_"); no && fields[positive].hasNo() {
			if hasValue {
				return nil, fmt.Errorf("arguments: --%s takes no value, and has %q", name, value)
			}
			name, value, hasValue = positive, "false", true
		}
		if _, known := fields[name]; !known {
			longer := slices.DeleteFunc(slices.Sorted(maps.Keys(fields)), func(full string) bool {
				return !strings.HasPrefix(full, name)
			})
			if len(longer) > 1 {
				return nil, fmt.Errorf("arguments: --%s may be any of %s", name, strings.Join(longer, ", "))
			}
			if len(longer) == 1 {
				name = longer[0]
			} else if now, old := renamed[name]; old {
				return nil, fmt.Errorf("arguments: --%s is --%s now, here and in transformers 5", name, now)
			}
		}
		if word = "--" + name; hasValue {
			word += "=" + value
		}
		out = append(out, word)
	}
	return out, nil
}

// ParseFile reads a JSON file, or a YAML file if its name ends that way, like parse_json_file and
// parse_yaml_file. The file holds an object of names and values. Fields that it does not name get
// their defaults; names that no struct has are refused.
func ParseFile(path string, into ...any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("arguments: %w", err)
	}
	if filepath.Ext(path) != ".json" { // convert YAML to JSON, so that both have the same types
		var document any
		if err = yaml.Unmarshal(text, &document); err == nil {
			text, err = json.Marshal(document)
		}
	}
	values := map[string]any{}
	if err == nil {
		err = json.Unmarshal(text, &values)
	}
	if err != nil {
		return fmt.Errorf("arguments: %s: want an object of the names of arguments and their values: %w", path, err)
	}
	if err := ParseDict(values, into...); err != nil {
		return fmt.Errorf("%w (in %s)", err, path)
	}
	return nil
}

// ParseDict is [ParseFile] for values that have already been read, for example by encoding/json, or
// that a program supplies: parse_dict. A nil value stands for None; a list is a []any or []string.
func ParseDict(values map[string]any, into ...any) error {
	fields, err := fieldsOf(into)
	if err != nil {
		return err
	}
	for name := range values {
		if _, known := fields[name]; known {
			continue
		}
		if now, old := renamed[name]; old {
			return fmt.Errorf("arguments: %s is %s now, here and in transformers 5", name, now)
		}
		return fmt.Errorf("arguments: there is no argument %q; docs/training-arguments.md has all of them", name)
	}
	for name, f := range fields {
		value, given := values[name]
		err := setDefault(f.value, f.tag)
		if _, required := f.tag.Lookup("required"); given {
			err = set(f.value, value)
		} else if required {
			err = errors.New("a value: it is required")
		}
		if err != nil {
			return &Error{name, value, err.Error()}
		}
	}
	return nil
}

// renamed maps names of transformers 4, which are still found in guides, to those of transformers
// 5.
var renamed = map[string]string{"evaluation_strategy": "eval_strategy", "no_cuda": "use_cpu",
	"per_gpu_train_batch_size": "per_device_train_batch_size", "per_gpu_eval_batch_size": "per_device_eval_batch_size",
	"group_by_length": "train_sampling_strategy group_by_length", "push_to_hub_model_id": "hub_model_id",
	"push_to_hub_token": "hub_token", "warmup_ratio": "warmup_steps"}

// field is a field of a struct that is an argument.
type field struct {
	value reflect.Value
	tag   reflect.StructTag
}

// hasNo reports whether the field has a --no_ form: it is a truth value that is true by default.
func (f field) hasNo() bool {
	return f.value.IsValid() && f.value.Kind() == reflect.Bool && f.tag.Get("default") == "true"
}

// fieldsOf returns the fields of structs that are arguments, by their names.
func fieldsOf(into []any) (map[string]field, error) {
	fields := map[string]field{}
	for _, structure := range into {
		v := reflect.ValueOf(structure)
		if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
			return nil, fmt.Errorf("arguments: Parse is given a %T; want pointers to structs", structure)
		}
		v = v.Elem()
		for i := range v.NumField() {
			if name, ok := argumentName(v.Type().Field(i)); ok {
				if _, twice := fields[name]; twice {
					return nil, fmt.Errorf("arguments: two structs have the argument %s", name)
				}
				fields[name] = field{v.Field(i), v.Type().Field(i).Tag}
			}
		}
	}
	return fields, nil
}

// argumentName returns the name of a field's argument; ok is false if it is none.
func argumentName(f reflect.StructField) (name string, ok bool) {
	if name, ok = f.Tag.Lookup("name"); ok {
		return name, true
	}
	for _, other := range []string{"embed", "arg", "cmd"} { // what else kong makes of a field
		if _, is := f.Tag.Lookup(other); is {
			return "", false
		}
	}
	return flagName(f.Name), f.IsExported() && !f.Anonymous && f.Tag.Get("kong") != "-"
}

// Error says which argument has a value that is not allowed.
type Error struct {
	Argument string // "learning_rate"
	Value    any    // the value it has
	Want     string // what it should be, or what to do
}

func (e *Error) Error() string {
	value := fmt.Sprintf("%v", e.Value)
	if text, ok := e.Value.(string); ok {
		value = fmt.Sprintf("%q", text)
	} else if e.Value == nil {
		value = "absent"
	}
	return fmt.Sprintf("arguments: %s is %s; want %s", e.Argument, value, e.Want)
}

// ExitCode tells package run that the command line is wrong.
func (e *Error) ExitCode() int { return int(run.Configuration) }
