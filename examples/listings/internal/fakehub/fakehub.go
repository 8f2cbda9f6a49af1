// Package fakehub runs a Hub in the test's process with small stand-ins for the models and data
// that the listings name, so that the listings run unchanged.
package fakehub

import (
	"bytes"
	"io/fs"
	"os"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/gotrainer/gotrainer/hub/hubtest"
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/torch"
)

// Start starts a Hub and directs this process to it, with the token of the user "me". It also
// changes the current folder to an empty one.
func Start(t testing.TB) *hubtest.Server {
	t.Helper()
	server, err := hubtest.New()
	check(t, err)
	t.Cleanup(server.Close)
	server.AddUser("me", "hf_secret")
	for name, value := range map[string]string{"HF_ENDPOINT": server.URL, "HF_HOME": t.TempDir(), "HF_HUB_CACHE": "",
		"HF_TOKEN": "hf_secret", "HF_HUB_OFFLINE": ""} {
		t.Setenv(name, value)
	}
	t.Chdir(t.TempDir())
	return server
}

// Add creates a repository with the files of a folder.
func Add(t testing.TB, server *hubtest.Server, kind hubtest.Kind, id, dir string) {
	t.Helper()
	files, folder := map[string][]byte{}, os.DirFS(dir)
	check(t, fs.WalkDir(folder, ".", func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			files[path], err = fs.ReadFile(folder, path)
		}
		return err
	}))
	server.CreateRepo(kind, id, hubtest.Public)
	server.Commit(kind, id, "main", files)
}

// AddCourse adds bert-base-uncased, with one layer and random weights, and a small MRPC in which
// texts are paraphrases if they are equal.
func AddCourse(t testing.TB, server *hubtest.Server) {
	t.Helper()
	torch.ManualSeed(3) // with some seeds so small a model does not learn the task
	model, err := bert.NewClassifier(bert.Config{VocabSize: 9, HiddenSize: 32, NumLayers: 1, NumHeads: 2,
		IntermediateSize: 32, MaxPositions: 32})
	check(t, err)
	dir := t.TempDir()
	check(t, model.Save(dir))
	check(t, os.WriteFile(dir+"/vocab.txt", []byte("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhe\nshe\nsang\nran\n"), 0o600))
	Add(t, server, hubtest.Model, "bert-base-uncased", dir)

	type row struct {
		Sentence1 string `parquet:"sentence1"`
		Sentence2 string `parquet:"sentence2"`
		Label     int64  `parquet:"label"`
		Index     int32  `parquet:"idx"`
	}
	files := map[string][]byte{}
	for split, n := range map[string]int{"train": 40, "validation": 10} {
		rows := make([]row, n)
		for i := range rows {
			rows[i] = row{"he sang", []string{"she ran", "he sang"}[i%2], int64(i % 2), int32(i)}
		}
		var file bytes.Buffer
		check(t, parquet.Write(&file, rows))
		files["mrpc/"+split+"-00000-of-00001.parquet"] = file.Bytes()
	}
	server.CreateRepo(hubtest.Dataset, "nyu-mll/glue", hubtest.Public)
	server.Commit(hubtest.Dataset, "nyu-mll/glue", "main", files)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
