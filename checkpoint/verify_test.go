package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// every calls do with each file of a checkpoint and its contents.
func every(t *testing.T, path string, do func(name string, content []byte)) {
	t.Helper()
	for _, name := range []string{"model.safetensors", "rng/0", "empty", ManifestName} {
		text, err := os.ReadFile(filepath.Join(path, name))
		if err != nil {
			t.Fatal(err)
		}
		do(name, text)
	}
}

// damaged checks that a checkpoint is refused with an error that names the file.
func damaged(t *testing.T, path, what string) {
	t.Helper()
	err := Verify(path)
	var e *DamagedError
	if !errors.As(err, &e) || e.Path != path {
		t.Errorf("Verify after %s = %v, want a DamagedError of %s", what, err, path)
	}
}

func put(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestEveryFlippedBitIsFound(t *testing.T) {
	path := save(t, open(t, t.TempDir(), Options{}), 3, "some weights")
	every(t, path, func(name string, text []byte) {
		file := filepath.Join(path, name)
		for bit := range 8 * len(text) {
			text[bit/8] ^= 1 << (bit % 8)
			put(t, file, text)
			damaged(t, path, "a flipped bit of "+name)
			text[bit/8] ^= 1 << (bit % 8)
		}
		put(t, file, text)
	})
	if err := Verify(path); err != nil {
		t.Errorf("Verify after mending everything = %v", err)
	}
}

func TestEveryTruncationIsFound(t *testing.T) {
	path := save(t, open(t, t.TempDir(), Options{}), 3, "some weights")
	every(t, path, func(name string, text []byte) {
		file := filepath.Join(path, name)
		for n := range len(text) {
			put(t, file, text[:n])
			damaged(t, path, "truncating "+name)
		}
		put(t, file, append(text, 0))
		damaged(t, path, "lengthening "+name)
		put(t, file, text)
	})
}

func TestVerifyRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		harm func(path string) error
		want string
	}{
		{"a missing file", func(p string) error { return os.Remove(filepath.Join(p, "rng/0")) },
			"rng/0: it is missing"},
		{"a missing folder", func(p string) error { return os.RemoveAll(filepath.Join(p, "rng")) },
			"rng/0: it is missing"},
		{"no manifest", func(p string) error { return os.Remove(filepath.Join(p, ManifestName)) },
			ErrNoManifest.Error()},
		{"two files swapped", func(p string) error {
			a, b := filepath.Join(p, "model.safetensors"), filepath.Join(p, "rng/0")
			return errors.Join(os.Rename(a, p+"x"), os.Rename(b, a), os.Rename(p+"x", b))
		}, "its manifest says"},
		{"a link instead of a file", func(p string) error {
			a := filepath.Join(p, "model.safetensors")
			return errors.Join(os.Rename(a, p+"x"), os.Symlink(p+"x", a))
		}, "not a regular file"},
		{"the manifest of another step", func(p string) error {
			text, err := os.ReadFile(filepath.Join(filepath.Dir(p), "checkpoint-1", ManifestName))
			return errors.Join(err, os.WriteFile(filepath.Join(p, ManifestName), text, 0o600))
		}, "it is of step 1, the folder is named after step 2"},
		{"a manifest of a later version", func(p string) error {
			text, err := manifest{Format: 3}.encode()
			return errors.Join(err, os.WriteFile(filepath.Join(p, ManifestName), text, 0o600))
		}, "its format is 3, this version reads 1 to 2"},
		{"a manifest that leaves the folder", func(p string) error {
			text, err := manifest{Format: 1, Files: []file{{Name: "../x"}}}.encode()
			return errors.Join(err, os.WriteFile(filepath.Join(p, ManifestName), text, 0o600))
		}, `impossible file "../x"`},
		{"a manifest that lists a file twice", func(p string) error {
			text, err := manifest{Format: 1, Files: []file{{Name: "a"}, {Name: "a"}}}.encode()
			return errors.Join(err, os.WriteFile(filepath.Join(p, ManifestName), text, 0o600))
		}, `lists "a" after "a"`},
		{"a file instead of the folder", func(p string) error {
			return errors.Join(os.RemoveAll(p), os.WriteFile(p, nil, 0o600))
		}, "not a folder"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, t.TempDir(), Options{})
			save(t, s, 1, "other weights")
			path := save(t, s, 2, "some weights")
			if err := c.harm(path); err != nil {
				t.Fatal(err)
			}
			damaged(t, path, c.name)
			if err := Verify(path); !strings.Contains(err.Error(), c.want) {
				t.Errorf("Verify = %v, want %q", err, c.want)
			}
		})
	}
}

func TestHiddenFilesAreNoPartOfACheckpoint(t *testing.T) {
	path := save(t, open(t, t.TempDir(), Options{}), 3, "some weights")
	put(t, filepath.Join(path, ".DS_Store"), []byte("x"))
	if err := Verify(path); err != nil {
		t.Errorf("Verify with a hidden file = %v", err)
	}
}

func TestVerifyOfNothingIsNoDamage(t *testing.T) {
	err := Verify(filepath.Join(t.TempDir(), "missing"))
	var e *DamagedError
	if !errors.Is(err, os.ErrNotExist) || errors.As(err, &e) {
		t.Errorf("Verify of a missing checkpoint = %v, want os.ErrNotExist", err)
	}
}

func TestLatestPassesOverDamage(t *testing.T) {
	var told []string
	s := open(t, t.TempDir(), Options{OnDamaged: func(e *DamagedError) { told = append(told, filepath.Base(e.Path)) }})
	for step := range 4 {
		save(t, s, step, "weights")
	}
	put(t, filepath.Join(s.Path(3), "model.safetensors"), []byte("weightz"))
	if err := os.Remove(filepath.Join(s.Path(2), ManifestName)); err != nil {
		t.Fatal(err)
	}
	latest, err := s.Latest()
	if err != nil || latest != s.Path(1) {
		t.Errorf("Latest() = %q, %v, want step 1", latest, err)
	}
	if strings.Join(told, " ") != "checkpoint-3 checkpoint-2" {
		t.Errorf("OnDamaged was called with %v", told)
	}
	for _, step := range []int{0, 1} {
		put(t, filepath.Join(s.Path(step), "empty"), []byte("not"))
	}
	_, err = s.Latest()
	var e *DamagedError
	if !errors.Is(err, ErrNone) || !errors.As(err, &e) || !errors.Is(err, ErrNoManifest) {
		t.Errorf("Latest() with only damaged checkpoints = %v, want ErrNone and the reasons", err)
	}
}

func FuzzManifest(f *testing.F) {
	for _, m := range []manifest{{Format: 1, Files: []file{}},
		{Format: 1, Step: 3, Files: []file{{Name: "a", Size: 1, CRC32C: "00000000"},
			{Name: "b/c", Size: 2, CRC32C: "ffffffff"}}}, {Format: 2, Files: []file{{Name: "a.safetensors", Size: 1,
			CRC32C: "00000000", Tensors: map[string]string{"w": "00000000"}}}}} {
		text, err := m.encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"format":1,"files":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := decodeManifest(text)
		if err != nil {
			return
		}
		again, err := m.encode()
		if err != nil || string(again) != string(text) {
			t.Fatalf("took %q, which it writes as %q (%v)", text, again, err)
		}
		for _, f := range m.Files {
			if !filepath.IsLocal(f.Name) {
				t.Fatalf("took a file outside the checkpoint: %q", f.Name)
			}
		}
	})
}
