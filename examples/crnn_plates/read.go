package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gotrainer/gotrainer/models/crnn"
	"github.com/gotrainer/gotrainer/models/platereader"
)

// readFiles prints the text that the model reads in each file.
func readFiles(o options) error {
	model, err := trained(o)
	if err != nil {
		return err
	}
	var failed error
	for _, path := range o.files {
		reading, err := readFile(model, path)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		fmt.Printf("%s\t%s\t%.2f\n", path, reading.Text, reading.Score)
	}
	return failed
}

func readFile(model *crnn.Model, path string) (crnn.Reading, error) {
	readings, err := model.ReadPictures(path)
	if err != nil {
		return crnn.Reading{}, err
	}
	return readings[0], nil
}

// modelFolder is where a run saves its final model.
func modelFolder(out string) string { return filepath.Join(out, "model") }

// trained loads the model of -model, otherwise that of the run in -out. If there has been no run it
// loads the one that comes with the command.
func trained(o options) (*crnn.Model, error) {
	if o.model != "" {
		return crnn.Load(o.model)
	}
	model, err := crnn.Load(modelFolder(o.out))
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(os.Stderr, "no model in %s yet: reading with the one that comes with this command, trained on "+
			"rendered Persian plates\n", modelFolder(o.out))
		return platereader.Load()
	}
	return model, err
}

// predictFolder reads the images of a folder and writes a table of the results. It returns an error
// for images that cannot be read; with -skip-bad it only logs them.
func predictFolder(o options, model *crnn.Model) error {
	entries, err := os.ReadDir(o.predict)
	if err != nil {
		return err
	}
	var text strings.Builder
	text.WriteString("file\tread\tscore\n")
	read, skip := 0, o.skip()
	var failed error
	for _, e := range entries {
		if !isPicture(e.Name()) {
			continue
		}
		path := filepath.Join(o.predict, e.Name())
		reading, err := readFile(model, path)
		switch {
		case err != nil && skip != nil:
			skip(crnn.File{Path: path}, err)
			continue
		case err != nil:
			failed = errors.Join(failed, err)
			continue
		}
		fmt.Fprintf(&text, "%s\t%s\t%.3f\n", e.Name(), reading.Text, reading.Score)
		read++
	}
	path := filepath.Join(o.out, "predicted.tsv")
	if err := os.WriteFile(path, []byte(text.String()), 0o666); err != nil {
		return err
	}
	fmt.Printf("%d pictures of %s read into %s\n", read, o.predict, path)
	return failed
}
