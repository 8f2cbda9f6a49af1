// Package layers tests the layering of the packages: which may import which. It reads only source
// files, so it needs neither libtorch nor a C compiler; the test cache notices changes of these
// files.
package layers

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/gotrainer/gotrainer"

// allowed lists which packages of this module the package in a folder may import. A name ending in
// /... stands for the folder and everything below it, "public" for all packages except cgotorch,
// internal, cmd and examples. A line mentions only lines above it, so there are no cycles.
//
// A package that is missing here fails the test: add a line, and consider whether the package is in
// the right place.
var allowed = []struct{ folder, imports string }{
	{".", ""}, // the tour of the module, and what is embedded from its root

	// Pure Go: these build with CGO_ENABLED=0 and know no tensors.
	{"internal/regularfile", ""},
	{"internal/specialtoken", ""},
	{"internal/terminal", ""},
	{"internal/osthread", ""},
	{"progress", "internal/terminal"},
	{"safetensors", "internal/regularfile"},
	{"safetensors/pickle", "safetensors internal/regularfile"},
	{"internal/optional", ""},
	{"internal/pyfloat", ""},
	{"metrics", "internal/pyfloat"},
	{"internal/mt19937", ""},
	{"internal/roundedmath", ""},
	{"internal/conformance/pylambda", "internal/roundedmath"},
	{"optim/lr", "internal/mt19937 internal/optional internal/pyfloat internal/roundedmath"},
	{"text/...", "text/... internal/pyfloat internal/regularfile internal/specialtoken"},
	{"vision/...", "vision/... internal/regularfile internal/mt19937"},
	{"data", "internal/mt19937"},
	{"data/internal/columns", ""},
	{"data/...", "data internal/regularfile"}, // one folder per file format
	{"data/table", "data data/internal/columns internal/regularfile"},
	{"data/parquet", "data data/internal/columns internal/regularfile"},
	{"checkpoint", "safetensors"},
	{"checkpoint/sharded", "safetensors"},
	{"hub", "checkpoint safetensors internal/pyfloat internal/regularfile"},
	{"data/coco", "internal/regularfile metrics"}, // boxes are those of its metric
	{"data/glue", "data data/table data/parquet hub metrics"},
	{"hub/hubtest", ""}, // a Hub for tests, which shares no code with the client that it tests
	{"dist/tcpstore", ""},
	{"dist", "dist/tcpstore"},
	{"dist/launch", "dist/tcpstore"},
	{"dist/local", "dist dist/tcpstore"},
	{"compat/hezar/omegaconf", "internal/pyfloat"},
	{"compat/hezar/internal/configfile", "compat/hezar/omegaconf internal/regularfile"},
	{"compat/hezar/preprocessors", "compat/hezar/omegaconf compat/hezar/internal/configfile text/... vision/..."},
	{"compat/hezar/datasets", "compat/hezar/omegaconf compat/hezar/internal/configfile compat/hezar/preprocessors " +
		"data/... " +
		"text/..."},
	{"trainer/semantics", ""},
	{"trainer", "checkpoint data dist optim/lr trainer/semantics internal/osthread internal/pyfloat internal/terminal"},
	{"trainer/callback", "trainer"},
	{"trainer/curves", "trainer"},
	{"trainer/trainertest", "data optim/lr trainer"},
	{"run", "checkpoint dist trainer internal/terminal"}, // the main function of programs

	// Packages with tensors begin here.
	{"cgotorch", ""},
	{"cgotorch/gen", ""},
	{"torch", "cgotorch internal/osthread"},
	{"torch/cuda", "cgotorch torch"},
	{"internal/fingerprint", "torch"},
	{"amp", "torch"},
	{"internal/tensorio", "internal/osthread safetensors torch"},
	{"internal/blockwise", "torch"},
	{"nn/...", "torch safetensors safetensors/pickle internal/blockwise internal/optional internal/tensorio nn/..."},
	{"optim", "torch internal/blockwise internal/optional internal/roundedmath"},
	{"dist/ddp", "dist torch nn"},
	{"internal/gradnorm", "dist dist/ddp torch"},
	{"dist/shard", "checkpoint/sharded dist dist/ddp torch nn optim safetensors internal/tensorio internal/gradnorm"},
	{"dist/tensor", "dist dist/ddp torch nn internal/gradnorm"},
	{"internal/torchsave", "torch nn/... optim safetensors safetensors/pickle internal/mt19937 internal/tensorio"},
	{"internal/sharedorder", "torch dist"},
	{"accelerate", "torch nn/... optim optim/lr amp dist dist/ddp dist/launch dist/shard data checkpoint safetensors " +
		"internal/tensorio internal/torchsave internal/sharedorder"},
	{"compat/internal/loops", "internal/terminal torch optim optim/lr data trainer dist"},
	{"compat/pytorchaccelerated", "internal/torchsave compat/internal/loops internal/pyfloat torch nn/... " +
		"optim optim/lr amp data metrics " +
		"accelerate dist internal/sharedorder trainer trainer/semantics safetensors safetensors/pickle " +
		"internal/tensorio"},
	{"compat/pymarlin", "internal/torchsave internal/sharedorder compat/internal/loops internal/regularfile " +
		"internal/terminal " +
		"trainer " +
		"trainer/semantics trainer/callback " +
		"torch nn/... optim optim/lr amp data dist dist/ddp safetensors safetensors/pickle " +
		"internal/tensorio"},
	{"audio", "torch internal/regularfile"},
	{"trainer/engine", "run trainer trainer/semantics data metrics torch torch/cuda nn/... optim optim/lr amp dist " +
		"dist/ddp dist/shard checkpoint checkpoint/sharded safetensors internal/pyfloat internal/tensorio " +
		"internal/torchsave"},
	{"trainer/arguments", "run trainer trainer/callback trainer/engine trainer/semantics hub data accelerate amp " +
		"dist/ddp dist/launch dist/shard torch optim optim/lr internal/optional internal/pyfloat"},
	{"models/...", "models/... nn/... trainer trainer/engine trainer/semantics data/... text/... vision/... audio " +
		"metrics torch torch/cuda safetensors safetensors/pickle internal/regularfile internal/specialtoken " +
		"internal/tensorio internal/optional internal/mt19937 optim hub"},
	{"compat/hezar/repository", "internal/torchsave compat/hezar/omegaconf compat/hezar/internal/configfile " +
		"compat/hezar/preprocessors compat/hezar/datasets data hub models/... nn/... text/... torch"},
	{"compat/hezar", "internal/torchsave internal/pyfloat compat/hezar/omegaconf " +
		"compat/hezar/internal/configfile compat/hezar/repository compat/hezar/datasets compat/hezar/preprocessors " +
		"compat/internal/loops internal/sharedorder models/... " +
		"nn/... trainer trainer/callback trainer/engine trainer/semantics data " +
		"checkpoint hub metrics torch amp optim optim/lr dist dist/ddp safetensors/pickle"},
	{"examples/...", "public examples/..."},
	{"cmd/...", "public cmd/... internal/fingerprint internal/terminal"},

	// Shared by tests.
	{"internal/leaks", ""},
	{"internal/testenv", "torch torch/cuda internal/fingerprint internal/leaks"},
	{"internal/peak", ""},
	{"internal/ranktest", "dist dist/local dist/tcpstore"},
	{"internal/goldencount", ""},
	{"internal/goldencount/report", "internal/goldencount"},
	{"internal/portable", "internal/goldencount"},
	{"internal/golden", "torch safetensors internal/goldencount internal/tensorio internal/testenv"},
	{"internal/gradcheck", "torch"},
	{"internal/stepcount", "torch"},
	{"internal/gpufault", "cgotorch torch"},
	{"internal/conformance/spec", ""},
	{"internal/conformance/recorded", "public internal/tensorio internal/conformance/spec"},
	{"internal/expected", "public internal/testenv internal/conformance/spec internal/conformance/pylambda " +
		"internal/conformance/recorded"},
	{"internal/conformance/trace", "internal/pyfloat internal/conformance/spec"},
	{"internal/conformance/replay", "public internal/pyfloat internal/tensorio internal/conformance/spec " +
		"internal/conformance/pylambda internal/conformance/recorded internal/conformance/trace"},
	{"internal/conformance/vectors", "public internal/conformance/spec " +
		"internal/conformance/recorded"},
	{"internal/conformance", "public internal/conformance/vectors internal/testenv internal/golden internal/expected " +
		"internal/conformance/spec internal/conformance/trace internal/conformance/recorded internal/conformance/replay"},
	{"scripts/auto_interop", "public"},
	{"scripts/sentence_interop", "public"},
	{"scripts/hezar_interop", "public"},
	{"scripts/checkpoint_interop", "public"},
	{"scripts/ddp_bench", "public"},
	{"scripts/shard_memory", "public"},
	{"scripts/growth", "public"},
	{"scripts/scale", ""},
	{"models/internal/modeltest", "models/... text nn/... amp data dist dist/shard optim torch trainer trainer/engine " +
		"trainer/semantics internal/golden internal/goldencount internal/ranktest internal/testenv"},
	{"compat/hezar/internal/generationtest", ""},
	{"internal/bench", "public internal/testenv"},
	{"internal/gpuprobe", "public"},
	{"internal/fault", "public"},
	{"internal/warnings", ""},
	{"internal/documents", ""},
	{"internal/restarts", ""},
	{"internal/layers", ""},
	{"internal/api", ""},
	{"scripts/opcost", "torch"},
	{"scripts/bench_compare", ""},
	{"scripts/demo", ""},
}

