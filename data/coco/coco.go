// Package coco reads images with objects from files in COCO's format, and writes what a model found
// in them in COCO's format of results.
//
//	set, err := coco.Open("annotations/instances_train2017.json", "train2017")
//	im, err := set.At(0) // im.Path: train2017/000000000009.jpg; im.Objects: boxes and classes
//	set.Classes          // [person bicycle car ...]
//
// Classes are numbered in the order of the ids of their categories, without gaps: COCO's ids 1 to
// 90 become the classes 0 to 79. Images keep their order in the file. Masks and keypoints are not
// read.
package coco

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/gotrainer/gotrainer/internal/regularfile"
	"github.com/gotrainer/gotrainer/metrics"
)

// Image is a sample.
type Image struct {
	ID            int64
	Path          string
	Width, Height int
	// Objects are what is in the image, with classes as in Set.Classes. They may be empty.
	Objects []metrics.Box
}

// Set is a data set of images.
type Set struct {
	Classes     []string // names of the categories
	CategoryIDs []int64  // their ids
	Images      []Image
}

// Open reads a file of annotations, such as instances_train2017.json, of images in a folder. The
// images must be there; they are not decoded. Errors name what is wrong in the file: types, ids
// that are there twice or not at all, and boxes that are not in their image, for which a tolerance
// of one pixel is allowed.
func Open(annotations, images string) (*Set, error) {
	f, _, err := regularfile.Open(annotations)
	if err != nil {
		return nil, fmt.Errorf("coco: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	set, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%w (%s)", err, annotations)
	}
	for i := range set.Images {
		im := &set.Images[i]
		im.Path = filepath.Join(images, filepath.FromSlash(im.Path))
		info, err := os.Stat(im.Path)
		if err == nil && info.IsDir() {
			err = &fs.PathError{Op: "open", Path: im.Path, Err: errors.New("it is a folder")}
		}
		if err != nil {
			return nil, fmt.Errorf("coco: image %d of %s: %w", im.ID, annotations, err)
		}
	}
	return set, nil
}

// Read is [Open] for the text of a file. The paths of the images are their names in it.
func Read(r io.Reader) (*Set, error) {
	f, err := parse(r)
	if err != nil {
		return nil, fmt.Errorf("coco: %w", err)
	}
	set, err := f.set()
	if err != nil {
		return nil, fmt.Errorf("coco: %w", err)
	}
	return set, nil
}

// file holds what is read of a file. Pointers tell what is missing from what is zero.
type file struct {
	images      []imageEntry
	annotations []annotation
	categories  []category
}

type imageEntry struct {
	ID            *int64
	FileName      *string `json:"file_name"`
	Width, Height *int
}

type annotation struct {
	ID         *int64
	ImageID    *int64 `json:"image_id"`
	CategoryID *int64 `json:"category_id"`
	BBox       []float64
	Area       float64
	IsCrowd    int `json:"iscrowd"`
}

type category struct {
	ID   *int64
	Name *string
}

// parse reads the three lists one element at a time, since the files are large, and skips the rest.
func parse(r io.Reader) (f file, err error) {
	d := json.NewDecoder(r)
	if err := delimiter(d, '{', "an object with images, annotations and categories"); err != nil {
		return f, err
	}
	found := map[string]bool{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return f, err
		}
		name := key.(string) //nolint:errcheck,forcetypeassert // the keys of an object are strings
		if found[name] {
			return f, fmt.Errorf("%q is there twice", name)
		}
		found[name] = true
		switch name {
		case "images":
			err = list(d, name, &f.images)
		case "annotations":
			err = list(d, name, &f.annotations)
		case "categories":
			err = list(d, name, &f.categories)
		default:
			var skipped json.RawMessage
			err = d.Decode(&skipped)
		}
		if err != nil {
			return f, err
		}
	}
	if _, err := d.Token(); err != nil {
		return f, err
	}
	for _, name := range []string{"images", "annotations", "categories"} {
		if !found[name] {
			return f, fmt.Errorf("there is no %q; want a file of instances, with images, annotations and categories", name)
		}
	}
	return f, nil
}

func delimiter(d *json.Decoder, want json.Delim, what string) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	if t != want {
		return fmt.Errorf("found %v; want %s", t, what)
	}
	return nil
}

// list reads the elements of a list.
func list[T any](d *json.Decoder, name string, to *[]T) error {
	if err := delimiter(d, '[', "a list of "+name); err != nil {
		return fmt.Errorf("%q: %w", name, err)
	}
	for i := 0; d.More(); i++ {
		var v T
		if err := d.Decode(&v); err != nil {
			return fmt.Errorf("%s[%d]: %w", name, i, err)
		}
		*to = append(*to, v)
	}
	_, err := d.Token()
	return err
}

