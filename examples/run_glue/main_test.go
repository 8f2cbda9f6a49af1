package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

func TestMain(m *testing.M) { os.Exit(testenv.Run(m)) }

func write(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

// base returns a folder with a tiny BERT of random weights and its vocabulary.
func base(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	torch.ManualSeed(3) // with some seeds the model does not learn the task in 40 updates
	m, err := bert.NewClassifier(bert.Config{VocabSize: 9, HiddenSize: 32, NumLayers: 1, NumHeads: 2,
		IntermediateSize: 32, MaxPositions: 32})
	require.NoError(t, err)
	require.NoError(t, m.Save(dir))
	write(t, filepath.Join(dir, "vocab.txt"), "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhe\nshe\nsang\nran\n")
	return dir
}

// mrpc returns a folder with GLUE's files, in which sentences are equivalent if they are equal.
func mrpc(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for part, n := range map[string]int{"train": 24, "dev": 6, "test": 3} {
		var b strings.Builder
		b.WriteString(map[bool]string{false: "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n",
			true: "index\t#1 ID\t#2 ID\t#1 String\t#2 String\n"}[part == "test"])
		for i := range n {
			first := i % 2
			if part == "test" {
				first = i
			}
			fmt.Fprintf(&b, "%d\t1\t2\the sang\t%s\n", first, []string{"she ran", "he sang"}[i%2])
		}
		write(t, filepath.Join(dir, part+".tsv"), b.String())
	}
	return dir
}

// TestTheGuidesCommand runs the command of the Trainer guide with a tiny model, and with
// do_predict.
func TestTheGuidesCommand(t *testing.T) {
	testenv.RequireTorch(t)
	out := filepath.Join(t.TempDir(), "mrpc")
	line := strings.Fields("--model_name_or_path " + base(t) + " --dataset_name " + mrpc(t) + ` --task_name mrpc
		--do_train --do_eval --do_predict --max_seq_length 16 --per_device_train_batch_size 4 --learning_rate 5e-3
		--num_train_epochs 8 --max_train_samples 20 --overwrite_output_dir --use_cpu --disable_tqdm true
		--output_dir ` + out)
	require.NoError(t, execute(t.Context(), line))
	var all map[string]float64
	text, err := os.ReadFile(filepath.Join(out, "all_results.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &all))
	for _, name := range []string{"train_loss", "train_runtime", "eval_loss", "eval_accuracy", "eval_f1"} {
		assert.Contains(t, all, name)
	}
	assert.InDelta(t, 20, all["train_samples"], 0)
	assert.InDelta(t, 6, all["eval_samples"], 0)
	assert.InDelta(t, 1, all["eval_accuracy"], 0, "equal and unequal pairs of four words")
	text, err = os.ReadFile(filepath.Join(out, "predict_results_mrpc.txt"))
	require.NoError(t, err)
	assert.Equal(t, "index\tprediction\n0\tnot_equivalent\n1\tequivalent\n2\tnot_equivalent\n", string(text))
	for _, name := range []string{"train_results.json", "eval_results.json", "trainer_state.json", "model.safetensors",
		"checkpoint-40"} {
		assert.FileExists(t, filepath.Join(out, strings.ReplaceAll(name, "checkpoint-40",
			"checkpoint-40/model.safetensors")))
	}
	again, err := auto.SequenceClassification(t.Context(), out, auto.Options{})
	require.NoError(t, err, "the folder loads as a model")
	assert.NotNil(t, again.Tokenizer)
}

// TestAFileInPlaceOfFlags reads the arguments from YAML, for evaluation only, and for a regression
// task.
func TestAFileInPlaceOfFlags(t *testing.T) {
	testenv.RequireTorch(t)
	dir := t.TempDir()
	out, file := filepath.Join(dir, "out"), filepath.Join(dir, "a.yaml")
	write(t, file, fmt.Sprintf("model_name_or_path: %s\ndataset_name: %s\ntask_name: mrpc\ndo_eval: true\n"+
		"max_eval_samples: 4\nuse_cpu: true\npad_to_max_length: false\noutput_dir: %s\n", base(t), mrpc(t), out))
	require.NoError(t, execute(t.Context(), []string{file}))
	assert.FileExists(t, filepath.Join(out, "eval_results.json"))

	sts := filepath.Join(dir, "sts")
	rows := "sentence1,sentence2,label\nhe sang,he sang,5\nshe ran,he sang,0.5\nhe ran,he sang,2.5\n"
	for _, part := range []string{"train", "validation", "test"} {
		write(t, filepath.Join(sts, part+".csv"), rows)
	}
	line := "--model_name_or_path " + base(t) + " --dataset_name " + sts + " --task_name stsb --do_train --do_eval " +
		"--do_predict --max_steps 2 --ignore_mismatched_sizes --use_cpu --output_dir " + out + "2"
	require.NoError(t, execute(t.Context(), strings.Fields(line)))
	text, err := os.ReadFile(filepath.Join(out+"2", "eval_results.json"))
	require.NoError(t, err)
	assert.Contains(t, string(text), "eval_spearmanr")
	text, err = os.ReadFile(filepath.Join(out+"2", "predict_results_stsb.txt"))
	require.NoError(t, err)
	assert.Regexp(t, `^index\tprediction\n0\t-?\d\.\d{3}\n1\t`, string(text))
}

// A model with the labels of the task in another order keeps its order, on which its weights
// depend.
func TestAModelKeepsTheOrderOfItsLabels(t *testing.T) {
	testenv.RequireTorch(t)
	model, out := base(t), filepath.Join(t.TempDir(), "new", "out")
	line := "--model_name_or_path %s --dataset_name " + mrpc(t) + " --task_name mrpc --max_seq_length 16 --use_cpu " +
		"--disable_tqdm true --output_dir %s "
	train := fmt.Sprintf(line, model, out+"1") + "--do_train --do_predict --per_device_train_batch_size 4 " +
		"--learning_rate 5e-3 --num_train_epochs 8"
	require.NoError(t, execute(t.Context(), strings.Fields(train)))
	m, err := auto.SequenceClassification(t.Context(), out+"1", auto.Options{ID2Label: []string{"A", "B"}})
	require.NoError(t, err)
	assert.Equal(t, []string{"A", "B"}, m.Head().ID2Label)
	turn(t, out+"1")
	require.NoError(t, execute(t.Context(), strings.Fields(fmt.Sprintf(line, out+"1", out+"2")+"--do_eval --do_predict")))
	text, err := os.ReadFile(filepath.Join(out+"2", "eval_results.json"))
	require.NoError(t, err)
	assert.Contains(t, string(text), `"eval_accuracy": 1.0`)
	one, err := os.ReadFile(filepath.Join(out+"1", "predict_results_mrpc.txt"))
	require.NoError(t, err)
	two, err := os.ReadFile(filepath.Join(out+"2", "predict_results_mrpc.txt"))
	require.NoError(t, err)
	assert.Equal(t, string(one), string(two))
}

func TestLabelsOfAnotherTaskAreIgnored(t *testing.T) {
	dir := t.TempDir()
	for _, config := range []string{`{"id2label": {"0": "no", "1": "yes"}}`, `{}`,
		`{"id2label": {"0": "equivalent", "1": "not_equivalent", "2": "unknown"}}`} {
		write(t, filepath.Join(dir, "config.json"), config)
		t.Chdir(dir)
		names, classes, err := labels(dir, []string{"not_equivalent", "equivalent"})
		require.NoError(t, err)
		assert.Equal(t, []string{"not_equivalent", "equivalent"}, names, config)
		assert.Equal(t, []int64{0, 1}, classes, config)
	}
}

// turn swaps the two classes of a saved model.
func turn(t *testing.T, dir string) {
	t.Helper()
	config := filepath.Join(dir, "config.json")
	text, err := os.ReadFile(config)
	require.NoError(t, err)
	turned := strings.NewReplacer(`"0": "not_equivalent"`, `"0": "Equivalent"`,
		`"1": "equivalent"`, `"1": "Not_Equivalent"`, `"not_equivalent": 0`, `"Equivalent": 0`, `"equivalent": 1`, `"Not_Equivalent": 1`).Replace(string(text))
	require.NotEqual(t, string(text), turned)
	require.NoError(t, os.WriteFile(config, []byte(turned), 0o600))
	m, err := auto.SequenceClassification(t.Context(), dir, auto.Options{})
	require.NoError(t, err)
	require.Equal(t, []string{"Equivalent", "Not_Equivalent"}, m.Head().ID2Label)
	torch.NoGrad(func() {
		for _, p := range nn.Params(m) {
			if strings.HasPrefix(p.Name, "classifier.") {
				p.Tensor.Copy_(p.Tensor.Flip(0))
			}
		}
	})
	require.NoError(t, m.Save(dir))
}

func TestWrongCommandLines(t *testing.T) {
	testenv.RequireTorch(t)
	model, data := base(t), mrpc(t)
	for line, want := range map[string]string{
		"--task_name mrpc":       "model_name_or_path",
		"--model_name_or_path x": "task_name",
		"--model_name_or_path M --task_name mrcp --dataset_name D":                                "--task_name: glue",
		"--model_name_or_path M --task_name mrpc --dataset_name D --torch_compile":                "torch_compile",
		"--model_name_or_path M --task_name mrpc --dataset_name D --do_train --learning_rat fast": "learning_rate",
		"--model_name_or_path M --task_name mrpc --dataset_name D --preprocessing_num_workers 4":  "preprocessing",
		"--model_name_or_path D --task_name mrpc --dataset_name D --do_eval":                      "holds no model",
	} {
		fields := strings.Fields(line)
		for i := range fields {
			switch fields[i] {
			case "M":
				fields[i] = model
			case "D":
				fields[i] = data
			}
		}
		assert.ErrorContains(t, execute(t.Context(), fields), want, line)
	}
}
