package arguments

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/internal/pyfloat"
	"github.com/gotrainer/gotrainer/trainer/callback"
)

// report returns the callback for a service that report_to names; nil for none.
func (a *TrainingArguments) report(service string) (any, error) {
	switch service {
	case "none":
		return nil, nil
	case "tensorboard":
		return &callback.TensorBoard{}, nil
	case "mlflow":
		params, err := a.texts()
		return &callback.MLflow{RunName: a.RunName, Params: params}, err
	}
	return nil, &Error{"report_to", service, "none, tensorboard or mlflow; another service is a hook in " +
		"trainer.Options.Callbacks"}
}

// texts returns all arguments as MLflowCallback of transformers sends them: str() of the values of
// TrainingArguments.to_dict, which does not show tokens.
func (a *TrainingArguments) texts() (map[string]string, error) {
	fields, err := fieldsOf([]any{a})
	if err != nil {
		return nil, err
	}
	texts := map[string]string{}
	for name, f := range fields {
		usual, ok := f.tag.Lookup("default")
		switch _, err := strconv.Atoi(usual); {
		case strings.HasSuffix(name, "_token"):
			texts[name] = "<" + strings.ToUpper(name) + ">"
		case !ok && f.value.Kind() == reflect.String && f.value.IsZero():
			texts[name] = "None"
		case err == nil && fmt.Sprint(f.value.Interface()) == usual: // 500, where 10 from a command line is 10.0
			texts[name] = usual
		default:
			if texts[name], err = pythonText(f.value); err != nil {
				return nil, fmt.Errorf("arguments: %s: %w", name, err)
			}
		}
	}
	return texts, nil
}

// pythonText is str() of a value; dictionaries are written as JSON.
func pythonText(v reflect.Value) (string, error) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return "None", nil
		}
		return pythonText(v.Elem())
	case reflect.Bool:
		return map[bool]string{true: "True", false: "False"}[v.Bool()], nil
	case reflect.Float64:
		return pyfloat.Repr(v.Float()), nil
	case reflect.Slice:
		var items []string
		for i := range v.Len() {
			item, err := pythonText(v.Index(i))
			if err != nil {
				return "", err
			}
			if v.Type().Elem().Kind() == reflect.String {
				item = "'" + item + "'"
			}
			items = append(items, item)
		}
		return "[" + strings.Join(items, ", ") + "]", nil
	case reflect.Map:
		text, err := json.Marshal(v.Interface())
		return string(text), err
	}
	return fmt.Sprint(v.Interface()), nil
}