// pure lists the folders in which not even tests may need libtorch.
var pure = []string{"internal/api", "internal/leaks", "internal/optional", "internal/pyfloat", "internal/mt19937",
	"internal/roundedmath",
	"internal/regularfile", "internal/terminal", "internal/osthread", "progress",
	"internal/conformance/pylambda",
	"safetensors/...", "metrics", "optim/lr", "text/...", "vision/...", "data/...", "checkpoint", "checkpoint/sharded",
	"hub/...", "dist",
	"dist/tcpstore", "dist/launch", "dist/local", "compat/hezar/omegaconf", "compat/hezar/internal/configfile",
	"compat/hezar/preprocessors",
	"compat/hezar/datasets",
	"trainer", "trainer/semantics", "trainer/callback", "trainer/curves", "trainer/trainertest", "run",
	"internal/conformance/spec", "internal/conformance/trace", "scripts/scale"}

// native lists the packages that need libtorch at run time.
var native = []string{"cgotorch", "torch/...", "amp", "dist/ddp", "dist/shard", "dist/tensor", "nn/...", "optim",
	"accelerate", "internal/torchsave", "internal/sharedorder", "internal/gradnorm", "compat/internal/loops",
	"compat/pymarlin",
	"trainer/engine", "trainer/arguments", "models/...", "compat/hezar", "compat/hezar/repository",
	"compat/pytorchaccelerated",
	"internal/tensorio", "internal/fingerprint", "internal/testenv", "internal/golden", "internal/gradcheck",
	"internal/stepcount", "internal/gpufault",
	"internal/expected", "internal/warnings", "internal/restarts"}

