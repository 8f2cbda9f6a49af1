package pretrained_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/torch"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// tensors writes a safetensors file with float32 tensors of the given shapes, filled with value.
func tensors(t *testing.T, path string, value float32, shapes map[string][]int64) {
	t.Helper()
	var entries []safetensors.Entry
	torch.Scope(func() {
		for name, shape := range shapes {
			entries = append(entries, safetensors.Entry{Name: name, DType: safetensors.F32, Shape: shape,
				Data: safetensors.Bytes(torch.Full(value, shape...).Bytes())})
		}
	})
	if err := safetensors.WriteFile(path, entries, map[string]string{"format": "pt"}); err != nil {
		t.Fatal(err)
	}
}

func TestUnknownKeysSurviveAConfig(t *testing.T) {
	const text = `{"hidden_size": 8, "finetuning_task": "mrpc", "nested": {"b": [1, 2.50, null]}, "torch_dtype": null}`
	d, err := pretrained.ParseConfig([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	hidden, absent := int64(1), int64(2)
	fields := []pretrained.Field{{Key: "hidden_size", Value: &hidden}, {Key: "heads", Value: &absent}}
	if err := d.Decode(fields); err != nil || hidden != 8 || absent != 2 {
		t.Fatalf("hidden_size %d, heads %d, error %v; want 8 and the former 2", hidden, absent, err)
	}
	if _, still := d["hidden_size"]; still {
		t.Error("a key that was decoded is among the unknown ones")
	}
	hidden = 16
	if err := d.Encode(fields); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := d.Write(dir); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{
  "finetuning_task": "mrpc",
  "heads": 2,
  "hidden_size": 16,
  "nested": {
    "b": [
      1,
      2.50,
      null
    ]
  },
  "torch_dtype": null
}
`
	if diff := cmp.Diff(want, string(written)); diff != "" {
		t.Error(diff)
	}
}

func TestDamagedConfigsAreRefused(t *testing.T) {
	for content, want := range map[string]string{"{": "unexpected end", "null": "found null",
		"[]": "cannot unmarshal array"} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "config.json"), content)
		if _, err := pretrained.ReadConfig(dir); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), dir) {
			t.Errorf("%s: error %v, want one with %q and the path", content, err, want)
		}
	}
	if _, err := pretrained.ReadConfig(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: error %v", err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "config.json"), strings.Repeat(" ", 17<<20))
	if _, err := pretrained.ReadConfig(dir); err == nil || !strings.Contains(err.Error(), "want at most 4194304") {
		t.Errorf("a large file: error %v", err)
	}
	d := pretrained.Document{"heads": json.RawMessage(`"many"`)}
	if err := d.Decode([]pretrained.Field{{Key: "heads", Value: new(int64)}}); err == nil ||
		!strings.Contains(err.Error(), `heads is "many"`) {
		t.Errorf("a string for a number: error %v", err)
	}
}

func TestSettingsAreDemanded(t *testing.T) {
	d, err := pretrained.ParseConfig([]byte(`{"a": true, "b": {}, "c": null, "d": " x"}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		key    string
		wanted []string
		ok     bool
	}{
		{"a", []string{"true"}, true}, {"a", []string{"false"}, false}, {"b", []string{"{}"}, true},
		{"c", []string{"false"}, true}, {"absent", []string{"0"}, true},
		{"d", []string{`"x"`, `" x"`}, true}, {"d", []string{`"x"`}, false},
	} {
		err := d.Demand(c.key, c.wanted...)
		if (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), c.key+" is ") {
			t.Errorf("Demand(%q, %q) = %v, want an error that names the key: %t", c.key, c.wanted, err, !c.ok)
		}
	}
}

// pair is a small model with an encoder and a head.
type pair struct {
	Encoder *encoder   `module:"encoder"`
	Head    *nn.Linear `module:"head"`
}

type encoder struct {
	Dense     *nn.Linear    `module:"dense"`
	LayerNorm *nn.LayerNorm `module:"LayerNorm"`
}

func newPair() *pair {
	return &pair{&encoder{nn.NewLinear(2, 3, nil), nn.NewLayerNorm(nn.Dims{3}, nil)}, nn.NewLinear(3, 2, nil)}
}

