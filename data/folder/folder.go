// Package folder makes data sets from folders that have one folder of files per class:
//
//	photos/cat/0001.jpg
//	photos/dog/0001.jpg
//
//	set, err := folder.Images("photos")
//	file, err := set.At(0) // file.Path: photos/cat/0001.jpg, file.Class: 0
//	set.Classes            // [cat dog]
//
// Classes are numbered in the order of their names, and files are sorted within their class, as in
// torchvision's ImageFolder: a data set has the same samples in the same order there and here. If a
// folder holds more than the classes, name the classes:
//
//	set, err := folder.Texts("aclImdb/train", "neg", "pos") // without the folder unsup
//
// [Masks] pairs the images of a folder with the label maps of another, for semantic segmentation.
package folder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gotrainer/gotrainer/internal/regularfile"
)

// ImageExtensions are the extensions that torchvision treats as images. Package vision decodes all
// of these formats.
var ImageExtensions = []string{".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"}

// TextExtensions are the extensions of text files.
var TextExtensions = []string{".txt"}

// File is a sample.
type File struct {
	Path  string
	Class int64 // index in Set.Classes
}

// Set is a data set of files.
type Set struct {
	Classes []string // names of the folders, sorted, or the classes passed to Open
	Files   []File
}

// Images opens a folder that has one folder of images for each class: torchvision's ImageFolder.
// See [Open] for classes.
func Images(dir string, classes ...string) (*Set, error) {
	return Open(dir, ImageExtensions, classes...)
}

// Texts opens a folder that has one folder of text files for each class, the form in which the IMDB
// reviews are distributed. See [Open] for classes.
func Texts(dir string, classes ...string) (*Set, error) { return Open(dir, TextExtensions, classes...) }

// Open opens a folder that has one folder for each class, and uses the files with these extensions,
// in upper or lower case, at any depth. Links to folders are followed. Classes are the names of the
// folders to use, in the order of their class numbers; none means all folders. If a class has no
// such file, the error is an [*EmptyError].
func Open(dir string, extensions []string, classes ...string) (*Set, error) {
	if len(classes) == 0 {
		var err error
		if classes, err = folders(dir); err != nil {
			return nil, fmt.Errorf("folder: %w", err)
		}
	}
	set := &Set{Classes: slices.Clone(classes)}
	var empty []string
	for i, class := range classes {
		if slices.Contains(classes[:i], class) {
			return nil, fmt.Errorf("folder: %s: the class %q is named twice", dir, class)
		}
		before := len(set.Files)
		if err := set.add(filepath.Join(dir, class), int64(i), extensions); err != nil {
			return nil, fmt.Errorf("folder: the class %q: %w", class, err)
		}
		if len(set.Files) == before {
			empty = append(empty, class)
		}
	}
	if len(empty) > 0 || len(classes) == 0 {
		return nil, &EmptyError{Dir: dir, Classes: empty, Extensions: extensions}
	}
	return set, nil
}

// folders returns the names of the folders in dir, sorted.
func folders(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(dir, e.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a dangling link is not a class
			return nil, err
		}
		if err == nil && info.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// add adds the files of a class. Like Python, it sorts the folders by their whole paths, in which
// "a-b" comes before "a/c".
func (s *Set) add(dir string, class int64, extensions []string) error {
	inner, err := below(dir, nil)
	if err != nil {
		return err
	}
	slices.Sort(inner)
	for _, folder := range inner {
		entries, err := os.ReadDir(folder)
		if err != nil {
			return err
		}
		for _, e := range entries {
			path := filepath.Join(folder, e.Name())
			if slices.Contains(extensions, strings.ToLower(filepath.Ext(path))) && !isFolder(path, e) {
				s.Files = append(s.Files, File{path, class})
			}
		}
	}
	return nil
}

// below returns a folder and all folders below it. above holds the folders that lead to it, so that
// a link back to one of them is detected.
func below(dir string, above []fs.FileInfo) ([]string, error) {
	here, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(above, func(i fs.FileInfo) bool { return os.SameFile(i, here) }) {
		return nil, fmt.Errorf("%s leads back to a folder that it is in", dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	list := []string{dir}
	for _, e := range entries {
		if path := filepath.Join(dir, e.Name()); isFolder(path, e) {
			inner, err := below(path, append(slices.Clip(above), here))
			if err != nil {
				return nil, err
			}
			list = append(list, inner...)
		}
	}
	return list, nil
}

func isFolder(path string, e fs.DirEntry) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.IsDir()
	}
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// Len returns the number of files.
func (s *Set) Len() int { return len(s.Files) }

// At returns file i.
func (s *Set) At(i int) (File, error) { return s.Files[i], nil }

// Describe returns the path of file i.
func (s *Set) Describe(i int) string { return s.Files[i].Path }

// maxText is far larger than the text files of any data set.
const maxText = 1 << 30

// ErrUTF8 is wrapped by the error of [File.Text] about a file that is not valid UTF-8.
var ErrUTF8 = errors.New("not valid UTF-8; read its bytes from File.Path, and make each a rune if it is Latin-1")

// Text returns the contents of the file, which must be UTF-8.
func (f File) Text() (string, error) {
	text, err := regularfile.ReadFile(f.Path, maxText)
	if err != nil {
		return "", fmt.Errorf("folder: %w", err)
	}
	if !utf8.Valid(text) {
		return "", fmt.Errorf("folder: %s: %w", f.Path, ErrUTF8)
	}
	return string(text), nil
}

// EmptyError says that classes have no files, or that there is no class.
type EmptyError struct {
	Dir        string
	Classes    []string
	Extensions []string
}

func (e *EmptyError) Error() string {
	if len(e.Classes) == 0 {
		return fmt.Sprintf("folder: %s holds no folders; there must be one for each class", e.Dir)
	}
	return fmt.Sprintf("folder: %s: no file that ends with one of %v in the folders of the classes %q", e.Dir,
		e.Extensions, e.Classes)
}
