package expected_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/internal/expected"
	"github.com/gotrainer/gotrainer/internal/testenv"
)

const shared = "../../../shared/data"

func TestEverythingExpectedHolds(t *testing.T) {
	testenv.RequireTorch(t)
	files, err := filepath.Glob(shared + "/expected/*.json")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skip("../shared/data/expected is not here: only the short documents of this package's other tests are read")
	}
	for _, file := range files {
		entries, err := expected.Read(file, expected.Options{Data: shared})
		if err != nil {
			t.Error(err)
		}
		for _, e := range entries {
			t.Run(filepath.Base(file)+"/"+e.Name, func(t *testing.T) {
				err := e.Run()
				var missing *expected.Unsupported
				if errors.As(err, &missing) {
					t.Skip(missing)
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// Parts of the documents in the table below.
const (
	model    = `"model": "Sequential(Linear(2,3), Sigmoid, Linear(3,1), Sigmoid), float64; loss = sum of outputs; input [[0, 0]]; 1 iteration",`
	initial  = `"initial_parameters": {"0.weight (3x2)": [0,0,0,0,0,0], "0.bias": [0,0,0], "2.weight": [0,0,0], "2.bias": [0]},`
	vocab    = `"vocab": "../../text/testdata/tiny/uncased.json",`
	datasets = `"datasets": {"2": {"x": [1, -1], "y": [1, -1]}},`
	run      = `"optimizer": "sgd", "lr": 0.5, "n": 2, "batch_size": 1, "gradient_accumulation": 2, "epochs": 1, "max_grad_norm": 0, "schedule": "constant", "total_updates": 1`
)

// Every document has one entry. outcome is "" if it passes, and otherwise a part of the message.
var documents = []struct {
	claim, text string
	unsupported bool
	outcome     string
}{
	{"a schedule of transformers",
		`{"schedules": {"s": {"function": "get_linear_schedule_with_warmup", "kwargs": {"num_warmup_steps": 0, "num_training_steps": 4}, "base_lr": 1, "exact_float64": [1, 0.75, 0.5, 0.25]}}}`, false, ""},
	{"rates for each group",
		`{"schedules": {"s": {"scheduler": "ExponentialLR", "kwargs": {"gamma": 0.5}, "base_lr": [1, 2], "lr": [[1, 0.5], [2, 1]]}}}`, false, ""},
	{"a wrong rate is shown with its group",
		`{"schedules": {"s": {"scheduler": "ExponentialLR", "kwargs": {"gamma": 0.5}, "base_lr": [1, 2], "lr": [[1, 0.5], [2, 1.1]]}}}`, false, "group 1: rate of update 1 is 1, want 1.1"},
	{"a Python lambda",
		`{"schedules": {"s": {"scheduler": "LambdaLR", "kwargs": {"lr_lambda": ["lambda x: 0.5 ** x", "lambda x: 1 / (1 + x)"]}, "base_lr": 1, "lr": [[1, 0.5, 0.25], [1, 0.5, 0.3333333333333333]]}}}`, false, ""},
	{"a start from the beginning",
		`{"schedules": {"s": {"function": "get_linear_schedule_with_warmup", "kwargs": {"num_warmup_steps": 0, "num_training_steps": 2, "last_epoch": -1}, "base_lr": 1, "exact_float64": [1, 0.5]}}}`, false, ""},
	{"momenta that stay",
		`{"schedules": {"s": {"scheduler": "CyclicLR", "kwargs": {"base_lr": 1, "max_lr": 2, "step_size_up": 1, "cycle_momentum": false}, "base_lr": 1, "lr": [[1, 2]], "momentum": [[0.9, 0.9]]}}}`, false, ""},
	{"momenta that should not stay",
		`{"schedules": {"s": {"scheduler": "CyclicLR", "kwargs": {"base_lr": 1, "max_lr": 2, "step_size_up": 1, "cycle_momentum": false}, "base_lr": 1, "lr": [[1, 2]], "momentum": [[0.9, 0.8]]}}}`, false, "momentum of update 1 is 0.9, want 0.8"},
	{"a list of rates that is too short",
		`{"schedules": {"s": {"scheduler": "ExponentialLR", "kwargs": {"gamma": 0.5}, "base_lr": [1], "lr": [[1], [2]]}}}`, true, "want a number, or a list of 2"},
	{"an unknown field of an entry",
		`{"schedules": {"s": {"scheduler": "ExponentialLR", "kwargs": {}, "base_lr": 1, "lr": [[1]], "betas": []}}}`,
		true, `unknown field "betas"`},
	{"an unknown argument",
		`{"schedules": {"s": {"scheduler": "ExponentialLR", "kwargs": {"gama": 0.5}, "base_lr": 1, "lr": [[1]]}}}`,
		true, "gama"},
	{"an unknown schedule", `{"schedules": {"s": {"scheduler": "SlowLR", "kwargs": {}, "base_lr": 1, "lr": [[1]]}}}`,
		true, "SlowLR"},
	{"nothing to compare", `{"schedules": {"s": {"function": "get_constant_schedule", "kwargs": {}, "base_lr": 1}}}`,
		true, "peer_expected or exact_float64"},
	{"an unknown outermost field", `{"about": "text is free", "schedules": {}, "more": 1}`, true, `no field "more"`},

	{"no rates",
		`{"schedules": {"s": {"scheduler": "ExponentialLR", "kwargs": {"gamma": 0.5}, "base_lr": 1, "lr": [[]]}}}`,
		true, "no rates to compare"},
	{"a plateau",
		`{"plateau": {"p": {"kwargs": {"patience": 0}, "initial_lr": 1, "metrics": [1, 1, 1], "lr_after_step": [[1, 0.1, 0.010000000000000002]]}}}`, false, ""},
	{"a wrong rate after a metric",
		`{"plateau": {"p": {"kwargs": {"patience": 0}, "initial_lr": 1, "metrics": [1, 1, 1], "lr_after_step": [[1, 1, 1]]}}}`, false, "rate after metric 1 is 0.1"},
	{"a peer's list that is longer than its metrics",
		`{"plateau": {"p": {"kwargs": {"patience": 0}, "initial_lr": 1, "metrics": [1, 1], "lr_after_step": [[1, 0.1]], "peer_targets": [[1, 0.1, 0.1]]}}}`, false, ""},
	{"more rates than metrics",
		`{"plateau": {"p": {"kwargs": {}, "initial_lr": 1, "metrics": [1], "lr_after_step": [[1, 1]]}}}`, true,
		"2 rates for 1 metrics"},

	{"an optimizer", `{` + model + initial +
		`"optimizers": {"o": {"optimizer": "SGD", "options": {"lr": 1}, "exact_after_step": {"0": {"loss_before_step": 0.5, "params": [[0,0,0,0,0,0],[0,0,0],[-0.125,-0.125,-0.125],[-0.25]]}}}}}`, false, ""},
	{"a wrong parameter", `{` + model + initial +
		`"optimizers": {"o": {"optimizer": "SGD", "options": {"lr": 2}, "exact_after_step": {"0": {"params": [[0,0,0,0,0,0],[0,0,0],[-0.125,-0.125,-0.125],[-0.25]]}}}}}`, false, "iteration 0: 2.weight 0 is -0.25, want -0.125"},
	{"a wrong loss", `{` + model + initial +
		`"optimizers": {"o": {"optimizer": "SGD", "options": {"lr": 1}, "exact_after_step": {"0": {"loss_before_step": 0.6, "params": []}}}}}`, false, "loss is 0.5, want 0.6"},
	{"an unknown optimizer", `{` + model + initial +
		`"optimizers": {"o": {"optimizer": "Sgd", "options": {}, "exact_after_step": {"0": {}}}}}`, true,
		`no optimizer "Sgd"`},
	{"an unknown option", `{` + model + initial +
		`"optimizers": {"o": {"optimizer": "SGD", "options": {"speed": 1}, "exact_after_step": {"0": {}}}}}`, true,
		`the field speed is not known`},
	{"options that are None, and a choice of kernels", `{` + model + initial +
		`"optimizers": {"o": {"optimizer": "SGD", "options": {"lr": 1, "foreach": true, "fused": null, "differentiable": false}, "exact_after_step": {"0": {"params": [[0,0,0,0,0,0],[0,0,0],[-0.125,-0.125,-0.125],[-0.25]]}}}}}`, false, ""},
	{"an update that has gradients", `{` + model + initial +
		`"optimizers": {"o": {"optimizer": "SGD", "options": {"lr": 1, "differentiable": true}, "exact_after_step": {"0": {}}}}}`, true, "differentiable of SGD"},
	{"LBFGS with a line search", `{` + model + initial +
		`"optimizers": {"o": {"optimizer": "LBFGS", "options": {"lr": 1, "max_eval": null, "tolerance_grad": 10, "line_search_fn": "strong_wolfe"}, "exact_after_step": {"0": {"params": [[0,0,0,0,0,0],[0,0,0],[0,0,0],[0]]}}}}}`, false, ""},
	{"a line search that does not exist", `{` + model + initial +
		`"optimizers": {"o": {"optimizer": "LBFGS", "options": {"line_search_fn": "armijo"}, "exact_after_step": {"0": {}}}}}`, true, `"armijo"`},
	{"another network", `{"model": "Linear(1,1)",` + initial +
		`"optimizers": {"o": {"optimizer": "SGD", "options": {}, "exact_after_step": {"0": {}}}}}`, true,
		"Linear(1,1)"},

	{"a run of the trainer", `{` + datasets + `"trajectories": {"r": {` + run +
		`, "final": {"a": 1, "b": 0}, "log": [{"step": 1, "lr": 0.5, "grad_norm_before_clip": 2, "last_micro_loss": 1, "a": 1, "b": 0}]}}}`, false, ""},
	{"a wrong end of a run", `{` + datasets + `"trajectories": {"r": {` + run +
		`, "final": {"a": 1, "b": 1}, "log": []}}}`, false, "the end: b is 0, want 1"},
	{"a wrong gradient norm", `{` + datasets + `"trajectories": {"r": {` + run +
		`, "final": {"a": 1, "b": 0}, "log": [{"step": 1, "lr": 0.5, "grad_norm_before_clip": 3}]}}}`, false,
		"update 1: gradient norm is 2, want 3"},
	{"a row of an update that never was", `{` + datasets + `"trajectories": {"r": {` + run +
		`, "final": {"a": 1, "b": 0}, "log": [{"step": 7}]}}}`, false, "0 rows of the log were compared, want 1"},
	{"a data set that is not there", `{"datasets": {}, "trajectories": {"r": {` + run + `, "final": {}, "log": []}}}`,
		true, "no data set 2"},
	{"an evaluation", `{` + datasets +
		`"evaluate_cases": {"2": {"a": 1, "b": 0, "eval_loss_mse": 0, "almost_accuracy_thresh_0_25": 1, "almost_accuracy_logits_plus_1": 0}}}`, false, ""},
	{"a wrong accuracy", `{` + datasets +
		`"evaluate_cases": {"2": {"a": 1, "b": 0, "eval_loss_mse": 0, "almost_accuracy_thresh_0_25": 0.5}}}`, false,
		"accuracy is 1, want 0.5"},
	{"a wrong loss of an evaluation", `{` + datasets + `"evaluate_cases": {"2": {"a": 0, "b": 0, "eval_loss_mse": 2}}}`,
		false, "loss is 1, want 2"},
	{"Hugging Face's defaults",
		`{"hf_trainer": {"files": {}, "defaults": {"num_train_epochs": 3, "per_device_train_batch_size": 8, "learning_rate": 5e-05, "lr_scheduler_type": "linear", "train_len": 20, "steps_default": 9}}}`, false, ""},
	{"a wrong default",
		`{"hf_trainer": {"defaults": {"num_train_epochs": 3, "per_device_train_batch_size": 8, "learning_rate": 1, "lr_scheduler_type": "linear", "train_len": 20, "steps_default": 9}}}`, false, "the learning rate is 5e-05, want 1"},
	{"checkpoints that stay",
		`{"hf_trainer": {"cases": [{"name": "test_checkpoint_rotation", "dirs": [2, 4, 6], "limit1": [6], "limit1_best2": [2, 6]}]}}`, false, ""},
	{"checkpoints that should not stay",
		`{"hf_trainer": {"cases": [{"name": "test_checkpoint_rotation", "dirs": [2, 4, 6], "limit2": [6]}]}}`, false,
		"[4 6] stay, want [6]"},
	{"a limit that is not understood",
		`{"hf_trainer": {"cases": [{"name": "test_checkpoint_rotation", "dirs": [2], "most": [2]}]}}`, true,
		`unknown field "most"`},
	{"a test that nobody knows", `{"hf_trainer": {"cases": [{"name": "test_luck"}]}}`, true, `"test_luck"`},
	{"a wrong goal of AdamW",
		`{"hf_trainer": {"cases": [{"name": "test_adam_w", "w0": [0], "target": [1], "loss": "MSE", "optimizer": "AdamW lr 0.2 wd 0", "steps": 100, "expect": [2], "tol": 0.1}]}}`, false, "weight 0 is"},
	{"weights and targets of other lengths",
		`{"hf_trainer": {"cases": [{"name": "test_adam_w", "w0": [0], "target": [1], "loss": "MSE", "optimizer": "AdamW lr 0.2 wd 0", "steps": 1, "expect": [2, 3], "tol": 0.1}]}}`, true, "1, 1 and 2 values"},
	{"accumulation", `{"hf_trainer": {"cases": [{"name": "test_gradient_accumulation"}]}}`, false, ""},
	{"a resumed run",
		`{"hf_trainer": {"cases": [{"name": "test_can_resume_training", "train_len": 16, "total_steps": 6, "save_steps": 2, "lr": 0.1, "resume_from": [2, 4]}]}}`, false, ""},
	{"skipped batches",
		`{"accelerate": {"skip_batches": {"dataset": 5, "batch": 2, "skip": 1, "expected": [[2, 3], [4]]}}}`, false,
		""},
	{"wrongly skipped batches",
		`{"accelerate": {"skip_batches": {"dataset": 5, "batch": 2, "skip": 1, "expected": [[2, 3]]}}}`, false,
		"[[2 3] [4]], want [[2 3]]"},
	{"a limit of updates",
		`{"pytorch_accelerated": {"max_steps": [{"batches": 5, "accumulation": 2, "epochs": 2, "max_steps": 4, "updates": 5}]}}`, false, "updates is 4, want 5"},
	{"epochs without a limit of updates",
		`{"pytorch_accelerated": {"max_steps": [{"batches": 6, "accumulation": 1, "epochs": 2, "max_steps": null, "updates": 12}]}}`, false, ""},
	{"a limit beyond the epochs",
		`{"pytorch_accelerated": {"max_steps": [{"batches": 6, "accumulation": 4, "epochs": 1, "max_steps": 5, "updates": 5}]}}`, false, ""},
	{"a mean loss",
		`{"pytorch_accelerated": {"loss_tracker": [{"losses": [1, 2, 6], "batch_sizes": null, "average": 3}]}}`, false,
		""},

	{"a batch that is no object", `{"config": {}, "dev_first8": []}`, true, "cannot unmarshal array"},
	{"a batch of some rows", `{"config": {}, "dev_first": {}}`, true, "does not say how many rows"},
	{"a setting of BERT that is not known", `{"config": {"layers": 2}, "train60": {}}`, true,
		`the field layers is not known`},
	{"an impossible BERT", `{"config": {"hidden_size": 3, "num_attention_heads": 2}, "dev_first1": {}}`, true,
		"HiddenSize is 3"},
	{"a BERT in another folder",
		`{"source": "../x", "config": {"vocab_size": 9, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 4}, "dev_first1": {}}`, true, `source is "../x"`},
	{"a training that is told otherwise",
		`{"training": "as always", "config": {}, "train60": {"columns": [], "rows": []}}`, true,
		`training is "as always"`},

	{"a text and its tokens", `{` + vocab + `"cases": [{"text": "The Dog", "ids": [2, 104, 0, 3]}]}`, false, "ids are"},
	{"a vocabulary that is not there", `{"cases": [{"text": "", "ids": []}], "vocab": "nowhere/vocab.txt"}`, false,
		"nowhere/vocab.txt"},
	{"a text without ids", `{` + vocab + `"cases": [{"text": ""}]}`, true, "want a field ids"},
	{"an unknown field of a text", `{` + vocab + `"cases": [{"text": "", "ids": [2, 3], "words": []}]}`, true,
		`unknown field "words"`},
	{"an empty text", `{` + vocab +
		`"cases": [{"text": "", "ids": [2, 3], "tokens": ["[CLS]", "[SEP]"], "offsets": [[0, 0], [0, 0]]}]}`, false,
		""},
	{"an empty pair", `{` + vocab + `"cases": [{"text": "", "pair": "", "ids": [2, 3, 3], "type_ids": [0, 0, 1]}]}`,
		false, ""},
	{"wrong tokens", `{` + vocab + `"cases": [{"text": "", "ids": [2, 3], "tokens": ["[CLS]", "[PAD]"]}]}`, false,
		"tokens are"},
}

func TestEntriesOfEachForm(t *testing.T) {
	testenv.RequireTorch(t)
	for _, c := range documents {
		t.Run(c.claim, func(t *testing.T) {
			entries, err := expected.Parse([]byte(c.text), expected.Options{})
			if err != nil || len(entries) != 1 {
				t.Fatalf("%d entries, error %v; want one entry", len(entries), err)
			}
			err = entries[0].Run()
			var missing *expected.Unsupported
			switch {
			case c.outcome == "" && err != nil:
				t.Error(err)
			case c.outcome != "" && (err == nil || !strings.Contains(err.Error(), c.outcome)):
				t.Errorf("error %q, want one with %q", fmt.Sprint(err), c.outcome)
			case errors.As(err, &missing) != c.unsupported:
				t.Errorf("%v: unsupported is %t, want %t", err, !c.unsupported, c.unsupported)
			}
		})
	}
}

func TestFilesOfNoKnownFormAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{"weather": 1}`:                        `["weather"]`,
		`[]`:                                    "cannot unmarshal array",
		`{"schedules": 1}`:                      `"schedules"`,
		`{"optimizers": {}}`:                    `"initial_parameters"`,
		`{"architecture": "relu", "total": ""}`: `"model"`,
		`{"trajectories": {}, "datasets": {"1": {"x": [1], "y": []}}}`: "1 x and 0 y",
	} {
		if _, err := expected.Parse([]byte(text), expected.Options{}); err == nil || !strings.Contains(err.Error(),
			want) {
			t.Errorf("%s: error %q, want one with %q", text, fmt.Sprint(err), want)
		}
	}
}

// FuzzParse only parses: training for the number of epochs in a random file might never end.
func FuzzParse(f *testing.F) {
	for _, c := range documents {
		f.Add(c.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		entries, err := expected.Parse([]byte(text), expected.Options{})
		if err != nil && len(entries) > 0 {
			t.Errorf("%d entries in addition to the error %v", len(entries), err)
		}
	})
}
