package glue_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data/glue"
	"github.com/gotrainer/gotrainer/hub/hubtest"
)

// pairRow and scoreRow are rows of nyu-mll/glue.
type (
	pairRow struct {
		Sentence1 string `parquet:"sentence1"`
		Sentence2 string `parquet:"sentence2"`
		Label     int64  `parquet:"label"`
		Index     int32  `parquet:"idx"`
	}
	scoreRow struct {
		Sentence1 string  `parquet:"sentence1"`
		Sentence2 string  `parquet:"sentence2"`
		Label     float32 `parquet:"label"`
		Index     int32   `parquet:"idx"`
	}
	inferenceRow struct {
		Premise    string `parquet:"premise"`
		Hypothesis string `parquet:"hypothesis"`
		Label      int64  `parquet:"label"`
	}
)

func parquetOf[T any](t *testing.T, rows ...T) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, parquet.Write(&b, rows))
	return b.Bytes()
}

// files are the files of the test's data set on the Hub.
func files(t *testing.T) map[string][]byte {
	return map[string][]byte{
		"README.md":                                         []byte("GLUE"),
		"mrpc/train-00000-of-00002.parquet":                 parquetOf(t, pairRow{"a", "b", 1, 0}),
		"mrpc/train-00001-of-00002.parquet":                 parquetOf(t, pairRow{"c", "d", 0, 2}),
		"mrpc/validation-00000-of-00001.parquet":            parquetOf(t, pairRow{"e \"", "f", 1, 9}),
		"mrpc/test-00000-of-00001.parquet":                  parquetOf(t, pairRow{"g", "h", -1, 0}),
		"stsb/train-00000-of-00001.parquet":                 parquetOf(t, scoreRow{"a", "b", 2.5, 0}),
		"stsb/validation-00000-of-00001.parquet":            parquetOf(t, scoreRow{"a", "b", 7, 0}),
		"mnli/train-00000-of-00001.parquet":                 parquetOf(t, inferenceRow{"a", "b", 2}),
		"mnli/validation_matched-00000-of-00001.parquet":    parquetOf(t, inferenceRow{"m", "n", 0}),
		"mnli/validation_mismatched-00000-of-00001.parquet": parquetOf(t, inferenceRow{"x", "y", 1}),
		"rte/train-00000-of-00001.parquet":                  parquetOf(t, inferenceRow{"x", "y", 1}),
		"qnli/train-00000-of-00001.parquet":                 parquetOf(t, pairRow{"x", "y", 5, 0}),
	}
}

func TestLoadFromTheHub(t *testing.T) {
	server, err := hubtest.New()
	require.NoError(t, err)
	defer server.Close()
	server.AddUser("me", "hf_secret")
	server.CreateRepo(hubtest.Dataset, "me/glue", hubtest.Public)
	server.Commit(hubtest.Dataset, "me/glue", "main", files(t))
	t.Setenv("HF_ENDPOINT", server.URL)
	t.Setenv("HF_HOME", t.TempDir())
	t.Setenv("HF_HUB_CACHE", "")
	set, err := glue.LoadFrom(t.Context(), "mrpc", "me/glue")
	require.NoError(t, err)
	assert.Equal(t, []glue.Example{{A: "a", B: "b", Label: 1}, {A: "c", B: "d", Index: 2}}, all(t, set.Train))
	assert.Equal(t, []glue.Example{{A: "e \"", B: "f", Label: 1, Index: 9}}, all(t, set.Validation))
	assert.Equal(t, []glue.Example{{A: "g", B: "h", Label: -1}}, all(t, set.Test))
	_, err = glue.Load(t.Context(), "mrpc")
	assert.ErrorContains(t, err, "nyu-mll/glue", "a Hub without the data set")
}

func TestLoadFromFolders(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "[1] *") // a pattern, if it is read as one
	for name, content := range files(t) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, content, 0o600))
	}
	set, err := glue.LoadFrom(t.Context(), "mnli", dir)
	require.NoError(t, err)
	assert.Equal(t, []glue.Example{{A: "m", B: "n"}}, all(t, set.Validation))
	assert.Equal(t, []glue.Example{{A: "x", B: "y", Label: 1}}, all(t, set.ValidationMismatched))
	assert.Nil(t, set.Test)
	for task, want := range map[string]string{"stsb": "the score is 7", "rte": "no text in the columns",
		"qnli": "no text in the columns", "sst2": "no file of the task", "mrcp": "no task"} {
		_, err := glue.LoadFrom(t.Context(), task, dir)
		assert.ErrorContains(t, err, want, task)
	}
	_, err = glue.LoadFrom(t.Context(), "mrpc", filepath.Join(dir, "README.md"))
	assert.ErrorContains(t, err, "is a file")

	csv := folder(t, map[string]string{"train.csv": "sentence,label\n\"fine, really\",1\nbad,0\n",
		"validation.csv": "sentence,label\nbad,2\n"})
	_, err = glue.LoadFrom(t.Context(), "sst2", csv)
	assert.ErrorContains(t, err, "the label is 2")
	require.NoError(t, os.WriteFile(filepath.Join(csv, "validation.csv"), []byte("sentence,label\nbad,0\n"), 0o600))
	set, err = glue.LoadFrom(t.Context(), "sst2", csv)
	require.NoError(t, err)
	assert.Equal(t, []glue.Example{{A: "fine, really", Label: 1}, {A: "bad", Index: 1}}, all(t, set.Train))
	tsv := folder(t, map[string]string{"train.tsv": "sentence\tlabel\nfine\t1\n"})
	set, err = glue.LoadFrom(t.Context(), "sst2", tsv)
	require.NoError(t, err)
	assert.Equal(t, 1, set.Train.Len())
}

// TestMetricsOfTheTasks compares with results of scikit-learn and SciPy from testdata/metrics.py.
func TestMetricsOfTheTasks(t *testing.T) {
	text, err := os.ReadFile("testdata/metrics.json")
	require.NoError(t, err)
	var cases []struct {
		Predictions, References []int
		Scores, Wanted          []float64
		Results                 map[string]map[string]float64
	}
	require.NoError(t, json.Unmarshal(text, &cases))
	for _, c := range cases {
		for task, want := range c.Results {
			scores, err := glue.Metrics(task)
			require.NoError(t, err)
			got := map[string]float64{}
			for _, m := range scores.Labels {
				for i, p := range c.Predictions {
					m.Add(p, c.References[i])
				}
				maps.Copy(got, m.Result())
			}
			for _, m := range scores.Values {
				for i, p := range c.Scores {
					m.Add(p, c.Wanted[i])
				}
				maps.Copy(got, m.Result())
			}
			require.Len(t, got, len(want), task)
			for name, value := range want {
				assert.InDelta(t, value, got[name], 1e-15, "%s: %s of %d", task, name, len(c.Predictions))
			}
		}
	}
	_, err = glue.Metrics("mrcp")
	assert.ErrorContains(t, err, "no task")
}
