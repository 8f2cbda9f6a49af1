package vectors_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/internal/conformance/vectors"
	"github.com/gotrainer/gotrainer/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// pictures were made by compat/hezar/preprocessors/testdata/golden.py.
const pictures = "../../../compat/hezar/preprocessors/testdata/images"

func TestPicturesAreThoseOfHezar(t *testing.T) {
	testenv.RequireTorch(t)
	outcomes := vectors.Run(pictures, "")
	if len(outcomes) < 12 {
		t.Errorf("%d pictures, want at least 12", len(outcomes))
	}
	for _, o := range outcomes {
		if o.Err != nil || o.Worst != 0 {
			t.Errorf("%s: %v (deviation %g)", o.Name, o.Err, o.Worst)
		}
	}
}

func TestRecordedVectorsHold(t *testing.T) {
	testenv.RequireTorch(t)
	const cases = "../../../../shared/conformance/cases"
	indexes, err := filepath.Glob(cases + "/hezar_*/*/*.json")
	if err != nil || len(indexes) == 0 {
		t.Skipf("the recorded vectors are not here (%v)", err)
	}
	ran := 0
	for _, index := range append(indexes, cases+"/hezar_text/vectors.json") {
		dir := filepath.Dir(index)
		for _, o := range vectors.Run(dir, "../../../../shared/data") {
			// Results of models were recorded on other code paths than those of the tests;
			// internal/conformance compares them bitwise on the recorded ones.
			models := strings.Contains(dir, "hezar_forward") || strings.Contains(dir, "_dataset")
			if ran++; o.Err != nil || o.Worst != 0 && !models {
				t.Errorf("%s: %v (deviation %g, beginning at %s)", o.Name, o.Err, o.Worst, o.Begins)
			}
		}
	}
	if ran < 45 {
		t.Errorf("%d vectors, want at least 45", ran)
	}
}

// TestAnotherPassIsFound changes one number of a recorded pass at a time.
func TestAnotherPassIsFound(t *testing.T) {
	testenv.RequireTorch(t)
	const recorded = "../../../../shared/conformance/cases/hezar_forward/bert_eval_ragged"
	raw, err := os.ReadFile(recorded + "/result.json")
	if err != nil {
		t.Skipf("the recorded passes are not here: %v", err)
	}
	tensors, err := os.ReadFile(recorded + "/case.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ claim, from, to, want string }{
		{"another loss", `"loss": "0x1.3`, `"loss": "0x1.2`, "loss is"},
		{"another seed of the weights", `"formula": 31`, `"formula": 32`, "logits is"},
		{"another activation", `"vocab_size": 60`, `"vocab_size": 60, "hidden_act": "relu"`, "logits is"},
		{"a parameter without gradient", `"parameters_without_gradient": []`, `"parameters_without_gradient": ["x"]`,
			"parameters_without_gradient is"},
		{"another class", `"label": "c"`, `"label": "b"`, "predict[0]"},
		{"another kind", `"kind": "bert"`, `"kind": "gpt"`, `model.kind is "gpt"`},
	} {
		if !strings.Contains(string(raw), c.from) {
			t.Fatalf("%s: there is no %s to change", c.claim, c.from)
		}
		dir := t.TempDir()
		for name, content := range map[string]string{"result.json": strings.Replace(string(raw), c.from, c.to, 1),
			"case.safetensors": string(tensors)} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if o := vectors.Run(dir, ""); len(o) != 1 || o[0].Err == nil ||
			!strings.Contains(o[0].Err.Error(), c.want) {
			t.Errorf("%s: %+v, want an error with %q", c.claim, o, c.want)
		}
	}
}

// functions has lists in the format of the recordings, each with one correct row.
const functions = `{
	"cer_wer": [{"predictions": ["ab"], "references": ["ac"], "cer": 0.5, "cer_concatenated": 0.5, "wer": 1.0,
			"wer_concatenated": 1.0, "cer_4_decimals": 0.5},
		{"predictions": ["a"], "references": [""], "cer": "ZeroDivisionError", "cer_concatenated": 1.0,
			"wer": "ZeroDivisionError", "wer_concatenated": 1.0, "cer_4_decimals": "ZeroDivisionError"}],
	"classification": [{"predictions": [0, 1, 1], "labels": [0, 1, 0],
		"accuracy": 0.6667, "precision": 0.75, "recall": 0.75, "f1": 0.6667}],
	"ctc_greedy": [{"argmax": [1, 1, 0, 1, 2], "greedy": [1, 1, 2], "padded": [1, 1, 2, 0, 0]}],
	"reverse_digits": [{"in": "12b3", "out": "3b21"}],
	"normalizer": {"patterns": [["b", "c"]], "rows": [{"in": "\ufb01b", "default": "fib", "with_patterns": "fic"}]},
	"valid_text": {"charset": ["", "a"], "rows": [{"in": "a\n", "valid": true}, {"in": "b", "valid": false}]},
	"padding": [{"inputs": [[1, 2], [3]], "padding": "max_length", "max_length": 3, "padding_side": "left", "pad_id": 9,
		"out": [[9, 1, 2], [9, 9, 3]]}, {"inputs": [[1]], "padding": "x", "out": "ValueError"}],
	"shift_right": [{"ids": [[1, -100, 2]], "pad": 0, "start": 7, "out": [[7, 1, 0]]}],
	"sampler": [{"n": 10, "batch_size": 3, "start_index": 6, "shuffle": true, "seed": 42, "len": 10,
		"batches": [[9, 4, 0], [1]]}],
	"seqeval": {"rows": [{"predictions": [["B-A", "O"]], "references": [["B-A", "B-B"]],
		"precision": 1.0, "recall": 0.5, "f1": 0.6667, "accuracy": 0.5}]}
}`

