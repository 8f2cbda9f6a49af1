package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/gotrainer/gotrainer"
	"github.com/gotrainer/gotrainer/run"
)

// fakeSources has the layout of the embedded sources. The script and the Makefile record how they
// were called.
func fakeSources(script string) fstest.MapFS {
	return fstest.MapFS{
		"scripts/install_libtorch.sh": {Data: []byte(script)},
		"cgotorch/zz_abi.h":           {Data: []byte("// a comment\n#define CT_ABI \"abc123\"\n")},
		"cgotorch/src/Makefile": {Data: []byte("all:\n\t@echo make INCLUDE=$(INCLUDE) LIB=$(LIB) " +
			">>$(OUT)/calls; touch $(OUT)/libcgotorch-abc123.so\n")},
	}
}

const goodScript = `
case "$*" in
*--paths*) printf 'INCLUDE=/i\nLIB=/l\nOUT=%s\n' "$TEST_OUT" ;;
*) echo "script $*" >>"$TEST_OUT/calls" ;;
esac`

// install runs an installer with the given sources, and returns the recorded calls and the output.
func install(t *testing.T, out string, sources fs.FS, flags []string, shim bool) (calls, printed string, err error) {
	t.Helper()
	if _, lookErr := exec.LookPath("make"); lookErr != nil {
		t.Skip("make is not installed")
	}
	t.Setenv("TEST_OUT", out)
	t.Setenv("TMPDIR", t.TempDir())
	var b bytes.Buffer
	in := installer{sources: sources, out: &b, err: &b}
	err = in.install(t.Context(), flags, shim)
	if left, globErr := filepath.Glob(filepath.Join(os.TempDir(), "gotrainer-install-*")); globErr != nil ||
		len(left) > 0 {
		t.Errorf("temporary folders left behind: %v, %v", left, globErr)
	}
	made, readErr := os.ReadFile(filepath.Join(out, "calls"))
	if readErr != nil && !errors.Is(readErr, fs.ErrNotExist) {
		t.Fatal(readErr)
	}
	return string(made), b.String(), err
}

func TestInstallRunsTheScriptThenMakeWithItsPaths(t *testing.T) {
	out := t.TempDir()
	calls, printed, err := install(t, out, fakeSources(goodScript), []string{"--cuda", "--wheel"}, true)
	if err != nil {
		t.Fatalf("install: %v\n%s", err, printed)
	}
	if diff := cmp.Diff("script --cuda --wheel\nmake INCLUDE=/i LIB=/l\n", calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}

	calls, printed, err = install(t, out, fakeSources(goodScript), nil, true)
	if err != nil || strings.Count(calls, "make") != 2 || !strings.Contains(printed, "libcgotorch is ready") {
		t.Errorf("second install: err %v, calls %q, printed %q; want make to decide again", err, calls, printed)
	}
}

func TestInstallLibsOnlyDoesNotCallMake(t *testing.T) {
	calls, _, err := install(t, t.TempDir(), fakeSources(goodScript), []string{"--libs-only"}, false)
	if err != nil || calls != "script --libs-only\n" {
		t.Errorf("err %v, calls %q", err, calls)
	}
}

func TestInstallFailures(t *testing.T) {
	noABI := fakeSources(goodScript)
	noABI["cgotorch/zz_abi.h"] = &fstest.MapFile{Data: []byte("#define CT_ABI \n")}
	noHeader := fakeSources(goodScript)
	delete(noHeader, "cgotorch/zz_abi.h")
	lazyMake := fakeSources(goodScript)
	lazyMake["cgotorch/src/Makefile"] = &fstest.MapFile{Data: []byte("all:\n\t@true\n")}
	badMake := fakeSources(goodScript)
	badMake["cgotorch/src/Makefile"] = &fstest.MapFile{Data: []byte("all:\n\t@false\n")}
	for _, test := range []struct {
		name    string
		sources fs.FS
		want    string
		code    run.Code
	}{
		{"script that fails gives its exit code", fakeSources("exit 7"), "install libtorch: exit status 7", 7},
		{"script without OUT", fakeSources("echo LIB=/l"), "printed no OUT=", 1},
		{"header without ABI", noABI, "run go generate", 1},
		{"no header", noHeader, "zz_abi.h", 1},
		{"make that builds nothing", lazyMake, "the library is missing", 1},
		{"make that fails", badMake, "build libcgotorch: exit status 2", 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, _, err := install(t, t.TempDir(), test.sources, nil, true)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("install: %v, want an error with %q", err, test.want)
			}
			if got := run.CodeOf(err); got != test.code {
				t.Errorf("run.CodeOf(%v) = %d, want %d", err, got, test.code)
			}
		})
	}
}

