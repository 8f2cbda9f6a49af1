package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gotrainer/gotrainer"
)

// installCommand does what "make setup" does in a checkout, from the sources that are embedded in
// this program.
type installCommand struct {
	CUDA          bool `name:"cuda" help:"The CUDA build of libtorch: 2.4 GB to download instead of 0.55."`
	Zip           bool `xor:"source" help:"Take libtorch only from the official zip."`
	Wheel         bool `xor:"source" help:"Take libtorch only from the wheels that pip downloads."`
	LibsOnly      bool `help:"Install only libtorch; do not build libcgotorch, so no C++ compiler is needed."`
	KeepDownloads bool `help:"Leave the downloaded archives in the install root."`

	Platform string `help:"Install for machines of another kind, linux-x86_64 or linux-aarch64, with a cross compiler."`
}

// Run is called by kong.
func (c *installCommand) Run(ctx context.Context) error {
	in := installer{sources: gotrainer.Native, out: os.Stdout, err: os.Stderr}
	return in.install(ctx, c.flags(), !c.LibsOnly)
}

// flags returns the options as flags of scripts/install_libtorch.sh.
func (c *installCommand) flags() []string {
	var flags []string
	for _, f := range []struct {
		set  bool
		flag string
	}{{c.CUDA, "--cuda"}, {c.Zip, "--zip"}, {c.Wheel, "--wheel"}, {c.LibsOnly, "--libs-only"},
		{c.KeepDownloads, "--keep-downloads"}} {
		if f.set {
			flags = append(flags, f.flag)
		}
	}
	if c.Platform != "" {
		flags = append(flags, "--platform="+c.Platform)
	}
	return flags
}

// installer runs the install script and the shim's Makefile from sources, which has the layout of
// the repository.
type installer struct {
	sources  fs.FS
	out, err io.Writer
}

func (in *installer) install(ctx context.Context, flags []string, shim bool) error {
	dir, err := os.MkdirTemp("", "gotrainer-install-")
	if err != nil {
		return fmt.Errorf("install: a folder for the sources: %w", err)
	}
	defer os.RemoveAll(dir)
	if err := os.CopyFS(dir, in.sources); err != nil {
		return fmt.Errorf("install: write the sources: %w", err)
	}

	script := filepath.Join(dir, "scripts", "install_libtorch.sh")
	if err := in.run(ctx, in.out, "bash", append([]string{script}, flags...)...); err != nil {
		return fmt.Errorf("install libtorch: %w", err)
	}
	if !shim {
		return nil
	}
	var paths bytes.Buffer
	if err := in.run(ctx, &paths, "bash", append([]string{script, "--paths"}, flags...)...); err != nil {
		return fmt.Errorf("install: ask for the paths: %w", err)
	}
	return in.buildShim(ctx, dir, strings.Fields(paths.String()))
}

// buildShim runs the shim's Makefile, which does nothing if the library was already built from the
// same sources, even from another copy of them.
func (in *installer) buildShim(ctx context.Context, dir string, variables []string) error {
	abi, err := readABI(in.sources)
	if err != nil {
		return err
	}
	library, err := shimPath(variables, abi)
	if err != nil {
		return err
	}
	if _, err := exec.LookPath("make"); err != nil {
		return fmt.Errorf("build libcgotorch: %w: install make (apt-get install make, dnf install make or "+
			"xcode-select --install) and run this again", err)
	}
	args := append([]string{"--silent", "-C", filepath.Join(dir, "cgotorch", "src"), "-j",
		strconv.Itoa(runtime.NumCPU())}, variables...)
	if err := in.run(ctx, in.out, "make", args...); err != nil {
		return fmt.Errorf("build libcgotorch: %w (the compiler's output is above)", err)
	}
	if _, err := os.Stat(library); err != nil {
		return fmt.Errorf("build libcgotorch: make succeeded, but the library is missing: %w", err)
	}
	fmt.Fprintln(in.out, "libcgotorch is ready:", library)
	return nil
}

// run runs a program with our terminal. If the context is cancelled, the program gets SIGTERM and
// time to remove its temporary files.
func (in *installer) run(ctx context.Context, out io.Writer, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, out, in.err
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	return cmd.Run()
}

var abiLine = regexp.MustCompile(`(?m)^#define CT_ABI "([^"]+)"$`)

// readABI returns the hash of the shim's sources, which the generator wrote into the header.
func readABI(sources fs.FS) (string, error) {
	const header = "cgotorch/zz_abi.h"
	text, err := fs.ReadFile(sources, header)
	if err != nil {
		return "", fmt.Errorf("install: %w", err)
	}
	m := abiLine.FindSubmatch(text)
	if m == nil {
		return "", fmt.Errorf("install: %s has no line #define CT_ABI \"...\"; run go generate ./cgotorch", header)
	}
	return string(m[1]), nil
}

// shimPath returns where the Makefile puts the library: in OUT, one of the variables that the
// install script prints.
func shimPath(variables []string, abi string) (string, error) {
	suffix := "so"
	if runtime.GOOS == "darwin" {
		suffix = "dylib"
	}
	for _, v := range variables {
		if folder, ok := strings.CutPrefix(v, "OUT="); ok {
			return filepath.Join(folder, "libcgotorch-"+abi+"."+suffix), nil
		}
	}
	return "", fmt.Errorf("install: install_libtorch.sh --paths printed no OUT=, but %q", variables)
}
