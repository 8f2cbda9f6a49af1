package hub_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gotrainer/gotrainer/hub"
	"github.com/gotrainer/gotrainer/hub/hubtest"
)

// fromPython is the content of testdata/card.json, written by card.py with transformers'
// TrainingSummary.
type fromPython struct {
	Transformers string
	Cases        map[string]struct {
		Log  json.RawMessage
		Text string
	}
	Floats [][]any
	Globs  [][]json.RawMessage
	Names  []string
}

func loadGolden(t *testing.T) (g fromPython) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "card.json"))
	if err == nil {
		err = json.Unmarshal(text, &g)
	}
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestModelCardIsTheOneOfTransformers(t *testing.T) {
	g := loadGolden(t)
	versions := hub.Values{{Name: "Transformers", Value: g.Transformers}}
	for name, card := range map[string]*hub.ModelCard{
		"full": {
			ModelName: "bert-mrpc", Language: []string{"en"}, License: "apache-2.0",
			BaseModel: "google-bert/bert-base-uncased", Tasks: []string{"text-classification"},
			Datasets: []hub.CardDataset{{Name: "GLUE", Tag: "glue", Config: "mrpc", Split: "validation", Args: "mrpc"}},
			Hyperparameters: hub.Values{
				{Name: "learning_rate", Value: 5e-5}, {Name: "train_batch_size", Value: 8}, {Name: "eval_batch_size",
					Value: 8}, {Name: "seed", Value: 42},
				{Name: "lr_scheduler_type", Value: "linear"}, {Name: "num_epochs", Value: 3.0},
				{Name: "lr_scheduler_warmup_steps", Value: 0.1}, {Name: "epsilon", Value: 1e-8},
			},
		},
		"scratch": {ModelName: "scratch", Tags: []string{}},
		"two datasets": {
			ModelName: "two: sets", Tags: []string{"a", "yes", "1.0"}, Tasks: []string{"text-classification",
				"fill-mask", "no-such-task"},
			Datasets:        []hub.CardDataset{{Name: "A", Tag: "a"}, {Name: "B", Tag: "b"}, {Name: "C", Tag: "c"}},
			Hyperparameters: hub.Values{{Name: "x", Value: nil}, {Name: "y", Value: true}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			card.LibraryName, card.Versions = "transformers", versions
			want, ok := g.Cases[name]
			if !ok {
				t.Fatal("card.py has no such case")
			}
			if string(want.Log) != "null" {
				if err := card.AddTrainerState([]byte(`{"log_history": ` + string(want.Log) + `}`)); err != nil {
					t.Fatal(err)
				}
			}
			got, err := card.Markdown()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.Text, string(got)); diff != "" {
				t.Errorf("Markdown differs from transformers' (-python +go):\n%s", diff)
			}
		})
	}
}

func TestNumbersOfTheCardAreRoundedAsTransformersDoes(t *testing.T) {
	for _, f := range loadGolden(t).Floats {
		if got := hub.Rounded(f[0]); got != f[1] {
			t.Errorf("rounded(%v) = %s, transformers prints %s", f[0], got, f[1])
		}
	}
}

func TestPatternsMatchAsPythonsDo(t *testing.T) {
	g := loadGolden(t)
	for _, row := range g.Globs {
		var glob string
		var matching []string
		if err := json.Unmarshal(row[0], &glob); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(row[1], &matching); err != nil {
			t.Fatal(err)
		}
		for _, name := range g.Names {
			want := false
			for _, m := range matching {
				want = want || m == name
			}
			if got, err := hub.Match(glob, name); err != nil || got != want {
				t.Errorf("Match(%q, %q) = %v, %v; Python says %v", glob, name, got, err, want)
			}
		}
	}
}