func TestEveryImportIsAllowed(t *testing.T) {
	for _, f := range sources(t) {
		imports, listed := rule(f.folder)
		if !listed {
			t.Errorf("%s: package %s is not in the table of this test", f.path, f.folder)
			continue
		}
		for _, imported := range f.imports {
			switch {
			case f.test && testMay(f.folder, imported):
			case !f.test && matches(imports, imported):
			case f.test:
				t.Errorf("%s: a test of %s may not import %s, which needs libtorch; move it to a package that does",
					f.path, f.folder, imported)
			default:
				t.Errorf("%s: %s may not import %s, only %q", f.path, f.folder, imported, strings.Join(imports, " "))
			}
		}
	}
}

func TestOnlyCgotorchImportsC(t *testing.T) {
	found := false
	for _, f := range sources(t) {
		if f.cgo && f.folder != "cgotorch" {
			t.Errorf("%s imports C; only cgotorch may", f.path)
		}
		found = found || f.cgo
	}
	if !found {
		t.Error("no file imports C: this test no longer sees what it should")
	}
}

// A line may only mention lines above it, so there can be no cycles.
func TestTableIsInOrder(t *testing.T) {
	var above []string
	for _, line := range allowed {
		for _, name := range strings.Fields(line.imports) {
			if name != "public" && name != line.folder && !slices.Contains(above, name) && !coveredBy(name, above) {
				t.Errorf("%s mentions %s, which stands below it or nowhere", line.folder, name)
			}
		}
		above = append(above, line.folder)
	}
}