func TestInstallCancelledStopsTheScript(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	out := t.TempDir()
	t.Setenv("TEST_OUT", out)
	ctx, cancel := context.WithCancel(t.Context())
	// The script signals that it runs by writing to standard output, which cancels the install; it
	// never ends by itself.
	in := installer{sources: fakeSources(`trap 'touch "$TEST_OUT/cleaned"; kill $!; exit 1' TERM; sleep 1000 & echo running; wait`), out: writerFunc(cancel), err: os.Stderr}
	if err := in.install(ctx, nil, true); err == nil {
		t.Error("a cancelled install succeeded")
	}
	if _, err := os.Stat(filepath.Join(out, "cleaned")); err != nil {
		t.Errorf("the script was not given the time to clean up: %v", err)
	}
}

type writerFunc func()

func (f writerFunc) Write(p []byte) (int, error) { f(); return len(p), nil }

func TestInstallCommandFlags(t *testing.T) {
	all := installCommand{CUDA: true, Zip: true, Wheel: true, LibsOnly: true, KeepDownloads: true,
		Platform: "linux-aarch64"}
	script, err := fs.ReadFile(gotrainer.Native, "scripts/install_libtorch.sh")
	if err != nil {
		t.Fatal(err)
	}
	flags := all.flags()
	if len(flags) != 6 {
		t.Errorf("flags() = %q, want one for each field", flags)
	}
	for _, flag := range flags {
		name, _, _ := strings.Cut(flag, "=")
		if !bytes.Contains(script, []byte(name+")")) && !bytes.Contains(script, []byte(name+"=*)")) {
			t.Errorf("install_libtorch.sh knows no %s", flag)
		}
	}
	if got := new(installCommand).flags(); got != nil {
		t.Errorf("zero value: flags() = %q", got)
	}
}

// Users of the module have only the embedded sources, so every header of this module that a source
// includes must be embedded.
func TestEmbeddedSourcesAreComplete(t *testing.T) {
	if abi, err := readABI(gotrainer.Native); err != nil || len(abi) < 8 {
		t.Errorf("readABI = %q, %v", abi, err)
	}
	include := regexp.MustCompile(`(?m)^#include "([^"]+)"`)
	sources := 0
	err := fs.WalkDir(gotrainer.Native, "cgotorch", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if ext := filepath.Ext(name); ext != ".cc" && ext != ".c" && ext != ".h" && filepath.Base(name) != "Makefile" {
			t.Errorf("%s does not belong among the sources", name)
		}
		text, err := fs.ReadFile(gotrainer.Native, name)
		if err != nil {
			return err
		}
		sources++
		for _, m := range include.FindAllSubmatch(text, -1) {
			header := filepath.Join(filepath.Dir(name), string(m[1]))
			if _, err := fs.Stat(gotrainer.Native, header); err != nil {
				t.Errorf("%s includes %q, which is not embedded", name, m[1])
			}
		}
		return nil
	})
	if err != nil || sources < 10 {
		t.Errorf("walked %d sources, %v", sources, err)
	}
	for _, name := range []string{"scripts/libtorch_fetch.sh", "scripts/unpack.py", "scripts/libtorch.sums"} {
		if _, err := fs.Stat(gotrainer.Native, name); err != nil {
			t.Error(err)
		}
	}
}

func TestEmbeddedScriptsAreValidBash(t *testing.T) {
	for _, name := range []string{"scripts/install_libtorch.sh", "scripts/libtorch_fetch.sh"} {
		script, err := fs.ReadFile(gotrainer.Native, name)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "bash", "-n")
		cmd.Stdin = bytes.NewReader(script)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("bash -n %s: %v\n%s", name, err, out)
		}
	}
}
