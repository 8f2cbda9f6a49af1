package folder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// MaskedImage is an image and the label map of its pixels.
type MaskedImage struct{ Image, Mask string } // paths

// MaskSet is a data set of images with label maps, for semantic segmentation.
type MaskSet struct{ Files []MaskedImage }

// MaskOptions configures [Masks]. Nil and the zero value are for images and masks of the same
// names.
type MaskOptions struct {
	// Names are the images to use, in this order, as their paths in the folder without extension.
	// Files of data sets list them: ImageSets/Segmentation/train.txt of Pascal VOC. Nil: all.
	Names []string
	// ImageSuffix and MaskSuffix are what the names of the files have besides before their
	// extension: "_leftImg8bit" and "_gtFine_labelTrainIds" in Cityscapes. Other files are left
	// out.
	ImageSuffix, MaskSuffix string
}

// maskExtension is the extension of files whose pixels are classes.
const maskExtension = ".png"

// Masks opens a folder of images, and one of masks, PNG files whose pixels are the classes of the
// pixels of an image:
//
//	ade/images/training/ADE_train_00000001.jpg
//	ade/annotations/training/ADE_train_00000001.png
//
//	set, err := folder.Masks("ade/images/training", "ade/annotations/training", nil)
//
// Files may be at any depth, at the same one in both folders. Images are sorted by their paths.
// Every image must have a mask, and every mask an image, unless [MaskOptions].Names says which to
// use.
func Masks(images, masks string, o *MaskOptions) (*MaskSet, error) {
	if o == nil {
		o = &MaskOptions{}
	}
	pictures, err := named(images, ImageExtensions, o.ImageSuffix)
	if err != nil {
		return nil, err
	}
	maps, err := named(masks, []string{maskExtension}, o.MaskSuffix)
	if err != nil {
		return nil, err
	}
	names := o.Names
	if names == nil {
		if err := matching(images, pictures, masks, maps); err != nil {
			return nil, err
		}
		for name := range pictures {
			names = append(names, name)
		}
		slices.Sort(names)
	}
	set := &MaskSet{}
	for _, name := range names {
		name := filepath.FromSlash(name)
		file := MaskedImage{pictures[name], maps[name]}
		switch {
		case file.Image == "":
			return nil, fmt.Errorf("folder: %s: there is no image %q, which MaskOptions.Names names", images,
				name+o.ImageSuffix)
		case file.Mask == "":
			return nil, fmt.Errorf("folder: %s: there is no mask %q of the image %s", masks, name+o.MaskSuffix+maskExtension,
				file.Image)
		}
		set.Files = append(set.Files, file)
	}
	if len(set.Files) == 0 && o.Names != nil {
		return nil, errors.New("folder: MaskOptions.Names is empty; want names of images, or nil for all")
	}
	if len(set.Files) == 0 {
		return nil, fmt.Errorf("folder: %s: no image whose name ends with %q before one of %v", images, o.ImageSuffix,
			ImageExtensions)
	}
	return set, nil
}

// named returns the files below dir with these extensions and that suffix before them. The keys are
// their paths in dir without both.
func named(dir string, extensions []string, suffix string) (map[string]string, error) {
	inner, err := below(dir, nil)
	if err != nil {
		return nil, fmt.Errorf("folder: %w", err)
	}
	files := map[string]string{}
	for _, folder := range inner {
		entries, err := os.ReadDir(folder)
		if err != nil {
			return nil, fmt.Errorf("folder: %w", err)
		}
		for _, e := range entries {
			path := filepath.Join(folder, e.Name())
			extension := filepath.Ext(path)
			bare, ok := strings.CutSuffix(strings.TrimSuffix(path, extension), suffix)
			if !ok || !slices.Contains(extensions, strings.ToLower(extension)) || isFolder(path, e) {
				continue
			}
			name, err := filepath.Rel(dir, bare)
			if err != nil {
				return nil, fmt.Errorf("folder: %w", err)
			}
			if other := files[name]; other != "" {
				return nil, fmt.Errorf("folder: %s and %s have the same name but for the extension; want one of them", other,
					path)
			}
			files[name] = path
		}
	}
	return files, nil
}

// matching returns an error for images without masks, or masks without images.
func matching(images string, pictures map[string]string, masks string, maps map[string]string) error {
	for _, side := range []struct {
		in, without, what string
		have, want        map[string]string
	}{{images, masks, "images", pictures, maps}, {masks, images, "masks", maps, pictures}} {
		var alone []string
		for name, path := range side.have {
			if side.want[name] == "" {
				alone = append(alone, path)
			}
		}
		if len(alone) > 0 {
			return fmt.Errorf("folder: %d of the %d %s in %s have no counterpart in %s, the first is %s; want files of the "+
				"same names, or set MaskOptions.Names to the images to use, or the suffixes by which the names differ",
				len(alone), len(side.have), side.what, side.in, side.without, slices.Min(alone))
		}
	}
	return nil
}

// Len returns the number of images.
func (s *MaskSet) Len() int { return len(s.Files) }

// At returns image i and its mask.
func (s *MaskSet) At(i int) (MaskedImage, error) { return s.Files[i], nil }

// Describe returns the path of image i.
func (s *MaskSet) Describe(i int) string { return s.Files[i].Image }