func run(t *testing.T, name, text string) map[string]error {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "lists")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	errs := map[string]error{}
	for _, o := range vectors.Run(dir, "") {
		errs[o.Name] = o.Err
	}
	return errs
}

func TestListsOfFunctionsHold(t *testing.T) {
	errs := run(t, "vectors.json", functions)
	for name, err := range errs {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(errs) != 10 {
		t.Errorf("%d lists, want 10", len(errs))
	}
}

// TestEveryDifferenceIsFound changes one thing at a time; its list must fail, and no other.
func TestEveryDifferenceIsFound(t *testing.T) {
	for _, c := range []struct{ list, from, to string }{
		{"cer_wer", `"cer": 0.5`, `"cer": 0.500000001`},
		{"cer_wer", `"wer": 1.0`, `"wer": 0.5`},
		{"cer_wer", `"cer_concatenated": 0.5`, `"cer_concatenated": 0.4`},
		{"classification", `"recall": 0.75`, `"recall": 0.7501`},
		{"ctc_greedy", `"greedy": [1, 1, 2]`, `"greedy": [1, 2]`},
		{"ctc_greedy", `[1, 1, 2, 0, 0]`, `[1, 1, 2, 0]`},
		{"reverse_digits", `3b21`, `12b3`},
		{"normalizer", `"fib"`, `"ﬁb"`},
		{"normalizer", `"fic"`, `"fib"`},
		{"valid_text", `{"in": "b", "valid": false}`, `{"in": "b", "valid": true}`},
		{"padding", `[9, 9, 3]`, `[3, 9, 9]`},
		{"padding", `"padding": "x"`, `"padding": "longest"`},
		{"shift_right", `[[7, 1, 0]]`, `[[7, 1, -100]]`},
		{"sampler", `[[9, 4, 0], [1]]`, `[[9, 4, 1], [0]]`},
		{"sampler", `"len": 10`, `"len": 4`},
		{"seqeval", `"recall": 0.5`, `"recall": 1.0`},
		{"seqeval", `"rows": [{"pred`, `"rows": [], "_": [{"pred`},
	} {
		if !strings.Contains(functions, c.from) {
			t.Fatalf("there is no %s to change", c.from)
		}
		for name, err := range run(t, "vectors.json", strings.Replace(functions, c.from, c.to, 1)) {
			if hit := filepath.Base(name) == c.list; hit != (err != nil) {
				t.Errorf("%s instead of %s: %s: error %v", c.to, c.from, name, err)
			}
		}
	}
}

func TestWhatIsNotKnownIsUnsupported(t *testing.T) {
	testenv.RequireTorch(t)
	for claim, c := range map[string]struct{ file, text string }{
		"another list":      {"vectors.json", `{"padding": [{"inputs": [[1]], "out": [[1]]}], "bleu": []}`},
		"another recording": {"result.json", `{"spectrogram": 1}`},
		"another data set": {"result.json",
			`{"image_processor": {}, "dataset": {"text_split_type": "tokenize"}, "rows": []}`},
		"another config": {"result.json", `{"image_processor": {"crop": 1}, "dataset": {}, "rows": []}`},
	} {
		found := false
		for _, err := range run(t, c.file, c.text) {
			var u *spec.Unsupported
			found = found || errors.As(err, &u)
		}
		if !found {
			t.Errorf("%s is not reported as unsupported", claim)
		}
	}
	for claim, text := range map[string]string{"no JSON": "{", "no object": "[]"} {
		for _, err := range run(t, "result.json", text) {
			if err == nil {
				t.Errorf("%s is no error", claim)
			}
		}
	}
	if o := vectors.Run(t.TempDir(), ""); len(o) != 1 || !errors.Is(o[0].Err, os.ErrNotExist) {
		t.Errorf("an empty folder gives %+v", o)
	}
}

// TestAnotherPictureIsFound flips bits of a recorded result.
func TestAnotherPictureIsFound(t *testing.T) {
	testenv.RequireTorch(t)
	dir := filepath.Join(t.TempDir(), "images")
	if err := os.CopyFS(dir, os.DirFS(pictures)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "case.safetensors")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	header := struct {
		Out struct {
			Offsets [2]int `json:"data_offsets"`
		} `json:"out.all"`
	}{}
	size := int(raw[0]) | int(raw[1])<<8
	if err := json.Unmarshal(raw[8:8+size], &header); err != nil {
		t.Fatal(err)
	}
	raw[8+size+header.Out.Offsets[0]] ^= 1
	if err := os.WriteFile(path, raw, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, o := range vectors.Run(dir, "") {
		if hit := strings.HasSuffix(o.Name, "/all"); hit != (o.Err != nil) {
			t.Errorf("%s: error %v", o.Name, o.Err)
		}
	}
}
