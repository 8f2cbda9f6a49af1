package folder_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data/folder"
)

func masks(dir string, o *folder.MaskOptions) (*folder.MaskSet, error) {
	return folder.Masks(filepath.Join(dir, "images"), filepath.Join(dir, "masks"), o)
}

func TestImagesHaveTheirMasks(t *testing.T) {
	dir := tree(t, "images/b.jpg", "images/a.PNG", "images/deep/c.jpeg", "images/notes.txt", "masks/a.png", "masks/b.png",
		"masks/deep/c.png", "masks/b.jpg")
	set, err := masks(dir, nil)
	require.NoError(t, err)
	require.Equal(t, 3, set.Len())
	var got []string
	for i := range set.Len() {
		f, err := set.At(i)
		require.NoError(t, err)
		for _, path := range []string{f.Image, f.Mask} {
			name, err := filepath.Rel(dir, path)
			require.NoError(t, err)
			got = append(got, filepath.ToSlash(name))
		}
	}
	assert.Equal(t, []string{"images/a.PNG", "masks/a.png", "images/b.jpg", "masks/b.png", "images/deep/c.jpeg",
		"masks/deep/c.png"}, got)
	assert.Equal(t, filepath.Join(dir, "images", "b.jpg"), set.Describe(1))
}

// TestNamesAndSuffixesChooseFiles as in Pascal VOC and Cityscapes.
func TestNamesAndSuffixesChooseFiles(t *testing.T) {
	set, err := masks(tree(t, "images/1.jpg", "images/2.jpg", "images/3.jpg", "masks/1.png", "masks/3.png"),
		&folder.MaskOptions{Names: []string{"3", "1"}})
	require.NoError(t, err)
	require.Len(t, set.Files, 2)
	assert.Equal(t, "3.png", filepath.Base(set.Files[0].Mask))

	set, err = masks(tree(t, "images/aachen/1_leftImg8bit.png", "masks/aachen/1_gtFine_color.png",
		"masks/aachen/1_gtFine_labelIds.png"),
		&folder.MaskOptions{ImageSuffix: "_leftImg8bit", MaskSuffix: "_gtFine_labelIds"})
	require.NoError(t, err)
	require.Len(t, set.Files, 1)
	assert.Equal(t, "1_gtFine_labelIds.png", filepath.Base(set.Files[0].Mask))
}

func TestWhatHasNoCounterpartIsNamed(t *testing.T) {
	for _, c := range []struct {
		want    string
		options *folder.MaskOptions
		files   []string
	}{
		{"2 of the 3 images in", nil, []string{"images/1.jpg", "images/2.jpg", "images/3.jpg", "masks/2.png"}},
		{"1 of the 2 masks in", nil, []string{"images/1.jpg", "masks/1.png", "masks/2.png"}},
		{`there is no image "7_x", which MaskOptions.Names names`,
			&folder.MaskOptions{Names: []string{"7"}, ImageSuffix: "_x"}, []string{"images/1.jpg", "masks/1.png"}},
		{`there is no mask "2.png" of the image`, &folder.MaskOptions{Names: []string{"2"}},
			[]string{"images/2.jpg", "masks/1.png"}},
		{"MaskOptions.Names is empty", &folder.MaskOptions{Names: []string{}}, []string{"images/1.jpg", "masks/1.png"}},
		{"have the same name but for the extension", nil, []string{"images/1.jpg", "images/1.png", "masks/1.png"}},
		{`no image whose name ends with "" before one of`, nil, []string{"images/1.txt", "masks/1.txt"}},
		{"masks: no such file", nil, []string{"images/1.jpg"}},
	} {
		_, err := masks(tree(t, c.files...), c.options)
		assert.ErrorContains(t, err, c.want)
	}
}
