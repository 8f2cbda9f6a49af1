package cgotorch

// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "load.h"
import "C"

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unsafe"
)

// ABI identifies the sources of the shim that this program was built with. Its library is named
// after it.
const ABI = C.CT_ABI

// Wanted is the version of libtorch that the shim is written for.
const Wanted = "2.11.0"

// Loaded describes what [Load] opened.
type Loaded struct {
	Library  string // path of the shim
	LibTorch string // folder of libtorch's own libraries
	Version  string // of libtorch
	IntelMKL bool   // MKL uses its kernels for Intel CPUs

	cuda     bool   // libtorch has CUDA libraries
	noCUDA   string // why they were not loaded; empty if they were
	noGraphs error  // why CUDA graphs are not available
}

// ErrNotInstalled is returned if libtorch is not found.
var ErrNotInstalled = errors.New("libtorch is not installed")

const remedy = "\n  to install it: make setup (in a checkout of gotrainer), or go run " +
	"github.com/gotrainer/gotrainer/cmd/gotrainer@latest install"

// LibraryName returns the file name of the shim.
func LibraryName() string { return "libcgotorch-" + ABI + librarySuffix() }

// mklName returns the file name of the library that makes MKL treat every CPU as one from Intel.
func mklName() string { return "libcgotorch_mkl-" + ABI + librarySuffix() }

// generatorsName returns the file name of the library that lets a thread have its own default
// generators.
func generatorsName() string { return "libcgotorch_generators-" + ABI + librarySuffix() }

func librarySuffix() string {
	if runtime.GOOS == "darwin" {
		return ".dylib"
	}
	return ".so"
}

// InstallRoot returns the per-user folder in which `make setup` and `gotrainer install` put
// libtorch.
func InstallRoot() string {
	if root := os.Getenv("GOTRAINER_HOME"); root != "" {
		return root
	}
	if data := os.Getenv("XDG_DATA_HOME"); data != "" {
		return filepath.Join(data, "gotrainer")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".local", "share", "gotrainer")
}

// SearchPath returns the folders in which the shim is searched for, in order.
func SearchPath() []string {
	if dir := os.Getenv("GOTRAINER_LIB"); dir != "" {
		return []string{dir} // an explicit choice has no fallback
	}
	var dirs []string
	if exe, err := os.Executable(); err == nil {
		dirs = append(dirs, filepath.Dir(exe), filepath.Join(filepath.Dir(exe), "lib"))
	}
	if root := InstallRoot(); root != "" {
		// filepath.Glob would also interpret special characters in root.
		builds, _ := fs.Glob(os.DirFS(root), "libtorch-*/lib")
		for i, build := range builds {
			builds[i] = filepath.Join(root, build)
		}
		gpu := here().hasGPU()
		slices.SortStableFunc(builds, func(a, b string) int { return rank(a, gpu) - rank(b, gpu) })
		dirs = append(dirs, builds...)
	}
	return append(dirs, "/usr/local/lib", "/usr/lib")
}

// rank orders builds: first that of LIBTORCH, then the CUDA build if there is a GPU, then the CPU
// build.
func rank(dir string, gpu bool) int {
	name := filepath.Base(filepath.Dir(dir))
	switch {
	case strings.HasSuffix(name, "-external") && os.Getenv("LIBTORCH") != "":
		return 0
	case strings.Contains(name, "-cu") && gpu:
		return 1
	case strings.HasSuffix(name, "-cpu"):
		return 2
	}
	return 3
}

// MKL says whether MKL is made to treat every CPU as one from Intel: src/mkl_intel.c.
type MKL int

// The ways to treat MKL.
const (
	NativeMKL       MKL = iota // MKL checks the CPU itself
	IntelMKL                   // every CPU is treated as one from Intel
	IntelMKLIfThere            // the same, if the library for it is in the shim's folder
)

// Load finds and opens the shim, and with it libtorch. It is not safe for concurrent use and must
// be called once.
func Load(mkl MKL) (Loaded, error) {
	dirs := SearchPath()
	for _, dir := range dirs {
		path := filepath.Join(dir, LibraryName())
		if _, err := os.Stat(path); err == nil {
			return open(path, mkl)
		}
	}
	return Loaded{}, notFound(dirs)
}

func notFound(dirs []string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s was not found; looked in", LibraryName())
	for _, dir := range dirs {
		fmt.Fprintf(&b, "\n    %s", dir)
		others, _ := fs.Glob(os.DirFS(dir), "libcgotorch-*"+librarySuffix())
		for _, other := range others {
			fmt.Fprintf(&b, "\n      (%s there was built from other sources than this program)", other)
		}
	}
	return fmt.Errorf("%w: %s%s", ErrNotInstalled, b.String(), remedy)
}

func open(path string, mkl MKL) (Loaded, error) {
	lib := filepath.Dir(path)
	var preload []string
	if generators := filepath.Join(lib, generatorsName()); fileExists(generators) {
		preload = append(preload, generators)
	}
	intel := filepath.Join(lib, mklName())
	intelMKL := mkl != NativeMKL && fileExists(intel)
	if intelMKL {
		preload = append(preload, intel)
	} else if mkl == IntelMKL {
		return Loaded{}, fmt.Errorf("%w: there is no %s beside %s%s", ErrNotInstalled, mklName(), path, remedy)
	}
	if external := os.Getenv("LIBTORCH"); external != "" {
		lib = filepath.Join(external, "lib")
		for _, name := range []string{"libc10", "libtorch_cpu"} {
			file := filepath.Join(lib, name+librarySuffix())
			if fileExists(file) {
				preload = append(preload, file)
			} else if name == "libtorch_cpu" {
				return Loaded{}, fmt.Errorf("%w: LIBTORCH is %s, but there is no %s: it must name the folder that "+
					"holds libtorch's lib and include", ErrNotInstalled, external, file)
			}
		}
	}
	cuda, noCUDA := fileExists(filepath.Join(lib, "libtorch_cuda"+librarySuffix())), ""
	if cuda {
		noCUDA = here().noCUDA(lib)
	}
	if cuda && noCUDA == "" { // otherwise two gigabytes of libraries would find no GPU
		for _, name := range []string{"libc10_cuda", "libtorch_cuda"} {
			preload = append(preload, filepath.Join(lib, name+librarySuffix()))
		}
	}
	cPath := C.CString(path)
	defer C.free(unsafe.Pointer(cPath))
	list := make([]*C.char, len(preload)+1)
	for i, p := range preload {
		list[i] = C.CString(p)
		defer C.free(unsafe.Pointer(list[i]))
	}
	if message := C.ct_load(cPath, &list[0], C.int(len(preload))); message != nil {
		defer C.free(unsafe.Pointer(message))
		return Loaded{}, fmt.Errorf("cannot load %s: %s%s", path, C.GoString(message), remedy)
	}
	loaded := Loaded{Library: path, LibTorch: lib, Version: C.GoString(C.ct_torch_version()),
		IntelMKL: intelMKL, cuda: cuda, noCUDA: noCUDA}
	if !strings.HasPrefix(loaded.Version, Wanted) {
		return Loaded{}, fmt.Errorf("cannot use libtorch %s from %s: this version of gotrainer is written for %s%s",
			loaded.Version, lib, Wanted, remedy)
	}
	if cuda && noCUDA == "" {
		loaded.noGraphs = loadGraphs(filepath.Dir(path))
	}
	return loaded, nil
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