var (
	body = map[string][]int64{"dense.weight": {3, 2}, "dense.bias": {3}, "LayerNorm.weight": {3},
		"LayerNorm.bias": {3}}
	whole = map[string][]int64{
		"encoder.dense.weight": {3, 2}, "encoder.dense.bias": {3}, "encoder.LayerNorm.weight": {3},
		"encoder.LayerNorm.bias": {3}, "head.weight": {2, 3}, "head.bias": {2},
	}
)

// with returns shapes with others added; a nil shape removes the entry.
func with(shapes map[string][]int64, others map[string][]int64) map[string][]int64 {
	all := map[string][]int64{}
	for _, list := range []map[string][]int64{shapes, others} {
		for name, shape := range list {
			all[name] = shape
			if shape == nil {
				delete(all, name)
			}
		}
	}
	return all
}

func TestNamesAreMatchedAsTransformersDoes(t *testing.T) {
	testenv.RequireTorch(t)
	for _, c := range []struct {
		name        string
		shapes      map[string][]int64
		options     pretrained.LoadOptions
		refused     string // part of the error; empty if it loads
		initialized []string
		unexpected  int
		renamed     int
	}{
		{name: "all is there", shapes: whole},
		{name: "the encoder alone gets the prefix", shapes: body, initialized: []string{"head.weight", "head.bias"},
			renamed: 4},
		{name: "gamma and beta", shapes: with(whole, map[string][]int64{"encoder.LayerNorm.weight": nil,
			"encoder.LayerNorm.bias": nil, "encoder.LayerNorm.gamma": {3}, "encoder.LayerNorm.beta": {3}}), renamed: 2},
		{name: "gamma, beta and no prefix", shapes: with(body, map[string][]int64{"LayerNorm.weight": nil,
			"LayerNorm.bias": nil, "LayerNorm.gamma": {3}, "LayerNorm.beta": {3}}), initialized: []string{"head.weight",
			"head.bias"}, renamed: 4},
		{name: "another head is not used", shapes: with(whole, map[string][]int64{"cls.predictions.bias": {9}}),
			unexpected: 1},
		{name: "a hole in the encoder", shapes: with(whole, map[string][]int64{"encoder.dense.bias": nil}),
			refused: "no tensor encoder.dense.bias, of shape [3]"},
		{name: "a hole in the encoder, allowed", shapes: with(whole, map[string][]int64{"encoder.dense.bias": nil}),
			options: pretrained.LoadOptions{InitMissing: true}, initialized: []string{"encoder.dense.bias"}},
		{name: "a head of other labels", shapes: with(whole, map[string][]int64{"head.weight": {5, 3},
			"head.bias": {5}}), refused: "tensor head.weight has shape [5 3], but the model wants [2 3]; the option " +
			"InitMismatched"},
		{name: "a head of other labels, allowed", shapes: with(whole, map[string][]int64{"head.weight": {5, 3},
			"head.bias": {5}}), options: pretrained.LoadOptions{InitMismatched: true},
			initialized: []string{"head.weight", "head.bias"}},
		{name: "another model", shapes: map[string][]int64{"conv.weight": {1}},
			refused: "no tensor that fits the model"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			tensors(t, filepath.Join(dir, "model.safetensors"), 7, c.shapes)
			w, err := pretrained.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close() //nolint:errcheck // it was only read
			m := newPair()
			drawn := map[string]bool{}
			c.options.Prefix, c.options.Init = "encoder.", func(missing map[string]bool) { drawn = missing }
			c.options.Fresh = func(name string) bool { return strings.HasPrefix(name, "head.") }
			report, err := pretrained.Load(m, w, c.options)
			if c.refused != "" {
				if err == nil || !strings.Contains(err.Error(), c.refused) || !strings.Contains(err.Error(), dir) {
					t.Errorf("error %v, want one with %q and the path", err, c.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.initialized, report.Initialized); diff != "" || len(drawn) != len(c.initialized) {
				t.Errorf("%d were drawn, the report says\n%s", len(drawn), diff)
			}
			if len(report.Unexpected) != c.unexpected || len(report.Renamed) != c.renamed {
				t.Errorf("%d unexpected and %d renamed, want %d and %d:\n%s", len(report.Unexpected),
					len(report.Renamed), c.unexpected, c.renamed, report)
			}
			for _, p := range nn.StateDict(m) {
				if !drawn[p.Name] {
					golden.Bits(t, p.Name, p.Tensor.Detach(), p.Tensor.Detach().FullLike(7))
				}
			}
		})
	}
}

func TestNothingIsDrawnWithoutInit(t *testing.T) {
	testenv.RequireTorch(t)
	dir := t.TempDir()
	tensors(t, filepath.Join(dir, "model.safetensors"), 7, with(whole, map[string][]int64{"head.bias": nil}))
	w, err := pretrained.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close() //nolint:errcheck // it was only read
	_, err = pretrained.Load(newPair(), w, pretrained.LoadOptions{InitMissing: true})
	if err == nil || !strings.Contains(err.Error(), `["head.bias"] are to be drawn; set LoadOptions.Init`) {
		t.Errorf("error %v, want one that names what is to be drawn", err)
	}
}

func TestAHeadIsCutOffForAnEncoder(t *testing.T) {
	testenv.RequireTorch(t)
	dir := t.TempDir()
	tensors(t, filepath.Join(dir, "model.safetensors"), 7, whole)
	m, report, err := pretrained.LoadFolder(dir, func() *encoder { return newPair().Encoder },
		func(*encoder) pretrained.LoadOptions {
			return pretrained.LoadOptions{Prefix: "encoder."}
		})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Loaded) != 4 || len(report.Unexpected) != 2 {
		t.Errorf("the report is\n%s", report)
	}
	golden.Bits(t, "dense.bias", m.Dense.Bias.Detach(), torch.Full(float32(7), 3))
}