// set checks a file and makes a set of it.
func (f file) set() (*Set, error) {
	set := &Set{}
	slices.SortStableFunc(f.categories, func(a, b category) int { return cmp.Compare(orZero(a.ID), orZero(b.ID)) })
	classes := map[int64]int{}
	for _, c := range f.categories {
		if c.ID == nil || c.Name == nil {
			return nil, errors.New("a category has no id or no name")
		}
		if _, found := classes[*c.ID]; found {
			return nil, fmt.Errorf("there are two categories with the id %d", *c.ID)
		}
		classes[*c.ID] = len(set.Classes)
		set.Classes, set.CategoryIDs = append(set.Classes, *c.Name), append(set.CategoryIDs, *c.ID)
	}
	images := map[int64]int{}
	for i, im := range f.images {
		switch {
		case im.ID == nil || im.FileName == nil || im.Width == nil || im.Height == nil:
			return nil, fmt.Errorf("images[%d] has no id, file_name, width or height", i)
		case *im.Width < 1 || *im.Height < 1:
			return nil, fmt.Errorf("image %d has %dx%d pixels; want at least one", *im.ID, *im.Width, *im.Height)
		case !filepath.IsLocal(filepath.FromSlash(*im.FileName)):
			return nil, fmt.Errorf("image %d has the file_name %q; want a path within the folder of images", *im.ID,
				*im.FileName)
		}
		if _, found := images[*im.ID]; found {
			return nil, fmt.Errorf("there are two images with the id %d", *im.ID)
		}
		images[*im.ID] = i
		set.Images = append(set.Images, Image{ID: *im.ID, Path: *im.FileName, Width: *im.Width, Height: *im.Height})
	}
	ids := map[int64]bool{}
	for i, a := range f.annotations {
		if a.ID == nil || a.ImageID == nil || a.CategoryID == nil {
			return nil, fmt.Errorf("annotations[%d] has no id, image_id or category_id", i)
		}
		at, found := images[*a.ImageID]
		class, known := classes[*a.CategoryID]
		switch {
		case ids[*a.ID]:
			return nil, fmt.Errorf("there are two annotations with the id %d", *a.ID)
		case !found:
			return nil, fmt.Errorf("annotation %d has the image_id %d; there is no such image", *a.ID, *a.ImageID)
		case !known:
			return nil, fmt.Errorf("annotation %d has the category_id %d; there is no such category", *a.ID, *a.CategoryID)
		case a.IsCrowd != 0 && a.IsCrowd != 1:
			return nil, fmt.Errorf("annotation %d has iscrowd %d; want 0 or 1", *a.ID, a.IsCrowd)
		case !(a.Area >= 0) || math.IsInf(a.Area, 1):
			return nil, fmt.Errorf("annotation %d has the area %g; want a number of at least 0", *a.ID, a.Area)
		}
		ids[*a.ID] = true
		im := &set.Images[at]
		if reason := im.outside(a.BBox); reason != "" {
			return nil, fmt.Errorf("annotation %d has the bbox %v; %s", *a.ID, a.BBox, reason)
		}
		im.Objects = append(im.Objects, metrics.Box{Class: class, X: a.BBox[0], Y: a.BBox[1], Width: a.BBox[2],
			Height: a.BBox[3], Area: a.Area, Crowd: a.IsCrowd == 1})
	}
	return set, nil
}

func orZero(id *int64) int64 {
	if id == nil {
		return 0
	}
	return *id
}

// outside says why a box cannot be in the image; empty: it can.
func (im *Image) outside(box []float64) string {
	if len(box) != 4 {
		return "want x, y, width and height"
	}
	const tolerance = 1
	x, y, w, h := box[0], box[1], box[2], box[3]
	if !(w >= 0 && h >= 0 && x >= -tolerance && y >= -tolerance && x+w <= float64(im.Width)+tolerance &&
		y+h <= float64(im.Height)+tolerance) {
		return fmt.Sprintf("want x, y, width and height of a box in image %d, which has %dx%d pixels", im.ID, im.Width,
			im.Height)
	}
	return ""
}

// Len returns the number of images.
func (s *Set) Len() int { return len(s.Images) }

// At returns image i.
func (s *Set) At(i int) (Image, error) { return s.Images[i], nil }

// Describe returns the path of image i.
func (s *Set) Describe(i int) string { return s.Images[i].Path }

// Result is an object that a model found, in COCO's format of results.
type Result struct {
	ImageID    int64      `json:"image_id"`
	CategoryID int64      `json:"category_id"`
	BBox       [4]float64 `json:"bbox"` // x, y, width and height, in pixels
	Score      float64    `json:"score"`
}

// WriteResults writes results for COCO's evaluation (COCO.loadRes).
func WriteResults(w io.Writer, results []Result) error {
	if results == nil {
		results = []Result{}
	}
	if err := json.NewEncoder(w).Encode(results); err != nil {
		return fmt.Errorf("coco: %w", err)
	}
	return nil
}
