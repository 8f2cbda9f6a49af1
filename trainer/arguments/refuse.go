package arguments

import (
	"fmt"
	"reflect"
)

// meaningless are the arguments that mean nothing here, with the reason: only their defaults are
// taken.
var meaningless = map[string]string{
	"average_tokens_across_devices": "true: with trainer.Options.Group the labels of all processes count",
	"torch_compile":                 "false: the compiler is Python's; kernels are called directly",
	"torch_compile_backend":         "it left out: the compiler is Python's",
	"torch_compile_mode":            "it left out: the compiler is Python's",
	"use_liger_kernel":              "false: the kernels are written in Triton, which needs Python",
	"liger_kernel_config":           "it left out: the kernels are written in Triton, which needs Python",
	"use_cache":                     "false: training never keeps the keys and values of generation",
	"run_name":                      "it left out: the name of a run is its output_dir",
	"project":                       "it left out: it is of a reporting service",
	"trackio_space_id":              "it left out: it is of the service Trackio",
	"trackio_bucket_id":             "it left out: it is of the service Trackio",
	"trackio_static_space_id":       "it left out: it is of the service Trackio",
	"eval_do_concat_batches":        "true: engine.Predictions has the batches joined",
	"eval_use_gather_object":        "false: what is not a tensor is shared by engine.ObservationSharer",
	"include_for_metrics": "it left out: a task that wants its inputs in the metrics keeps them in " +
		"engine.Observer",
	"save_on_each_node":                  "false: the main process writes",
	"parallelism_config":                 "it left out: one process trains one model",
	"dataloader_pin_memory":              "true: batches are Go values until the task makes tensors of them",
	"dataloader_persistent_workers":      "false: a goroutine costs microseconds to start",
	"dataloader_multiprocessing_context": "it left out: there are no worker processes",
	"dataloader_in_order":                "true: batches come in the order of the samples",
	"remove_unused_columns":              "true: samples and batches are typed, and have the fields that the task uses",
	"length_column_name":                 "it left out: TrainingArguments.Lengths holds the lengths",
	"local_rank":                         "it left out: the launcher says it by LOCAL_RANK in the environment",
	"fsdp_config":                        "it left out: a configuration of accelerate says more (gotrainer launch)",
	"deepspeed":                          "it left out: it is DeepSpeed's engine; accelerate's file has zero_stage",
	"debug":                              "it left out: it hooks into Python modules; package torch has DetectAnomaly",
	"skip_memory_metrics":                "true: the memory of a run is measured from outside, or by a hook",
}

// refuseMeaningless refuses those that are not at their defaults. An empty list, object, string or
// false is none.
func (a *TrainingArguments) refuseMeaningless() error {
	var usual TrainingArguments
	if err := ParseDict(nil, &usual); err != nil {
		return err
	}
	given, defaults := reflect.ValueOf(a).Elem(), reflect.ValueOf(&usual).Elem()
	for i := range given.NumField() {
		name := given.Type().Field(i).Tag.Get("name")
		want, refused := meaningless[name]
		if value := given.Field(i); refused && !reflect.DeepEqual(value.Interface(), defaults.Field(i).Interface()) &&
			!isEmpty(value) {
			return &Error{name, plain(value), want}
		}
	}
	return nil
}

// isEmpty tells of a value that names nothing: [], {}, "" or, where a string is due, false.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Interface:
		return v.IsNil() || v.Elem().Kind() != reflect.Bool && isEmpty(v.Elem()) || v.Elem().Interface() == false
	case reflect.Slice, reflect.Map, reflect.String:
		return v.Len() == 0
	}
	return false
}

// plain is a value as a message shows it.
func plain(v reflect.Value) any {
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		return fmt.Sprint(v.Elem().Interface())
	}
	return v.Interface()
}
