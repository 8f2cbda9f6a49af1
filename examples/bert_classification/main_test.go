package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/distilbert"
	"github.com/gotrainer/gotrainer/text"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// printed runs the command and returns its output.
func printed(t *testing.T, args ...string) (string, error) {
	t.Helper()
	o, err := parse(args)
	if err != nil {
		return "", err
	}
	return testenv.Stdout(t, func() error { return execute(context.Background(), o) })
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestFindsSpam runs -quick: three epochs of the default task, on which always answering ham has an
// accuracy of 0.87.
func TestFindsSpam(t *testing.T) {
	testenv.RequireTorch(t)
	if testing.Short() {
		t.Skip("trains for a quarter of a minute")
	}
	out := filepath.Join(t.TempDir(), "run")
	text, err := printed(t, "-out", out, "-quick")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?s)messages held aside .*│ texts +│ 836 .*│ accuracy +│ ([\d.]+) %`).FindStringSubmatch(text)
	if row == nil {
		t.Fatalf("the table has no column of the 836 messages held aside:\n%s", text)
	}
	if accuracy, err := strconv.ParseFloat(row[1], 64); err != nil || accuracy < 95 {
		t.Errorf("accuracy %s %%, want at least 95 (error %v)", row[1], err)
	}
	for _, want := range []string{"texts that no training text equals", `is \ was taken for`, "misread.tsv"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
	if saved, err := filepath.Glob(filepath.Join(out, "checkpoint-*", "tokenizer.json")); err != nil ||
		len(saved) != 1 {
		t.Errorf("checkpoints with a tokenizer: %v, want the one that is kept (%v)", saved, err)
	}
	for _, name := range []string{"curves.png", "misread.tsv", "metrics.jsonl", "metrics.csv",
		"model/model.safetensors", "model/config.json", "model/tokenizer.json", "model/tokenizer_config.json"} {
		if info, err := os.Stat(filepath.Join(out, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s is missing or empty: %v", name, err)
		}
	}
	for message, want := range map[string]string{
		"URGENT! You have won a 1 week FREE membership in our £100,000 prize. Call 09061701461 now to claim": "spam",
		"sorry i missed your call, will be home by six":                                                      "ham",
	} {
		if text, err := printed(t, "-out", out, "-predict", message); err != nil || !strings.HasPrefix(text,
			want+"\t") || !strings.HasSuffix(text, "\t"+message+"\n") {
			t.Errorf("-predict %q printed %q, error %v; want %s", message, text, err, want)
		}
	}
	if _, err = printed(t, "-out", out, "-quick"); err == nil || !strings.Contains(err.Error(), "-resume") {
		t.Errorf("a second run in the same folder: error %v, want one that says how to resume", err)
	}
	if _, err = printed(t, "-out", out, "-quick", "-resume"); err != nil {
		t.Errorf("-resume: %v", err)
	}
}

// TestAStoppedRunGoesOnToTheSameModel stops a run after its first log and resumes it. The weights
// must be those of an uninterrupted run.
func TestAStoppedRunGoesOnToTheSameModel(t *testing.T) {
	testenv.RequireTorch(t)
	args := []string{"-task", "csv", "-train", weather(t, 120), "-epochs", "4", "-batch", "4", "-log", "5", "-layers",
		"1", "-hidden", "32", "-threads", "1"}
	whole, halved := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "halved")
	if _, err := printed(t, append(args, "-out", whole)...); err != nil {
		t.Fatal(err)
	}
	o, err := parse(append(args, "-out", halved))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			if log, err := os.Stat(filepath.Join(halved, "metrics.jsonl")); err == nil && log.Size() > 0 {
				cancel()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	if err := execute(ctx, o); err == nil || !strings.Contains(err.Error(), "continue with it by -resume") {
		t.Fatalf("error %v, want one that names -resume", err)
	}
	if _, err := printed(t, append(args, "-out", halved, "-resume")...); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"model.safetensors", "tokenizer.json"} {
		a, err := os.ReadFile(filepath.Join(modelFolder(whole), name))
		if err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(filepath.Join(modelFolder(halved), name)); err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s differs after a resume (error %v)", name, err)
		}
	}
}

// weather writes a CSV file with texts of three classes.
func weather(t *testing.T, n int) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("text,label,other\n")
	for i := range n {
		words := []string{"sun and sand", "snow and ice", "rain and wind"}
		fmt.Fprintf(&b, "\"%s, day %d\",%s,x\n", words[i%3], i, []string{"summer", "winter", "autumn"}[i%3])
	}
	path := filepath.Join(t.TempDir(), "weather.csv")
	write(t, path, b.String())
	return path
}

func TestPairsOfGLUEAndALinePredictedWithATab(t *testing.T) {
	testenv.RequireTorch(t)
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "run")
	for part, n := range map[string]int{"train": 24, "dev": 6} {
		var b strings.Builder
		b.WriteString("\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n")
		for i := range n {
			fmt.Fprintf(&b, "%d\t1\t2\tHe said \"%d.\t%s %d.\n", i%2, i, []string{"She sang", "He said"}[i%2], i)
		}
		write(t, filepath.Join(dir, part+".tsv"), b.String())
	}
	text, err := printed(t, "-task", "mrpc", "-data", dir, "-out", out, "-steps", "3", "-batch", "4", "-layers", "1",
		"-hidden", "32")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text, "validation set of MRPC") || !strings.Contains(text, "not_equivalent") {
		t.Errorf("the report:\n%s", text)
	}
	text, err = printed(t, "-out", out, "-predict", "-json", "He said so.\tHe said so.")
	var got struct {
		Label  string
		Score  float64
		Logits []float32
		IDs    []int64 `json:"input_ids"`
		Text   string
	}
	if err != nil || json.Unmarshal([]byte(text), &got) != nil {
		t.Fatalf("-json printed %q, error %v", text, err)
	}
	separators := 0
	for _, id := range got.IDs {
		if id == got.IDs[len(got.IDs)-1] {
			separators++
		}
	}
	if separators != 2 || len(got.Logits) != 2 || got.Score < 0.5 || got.Score > 1 ||
		got.Text != "He said so.\tHe said so." {
		t.Errorf("-json printed %+v; want a pair, hence two [SEP], two logits and the score of the larger one", got)
	}
}

// TestAnEmptySecondTextIsATextOfAPair tests an empty second text, also in the first row.
func TestAnEmptySecondTextIsATextOfAPair(t *testing.T) {
	testenv.RequireTorch(t)
	dir := t.TempDir()
	for _, name := range []string{"train.tsv", "dev.tsv"} {
		write(t, filepath.Join(dir, name), "index\tsentence1\tsentence2\tlabel\n0\ta\t\t0\n1\tb\tc\t1\n")
	}
	write(t, filepath.Join(dir, "pairs.csv"), "text,second,label\na,,x\nb,c,y\n")
	write(t, filepath.Join(dir, "train.csv"), "text,label\na,x\nb,y\n")
	tokenizer, err := text.NewBert(map[string]int64{"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "a": 5,
		"b": 6, "c": 7}, text.BertOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := bert.NewClassifier(bert.Config{VocabSize: 8, HiddenSize: 32, NumLayers: 1, NumHeads: 2,
		IntermediateSize: 32, MaxPositions: 16})
	if err != nil {
		t.Fatal(err)
	}
	pairs, file := filepath.Join(dir, "pairs.csv"), filepath.Join(dir, "train.csv")
	for _, c := range []struct {
		o    options
		want []int64
	}{
		{options{task: "wnli", data: dir}, []int64{2, 5, 3, 3}},
		{options{task: "csv", train: pairs, valid: pairs, text: "text", pair: "second", label: "label"},
			[]int64{2, 5, 3, 3}},
		{options{task: "csv", train: file, valid: file, text: "text", label: "label"}, []int64{2, 5, 3}},
	} {
		task, err := openTask(t.Context(), c.o)
		if err != nil {
			t.Fatal(err)
		}
		s, err := classifier{model: m, tokenizer: tokenizer}.sample(task.train[0])
		if err != nil || !slices.Equal(s.InputIDs, c.want) {
			t.Errorf("%s: %v, %v; want %v", c.o.task, s.InputIDs, err, c.want)
		}
		if words := slices.Collect(task.texts()); len(words) != 2*(len(c.want)-2) {
			t.Errorf("%s: the vocabulary is made of %q", c.o.task, words)
		}
	}
}

func TestAModelOfAFolderIsFineTunedAndItsLastLayerIsNew(t *testing.T) {
	testenv.RequireTorch(t)
	base, out := filepath.Join(t.TempDir(), "base"), filepath.Join(t.TempDir(), "tuned")
	file := weather(t, 60)
	if _, err := printed(t, "-task", "csv", "-train", file, "-out", base, "-steps", "2", "-layers", "1", "-hidden",
		"32", "-padding-free"); err != nil {
		t.Fatal(err)
	}
	two := filepath.Join(t.TempDir(), "two.csv")
	write(t, two, "message,kind\nsun and sand,warm\nsnow and ice,cold\nrain and wind,cold\nsand,warm\n")
	text, err := printed(t, "-model", modelFolder(base), "-task", "csv", "-train", two, "-valid", two, "-text",
		"message", "-label", "kind", "-out", out, "-steps", "2", "-padding-free")
	if err != nil || !strings.Contains(text, "warm") {
		t.Fatalf("error %v, report:\n%s", err, text)
	}
	c, err := loadClassifier(t.Context(), modelFolder(out), auto.Options{})
	if err != nil || strings.Join(c.model.Head().ID2Label, " ") != "cold warm" {
		t.Errorf("the tuned model has the classes %q, error %v; want cold and warm", c.model.Head().ID2Label, err)
	}
	if _, err := printed(t, "-model", modelFolder(base), "-task", "csv", "-train", two, "-valid", two, "-text",
		"message", "-label", "kind", "-out", out+"2", "-max-length", "500"); err == nil ||
		!strings.Contains(err.Error(), "positions for 128") {
		t.Errorf("error %v, want one about 128 positions", err)
	}
}

// TestModelsOfOtherKinds tests DistilBERT, which has no token types, and that a model that cannot
// classify texts is rejected with an error that names it.
func TestModelsOfOtherKinds(t *testing.T) {
	testenv.RequireTorch(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "t5", "config.json"), `{"model_type": "t5"}`)
	if _, err := printed(t, "-predict", "-model", filepath.Join(dir, "t5"), "x"); err == nil ||
		!strings.Contains(err.Error(), `model_type is "t5"; want one of ["bart" "bert" `) {
		t.Errorf("error %v, want one that names t5", err)
	}
	words := "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n"
	distil := filepath.Join(dir, "distilbert")
	m, err := distilbert.NewClassifier(distilbert.Config{VocabSize: 7, Dim: 32, NumLayers: 1, NumHeads: 2,
		HiddenDim: 32, MaxPositions: 16})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Save(distil); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(distil, "vocab.txt"), words)
	if text, err := printed(t, "-predict", "-model", distil, "a\tb"); err != nil || !strings.HasPrefix(text, "LABEL_") {
		t.Errorf("DistilBERT printed %q, error %v", text, err)
	}
	number := filepath.Join(dir, "number")
	r, err := bert.NewClassifier(bert.Config{VocabSize: 7, HiddenSize: 32, NumLayers: 1, NumHeads: 2,
		IntermediateSize: 32, MaxPositions: 16, Head: classify.Head{NumLabels: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Save(number); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(number, "vocab.txt"), words)
	if _, err := printed(t, "-predict", "-model", number, "a"); err == nil || !strings.Contains(err.Error(),
		"regression") {
		t.Errorf("error %v, want one that says that the model is a regression", err)
	}
}

func TestLinesOfStandardInput(t *testing.T) {
	testenv.RequireTorch(t)
	out := filepath.Join(t.TempDir(), "run")
	if _, err := printed(t, "-task", "csv", "-train", weather(t, 30), "-out", out, "-steps", "1", "-layers", "1",
		"-hidden", "32"); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := predict(options{out: out}, strings.NewReader("sun\n\nsnow and ice"), &b); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(b.String(), "\n"); len(lines) != 4 || !strings.HasSuffix(lines[0], "\tsun") ||
		!strings.HasSuffix(lines[1], "\t") {
		t.Errorf("printed %q; want a line for each of three texts, the second empty", b.String())
	}
}

func TestWrongCommandLinesAreSentences(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"spam?"}, "give texts to classify after -predict"},
		{[]string{"-json"}, "is for -predict"},
		{[]string{"-task", "csv"}, "needs -train FILE"},
		{[]string{"-train", "x.csv"}, "are for -task csv"},
		{[]string{"-data", "x"}, "has its own texts"},
		{[]string{"-task", "csv", "-train", "x.csv", "-data", "x"}, "-data is for the tasks of GLUE"},
		{[]string{"-steps", "-3"}, "-steps is -3; want a positive number"},
		{[]string{"-epochs", "-1"}, "-epochs is -1"},
		{[]string{"-batch", "-8"}, "-batch is -8"},
		{[]string{"-lr", "-5e-5"}, "-lr is -5e-05"},
		{[]string{"-max-length", "-1"}, "-max-length is -1"},
		{[]string{"-log", "-1"}, "-log is -1"},
		{[]string{"-predict", "-threads", "-1", "x"}, "-threads is -1"},
		{[]string{"-steps", "3", "-epochs", "1"}, "-steps and -epochs both set"},
		{[]string{"-hold-out", "1"}, "between 0 and 1"},
		{[]string{"-drop-words", "1"}, "share below 1"},
		{[]string{"-hidden", "50"}, "multiple of 32"},
		{[]string{"-semantics", "hezar"}, "default or huggingface"},
	} {
		if _, err := parse(c.args); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: error %v, want one with %q", c.args, err, c.want)
		}
	}
	testenv.RequireTorch(t)
	t.Setenv("HF_HUB_OFFLINE", "1")
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	dir, half := t.TempDir(), t.TempDir()
	write(t, filepath.Join(half, "train.tsv"), "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t1\t2\ta\tb\n")
	nothing := filepath.Join(dir, "nothing")
	one, unlabelled, other := filepath.Join(dir, "one.csv"), filepath.Join(dir, "unlabelled.csv"),
		filepath.Join(dir, "other.csv")
	write(t, one, "text,label\na,x\nb,x\n")
	write(t, unlabelled, "text,label\na,x\nb,\n")
	write(t, other, "text,label\na,x\nb,y\n")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-out", nothing, "-predict", "x"}, "train one first"},
		{[]string{"-task", "mrcp"}, "want sms, csv or a task of GLUE"},
		{[]string{"-task", "stsb"}, "predicts numbers"},
		{[]string{"-task", "mrpc"}, "nyu-mll/glue"}, // the Hub is not asked
		{[]string{"-task", "mrpc", "-data", half}, "lacks the training or the validation set of MRPC"},
		{[]string{"-task", "mrpc", "-data", nothing}, nothing},
		{[]string{"-task", "mrpc", "-data", dir}, "MRPC"},
		{[]string{"-task", "csv", "-train", nothing + ".csv"}, nothing},
		{[]string{"-task", "csv", "-train", one}, "at least two classes"},
		{[]string{"-task", "csv", "-train", other}, "2 texts to learn from and 0 to evaluate with"},
		{[]string{"-task", "csv", "-train", unlabelled}, "has no label"},
		{[]string{"-task", "csv", "-train", one, "-text", "body"}, `no column "body"`},
		{[]string{"-task", "csv", "-train", other, "-valid", one, "-pair", "second"}, `no column "second"`},
		{[]string{"-task", "csv", "-train", other, "-valid", other, "-model", nothing}, "no name on the Hub"},
		{[]string{"-task", "csv", "-train", other, "-valid", other, "-model", one}, "is a file"},
		{[]string{"-task", "csv", "-train", other, "-valid", other, "-model", dir}, "holds no model"},
		{[]string{"-out", "/dev/null/run", "-steps", "1"}, "/dev/null"},
	} {
		if _, err := printed(t, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: error %v, want one with %q", c.args, err, c.want)
		}
	}
}
