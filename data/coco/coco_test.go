package coco_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/data/coco"
	"github.com/gotrainer/gotrainer/metrics"
)

var _ data.Dataset[coco.Image] = (*coco.Set)(nil)

const instances = `{
	"info": {"year": 2017}, "licenses": [{"id": 1}],
	"images": [{"id": 9, "file_name": "b.jpg", "height": 20, "width": 30, "license": 1},
		{"id": 4, "file_name": "in/a.jpg", "height": 8, "width": 8}],
	"annotations": [
		{"id": 1, "image_id": 9, "category_id": 7, "bbox": [1, 2.5, 10, 3], "area": 21.5, "iscrowd": 0,
		 "segmentation": [[1, 2, 3, 4, 5, 6]]},
		{"id": 2, "image_id": 9, "category_id": 2, "bbox": [0, 0, 30.5, 20], "area": 300, "iscrowd": 1,
		 "segmentation": {"counts": [3], "size": [20, 30]}}],
	"categories": [{"id": 7, "name": "dog", "supercategory": "animal"}, {"id": 2, "name": "cat"}]
}`

func TestImagesWithTheirObjects(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "in"), 0o700))
	for name, text := range map[string]string{"instances.json": instances, "b.jpg": "", "in/a.jpg": ""} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	set, err := coco.Open(filepath.Join(dir, "instances.json"), dir)
	require.NoError(t, err)
	assert.Equal(t, []string{"cat", "dog"}, set.Classes)
	assert.Equal(t, []int64{2, 7}, set.CategoryIDs)
	require.Equal(t, 2, set.Len())
	im, err := set.At(0)
	require.NoError(t, err)
	assert.Equal(t, coco.Image{ID: 9, Path: filepath.Join(dir, "b.jpg"), Width: 30, Height: 20, Objects: []metrics.Box{
		{Class: 1, X: 1, Y: 2.5, Width: 10, Height: 3, Area: 21.5},
		{Class: 0, Width: 30.5, Height: 20, Area: 300, Crowd: true}}}, im)
	assert.Equal(t, filepath.Join(dir, "in", "a.jpg"), set.Describe(1))
	assert.Empty(t, set.Images[1].Objects)

	require.NoError(t, os.Remove(filepath.Join(dir, "in/a.jpg")))
	_, err = coco.Open(filepath.Join(dir, "instances.json"), dir)
	require.ErrorIs(t, err, os.ErrNotExist)
	assert.ErrorContains(t, err, "coco: image 4 of "+dir)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "in/a.jpg"), 0o700))
	_, err = coco.Open(filepath.Join(dir, "instances.json"), dir)
	require.ErrorContains(t, err, "it is a folder")
	_, err = coco.Open(filepath.Join(dir, "missing.json"), dir)
	assert.ErrorIs(t, err, os.ErrNotExist)
}

func TestFilesThatAreWrongAreRefused(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{`"image_id": 9, "category_id": 7`, `"image_id": 5, "category_id": 7`, "annotation 1 has the image_id 5; there is no such image"},
		{`"category_id": 7`, `"category_id": 3`, "annotation 1 has the category_id 3; there is no such category"},
		{`"id": 2, "image_id"`, `"id": 1, "image_id"`, "two annotations with the id 1"},
		{`"id": 4, "file_name"`, `"id": 9, "file_name"`, "two images with the id 9"},
		{`{"id": 2, "name"`, `{"id": 7, "name"`, "two categories with the id 7"},
		{`[1, 2.5, 10, 3]`, `[1, 2.5, 10]`, "annotation 1 has the bbox [1 2.5 10]; want x, y, width and height"},
		{`[1, 2.5, 10, 3]`, `[25, 2.5, 10, 3]`, "a box in image 9, which has 30x20 pixels"},
		{`[1, 2.5, 10, 3]`, `[1, 2.5, -10, 3]`, "a box in image 9"},
		{`[1, 2.5, 10, 3]`, `"all"`, "annotations[0]: json: cannot unmarshal string"},
		{`"iscrowd": 1`, `"iscrowd": 2`, "annotation 2 has iscrowd 2; want 0 or 1"},
		{`"area": 300`, `"area": -3`, "annotation 2 has the area -3"},
		{`"file_name": "b.jpg", `, ``, "images[0] has no id, file_name, width or height"},
		{`"b.jpg"`, `"../b.jpg"`, `image 9 has the file_name "../b.jpg"; want a path within the folder`},
		{`"height": 20`, `"height": 0`, "image 9 has 30x0 pixels"},
		{`"height": 20`, `"height": "x"`, "images[0]: json: cannot unmarshal string"},
		{`"name": "cat"`, `"nam": "cat"`, "a category has no id or no name"},
		{`"image_id": 9, "category_id": 7`, `"category_id": 7`, "annotations[0] has no id, image_id or category_id"},
		{`"categories"`, `"category"`, `there is no "categories"; want a file of instances`},
		{`"info": {"year": 2017}`, `"images": []`, `"images" is there twice`},
		{`"images": [`, `"images": 3, "more": [`, `"images": found 3; want a list of images`},
	} {
		require.Contains(t, instances, c.from)
		_, err := coco.Read(strings.NewReader(strings.Replace(instances, c.from, c.to, 1)))
		assert.ErrorContains(t, err, c.want)
	}
	for text, want := range map[string]string{``: "EOF", `[]`: "found [; want an object", `{"images": [`: "EOF", `{`: "EOF"} {
		_, err := coco.Read(strings.NewReader(text))
		assert.ErrorContains(t, err, want)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(instances))
	f.Add([]byte(`{"images": [], "annotations": [], "categories": []}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		set, err := coco.Read(bytes.NewReader(text))
		if err != nil {
			return
		}
		require.Len(t, set.CategoryIDs, len(set.Classes))
		for i := range set.Len() {
			im, err := set.At(i)
			require.NoError(t, err)
			for _, o := range im.Objects {
				require.Less(t, o.Class, len(set.Classes))
				require.LessOrEqual(t, o.X+o.Width, float64(im.Width)+1)
			}
		}
	})
}

func TestResultsAreWritten(t *testing.T) {
	var b bytes.Buffer
	results := []coco.Result{{ImageID: 9, CategoryID: 7, BBox: [4]float64{1, 2, 3.5, 4}, Score: 0.5}}
	require.NoError(t, coco.WriteResults(&b, results))
	assert.JSONEq(t, `[{"image_id": 9, "category_id": 7, "bbox": [1, 2, 3.5, 4], "score": 0.5}]`, b.String())
	b.Reset()
	require.NoError(t, coco.WriteResults(&b, nil))
	assert.Equal(t, "[]\n", b.String())
}