// TestRule tests the table itself with imports that must be refused.
func TestRule(t *testing.T) {
	for _, c := range []struct {
		folder, imported string
		want             bool
	}{
		{"trainer", "checkpoint", true},
		{"trainer", "torch", false},
		{"trainer", "trainer/engine", false},
		{"trainer/callback", "trainer/semantics", false},
		{"data", "data/idx", false},
		{"data/idx", "data", true},
		{"data/idx", "data/table", false},
		{"nn/functional", "nn", true},
		{"nn", "optim", false},
		{"optim", "nn", false},
		{"vision", "text", false},
		{"models/crnn", "nn", true},
		{"models/crnn", "cgotorch", false},
		{"cmd/gotrainer", "cgotorch", false},
		{"examples/mnist", "trainer/engine", true},
		{"examples/mnist", "internal/golden", false},
		{"cmd/gotrainer", ".", true},
	} {
		imports, listed := rule(c.folder)
		if got := matches(imports, c.imported); got != c.want || !listed {
			t.Errorf("%s imports %s: allowed = %v, want %v", c.folder, c.imported, got, c.want)
		}
	}
	if _, listed := rule("utils"); listed {
		t.Error("an unlisted package has a rule")
	}
	if testMay("data", "torch") || !testMay("data", "data/table") || !testMay("nn", "internal/golden") {
		t.Error("tests of pure packages may use pure packages only, others anything")
	}
}

// rule returns what the package in a folder may import. The longest matching line applies.
func rule(folder string) (imports []string, listed bool) {
	longest := -1
	for _, line := range allowed {
		if stem := strings.TrimSuffix(line.folder, "/..."); matches([]string{line.folder}, folder) &&
			(line.folder == folder || len(stem) > longest) {
			imports, listed = strings.Fields(line.imports), true
			if line.folder == folder {
				return imports, true
			}
			longest = len(stem)
		}
	}
	return imports, listed
}

// testMay reports whether a test of the package may import another.
func testMay(folder, imported string) bool {
	return !matches(pure, folder) || !matches(native, imported)
}

// matches reports whether one of the patterns covers a folder.
func matches(patterns []string, folder string) bool {
	for _, p := range patterns {
		stem, deep := strings.CutSuffix(p, "/...")
		switch {
		case p == folder, deep && (folder == stem || strings.HasPrefix(folder, stem+"/")):
			return true
		case p == "public" && folder != "cgotorch" && !strings.HasPrefix(folder, "internal/") &&
			!strings.Contains(folder, "/internal/") && !strings.HasPrefix(folder, "cmd/") && !strings.HasPrefix(folder,
			"examples/"):
			return true
		}
	}
	return false
}

// coveredBy reports whether a folder is covered by a listed pattern.
func coveredBy(name string, listed []string) bool {
	return matches(listed, strings.TrimSuffix(name, "/..."))
}

// source is what matters about a file.
type source struct {
	path, folder string
	imports      []string // folders of this module
	test, cgo    bool
}

// sources parses the imports of all Go files of the module, regardless of build constraints.
func sources(t *testing.T) []source {
	t.Helper()
	root := filepath.Join("..", "..")
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Fatalf("the root of the module is not where this test expects it: %v", err)
	}
	var list []source
	err := filepath.WalkDir(root, func(file string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := e.Name()
		if e.IsDir() {
			skip := name == "testdata" || name == "third_party" || name == "vendor" ||
				(file != root && strings.HasPrefix(name, "."))
			// A separate module.
			if _, err := os.Stat(filepath.Join(file, "go.mod")); skip || (err == nil && file != root) {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		s, err := parse(root, file)
		list = append(list, s)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func parse(root, file string) (source, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		return source{}, err
	}
	relative, err := filepath.Rel(root, file)
	if err != nil {
		return source{}, err
	}
	s := source{path: filepath.ToSlash(relative), test: strings.HasSuffix(file, "_test.go")}
	s.folder = path.Dir(s.path)
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return source{}, err
		}
		if imported == "C" {
			s.cgo = true
		}
		if imported == module {
			s.imports = append(s.imports, ".")
		} else if folder, ok := strings.CutPrefix(imported, module+"/"); ok && folder != s.folder {
			s.imports = append(s.imports, folder)
		}
	}
	return s, nil
}
