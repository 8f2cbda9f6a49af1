package folder_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/data/folder"
)

var _ data.Dataset[folder.File] = (*folder.Set)(nil)

// tree creates files in a folder; a name that ends in / is a folder.
func tree(t testing.TB, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(path, []byte("text of "+name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestOrderIsThatOfImageFolder expects the order that Python's
//
//	for root, _, names in sorted(os.walk(class_dir, followlinks=True)): for name in sorted(names)
//
// gives for each class, as in torchvision's make_dataset.
func TestOrderIsThatOfImageFolder(t *testing.T) {
	dir := tree(t, "dog/10.jpg", "dog/9.PNG", "dog/a/x.jpg", "dog/a-b/y.jpg", "dog/a/c/z.webp", "dog/notes.txt",
		"cat/b.jpeg", "cat/B.jpg", "Zebra/1.bmp", "loose.jpg")
	set, err := folder.Images(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range set.Len() {
		f, err := set.At(i)
		if err != nil {
			t.Fatal(err)
		}
		name, _ := filepath.Rel(dir, f.Path)
		got = append(got, fmt.Sprint(f.Class, " ", filepath.ToSlash(name)))
	}
	want := []string{"0 Zebra/1.bmp", "1 cat/B.jpg", "1 cat/b.jpeg", "2 dog/10.jpg", "2 dog/9.PNG", "2 dog/a/x.jpg",
		"2 dog/a-b/y.jpg", "2 dog/a/c/z.webp"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"Zebra", "cat", "dog"}, set.Classes); diff != "" {
		t.Error(diff)
	}
}

func TestTexts(t *testing.T) {
	set, err := folder.Texts(tree(t, "neg/1.txt", "pos/1.txt", "pos/urls.html"))
	if err != nil {
		t.Fatal(err)
	}
	texts := data.Map(set, folder.File.Text)
	text, err := texts.At(1)
	if text != "text of pos/1.txt" || err != nil || texts.Len() != 2 {
		t.Errorf("At(1) = %q, %v of %d", text, err, texts.Len())
	}
}

func TestNamedClassesLeaveOtherFoldersOut(t *testing.T) {
	dir := tree(t, "neg/0_3.txt", "pos/0_9.txt", "unsup/0_0.txt", "unsup/1_0.txt")
	set, err := folder.Texts(dir, "neg", "pos")
	require.NoError(t, err)
	assert.Equal(t, []string{"neg", "pos"}, set.Classes)
	assert.Equal(t, []folder.File{{Path: filepath.Join(dir, "neg", "0_3.txt"), Class: 0},
		{Path: filepath.Join(dir, "pos", "0_9.txt"), Class: 1}}, set.Files)

	set, err = folder.Texts(dir, "pos", "neg")
	require.NoError(t, err)
	assert.Equal(t, []string{"pos", "neg"}, set.Classes)
	assert.Equal(t, "0_9.txt", filepath.Base(set.Files[0].Path))

	_, err = folder.Texts(dir, "neg", "positive")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, `the class "positive"`)
	_, err = folder.Texts(dir, "neg", "neg")
	require.ErrorContains(t, err, `the class "neg" is named twice`)
	_, err = folder.Images(dir, "neg")
	require.ErrorContains(t, err, `the folders of the classes ["neg"]`)
}

func TestOpenRefuses(t *testing.T) {
	circle := tree(t, "cat/a.jpg")
	if err := os.Symlink(filepath.Join(circle, "cat"), filepath.Join(circle, "cat", "again")); err != nil {
		t.Skip(err)
	}
	for _, c := range []struct{ name, dir, want string }{
		{"a class without files", tree(t, "cat/a.jpg", "dog/", "emu/a.txt"),
			`the folders of the classes ["dog" "emu"]`},
		{"no classes", tree(t, "a.jpg"), "holds no folders"},
		{"a missing folder", "/no/such/folder", "no such file"},
		{"a link that leads back", circle, "leads back to a folder"},
	} {
		if _, err := folder.Images(c.dir); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	var empty *folder.EmptyError
	if _, err := folder.Images(tree(t, "dog/")); !errors.As(err, &empty) || len(empty.Classes) != 1 {
		t.Errorf("a class without files: %v", err)
	}
}

func TestLinksToFoldersAreFollowed(t *testing.T) {
	elsewhere, dir := tree(t, "deep/a.jpg"), tree(t, "dog/b.jpg")
	if err := os.Symlink(elsewhere, filepath.Join(dir, "cat")); err != nil {
		t.Skip(err)
	}
	if err := os.Symlink("/no/such/place", filepath.Join(dir, "broken")); err != nil {
		t.Fatal(err)
	}
	set, err := folder.Images(dir)
	if err != nil || set.Len() != 2 || set.Classes[0] != "cat" {
		t.Errorf("%+v, %v", set, err)
	}
}

func ExampleImages() {
	dir, _ := os.MkdirTemp("", "photos")
	defer os.RemoveAll(dir)
	for _, name := range []string{"cat", "dog"} {
		_ = os.Mkdir(filepath.Join(dir, name), 0o755)
		_ = os.WriteFile(filepath.Join(dir, name, "1.jpg"), nil, 0o644)
	}
	set, err := folder.Images(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(set.Classes, set.Len(), set.Files[1].Class)
	// Output: [cat dog] 2 1
}

// TestTextIsUTF8 covers texts in other encodings, for which a tokenizer would silently return wrong
// tokens.
func TestTextIsUTF8(t *testing.T) {
	dir := tree(t, "a/1.txt", "a/2.txt")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a/2.txt"), []byte("caf\xe9"), 0o600))
	set, err := folder.Texts(dir)
	require.NoError(t, err)
	text, err := set.Files[0].Text()
	require.NoError(t, err)
	assert.Equal(t, "text of a/1.txt", text)
	_, err = set.Files[1].Text()
	require.ErrorIs(t, err, folder.ErrUTF8)
	require.ErrorContains(t, err, filepath.Join(dir, "a", "2.txt"))
}