func TestShardsAreOneModel(t *testing.T) {
	testenv.RequireTorch(t)
	dir := t.TempDir()
	tensors(t, filepath.Join(dir, "one.safetensors"), 1, map[string][]int64{"a": {2}, "b": {}})
	tensors(t, filepath.Join(dir, "two.safetensors"), 2, map[string][]int64{"c": {1, 3}})
	write(t, filepath.Join(dir, "model.safetensors.index.json"),
		`{"metadata": {"total_size": 24}, "weight_map": {"a": "one.safetensors", "b": "one.safetensors", "c": "two.safetensors"}}`)
	w, err := pretrained.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(w.Contents()); got != 3 {
		t.Errorf("%d tensors, want 3", got)
	}
	for name, want := range map[string]torch.Tensor{"a": torch.Ones(2), "b": torch.Ones(), "c": torch.Full(float32(2),
		1, 3)} {
		got, err := w.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		golden.Bits(t, name, got, want)
	}
	if _, err := w.Read("d"); err == nil || !strings.Contains(err.Error(), `no tensor "d"`) {
		t.Errorf("error %v", err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

func TestIndexesThatLieAreRefused(t *testing.T) {
	testenv.RequireTorch(t)
	for text, want := range map[string]string{
		`{`:                  "unexpected end",
		`{"weight_map": {}}`: "names no tensor",
		`{"weight_map": {"a": "one.safetensors"}}`:                                                              "one.safetensors has the tensor b, which weight_map puts into",
		`{"weight_map": {"a": "one.safetensors", "b": "one.safetensors", "c": "one.safetensors"}}`:              "does not have the tensor c",
		`{"weight_map": {"a": "one.safetensors", "b": "three.safetensors"}}`:                                    "one.safetensors has the tensor b",
		`{"weight_map": {"a": "gone.safetensors"}}`:                                                             "gone.safetensors",
		`{"weight_map": {"a": "../one.safetensors"}}`:                                                           "the name of a file beside the index",
		`{"weight_map": {"a": "/etc/passwd"}}`:                                                                  "the name of a file beside the index",
		`{"weight_map": {"a": ".."}}`:                                                                           "the name of a file beside the index",
		`{"weight_map": {"a": ""}}`:                                                                             "the name of a file beside the index",
		`{"weight_map": {"a": "one.safetensors", "b": "one.safetensors", "x": "two.safetensors", "y": "a\\b"}}`: "",
	} {
		dir := t.TempDir()
		tensors(t, filepath.Join(dir, "one.safetensors"), 1, map[string][]int64{"a": {2}, "b": {}})
		path := filepath.Join(dir, "model.safetensors.index.json")
		write(t, path, text)
		if _, err := pretrained.Open(dir); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v, want one with %q and the path", text, err, want)
		}
	}
}

func TestFoldersWithoutWeightsAreNamed(t *testing.T) {
	dir := t.TempDir()
	if _, err := pretrained.Open(dir); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), dir) {
		t.Errorf("error %v, want one that names the folder", err)
	}
	write(t, filepath.Join(dir, "pytorch_model.bin"), "version https://git-lfs.github.com/spec/v1\n")
	if _, err := pretrained.Open(dir); err == nil || !strings.Contains(err.Error(), "pytorch_model.bin") ||
		!strings.Contains(err.Error(), "a text that stands for a large file") {
		t.Errorf("error %v", err)
	}
}