func TestCardsOfUnevenRows(t *testing.T) {
	card := hub.ModelCard{
		ModelName: "x", Description: "Reads plates.", Results: hub.Values{{Name: "Cer", Value: 0.0123456}},
		Tasks: []string{"image-to-text"}, Datasets: []hub.CardDataset{{Tag: "plates"}},
		History: []hub.Values{{{Name: "Step", Value: 1}, {Name: "a|b", Value: "x\ny|z"}}, {{Name: "Cer", Value: 0.5}}},
	}
	text, err := card.Markdown()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"library_name: gotrainer\n", "tags:\n- generated_from_trainer\n", "metrics:\n- cer\n",
		"      value: 0.0123456\n", "- Cer: 0.0123\n", "\nReads plates.\n",
		`| Step | a\|b   | Cer |`, `| 1    | x y\|z |     |`, `|      |        | 0.5 |`, "on the plates dataset.",
		"- Go ",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the card lacks %q:\n%s", want, text)
		}
	}
	metadata, body, err := hub.ParseCard(text)
	if err != nil || metadata["library_name"] != "gotrainer" || !strings.HasPrefix(body, "\n<!--") {
		t.Errorf("ParseCard = %v, %.20q, %v", metadata, body, err)
	}
}

func TestParseCard(t *testing.T) {
	for _, c := range []struct {
		name, text, body string
		keys             int
		fails            bool
	}{
		{"no front matter", "# Title\n", "# Title\n", 0, false},
		{"front matter", "---\na: 1\nb: 2\n---\nbody\n", "body\n", 2, false},
		{"Windows line ends", "---\r\na: 1\r\n---\r\nbody\r\n", "body\r\n", 1, false},
		{"a byte order mark and empty lines", "\ufeff\n\n---\na: 1\n---\n", "", 1, false},
		{"a ruler is no front matter", "---\ntext\n", "---\ntext\n", 0, false},
		{"dashes in a title", "--- a ---\n---\n", "--- a ---\n---\n", 0, false},
		{"a list is no mapping", "---\n- a\n---\n", "", 0, true},
		{"broken YAML", "---\na: [\n---\n", "", 0, true},
		{"empty front matter", "---\n---\nx", "x", 0, false},
		{"a bomb of aliases", "---\na: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c " +
			"[*b,*b,*b,*b,*b,*b,*b,*b,*b]\n" +
			"d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f " +
			"[*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f,*f]\n---\n", "", 0, true},
		{"a front matter without end", "---\n" + strings.Repeat("a\n", 1<<20), "", 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			metadata, body, err := hub.ParseCard([]byte(c.text))
			if (err != nil) != c.fails || body != c.body || len(metadata) != c.keys {
				t.Errorf("ParseCard = %v, %.40q, %v; want %d keys, %.40q", metadata, body, err, c.keys, c.body)
			}
		})
	}
}

func TestTrainerStateThatIsNone(t *testing.T) {
	for _, text := range []string{"", "[]", `{"log_history": 3}`, `{"log_history": [3]}`,
		`{"log_history": [{"a": 1e999}]}`} {
		if err := new(hub.ModelCard).AddTrainerState([]byte(text)); err == nil {
			t.Errorf("AddTrainerState(%q) = nil, want an error", text)
		}
	}
	card := hub.ModelCard{Results: hub.Values{{Name: "Loss", Value: 1.0}}}
	if err := card.AddTrainerState([]byte(`{"log_history": [{"loss": 1}]}`)); err != nil || len(card.Results) != 1 ||
		card.History != nil {
		t.Errorf("a state without evaluations: %+v, %v; want nothing changed", card, err)
	}
}

func TestACardTakesThePlaceOfTheReadme(t *testing.T) {
	w := newWorld(t)
	card := &hub.ModelCard{ModelName: "bert"}
	dir := write(t, t.TempDir(), map[string][]byte{"README.md": []byte("old"), "a": []byte("a")})
	if _, err := w.client.Push(w.ctx, "me/bert", dir, hub.PushOptions{Card: card}); err != nil {
		t.Fatal(err)
	}
	want, err := card.Markdown()
	if err != nil {
		t.Fatal(err)
	}
	if got := w.Files(hubtest.Model, "me/bert", "main")["README.md"]; !bytes.Equal(got, want) {
		t.Errorf("README.md on the Hub:\n%s", got)
	}
}