func TestPicklesAreSources(t *testing.T) {
	testenv.RequireTorch(t)
	const data = "../../safetensors/pickle/testdata/"
	w, err := pretrained.OpenFile(data + "state.bin")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close() //nolint:errcheck // it was only read
	g := golden.Load(t, data+"state.safetensors")
	for _, info := range w.Contents() {
		got, err := w.Read(info.Name)
		if err != nil {
			t.Fatal(err)
		}
		golden.Bits(t, info.Name, got, g.Tensor(info.Name))
	}
}

func FuzzIndex(f *testing.F) {
	f.Setenv("TMPDIR", f.TempDir()) // also for the fuzzing workers, which may be killed
	f.Add(`{"weight_map": {"a": "one.safetensors"}}`)
	f.Add(`{"weight_map": {"a": "../x", "b": ""}}`)
	dir := f.TempDir()
	path := filepath.Join(dir, "model.safetensors.index.json")
	f.Fuzz(func(t *testing.T, text string) {
		write(t, path, text)
		if w, err := pretrained.OpenIndex(path); err == nil || w != nil {
			t.Errorf("a folder without shards was opened by %q", text)
		}
	})
}

func TestHezarsConfigsAreReadToo(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "model_config.yaml")
	write(t, path, "name: bert\nid2label:\n  0: a\n  1: b\nlayer_norm_eps: 1.0e-12\nlist: [1, {2: x}]\n")
	d, err := pretrained.ReadConfig(dir)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"name": `"bert"`, "id2label": `{"0":"a","1":"b"}`,
		"layer_norm_eps": "1e-12", "list": `[1,{"2":"x"}]`} {
		if got := string(d[key]); got != want {
			t.Errorf("%s is %s, want %s", key, got, want)
		}
	}
	for content, want := range map[string]string{"- a": "want a mapping", "a: .nan": "a: json",
		"a: [": "did not find"} {
		write(t, path, content)
		if _, err := pretrained.ReadConfig(dir); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%q: error %v, want one with %q and the path", content, err, want)
		}
	}
}

// TestTheFileThatIsRefusedIsNamed: whether it is config.json or Hezar's file.
func TestTheFileThatIsRefusedIsNamed(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "model_config.yaml")
	write(t, path, "name: bert\n")
	_, err := pretrained.ReadConfigAs(dir, "bert", func(pretrained.Document) (int, error) {
		return 0, errors.New("no")
	})
	if want := "bert: " + path + ": no"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func FuzzConfig(f *testing.F) {
	f.Setenv("TMPDIR", f.TempDir()) // also for the fuzzing workers, which may be killed
	f.Add(`{"hidden_size": 8, "id2label": {"0": "a"}}`)
	f.Add(`{"a": null, "b": [1e400]}`)
	f.Fuzz(func(t *testing.T, text string) {
		d, err := pretrained.ParseConfig([]byte(text))
		if err != nil {
			return
		}
		dir := t.TempDir()
		if err := d.Write(dir); err != nil {
			t.Fatal(err)
		}
		again, err := pretrained.ReadConfig(dir)
		if err != nil || len(again) != len(d) {
			t.Errorf("%d keys, error %v; want %d", len(again), err, len(d))
		}
	})
}
