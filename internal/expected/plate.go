package expected

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/gotrainer/gotrainer/models/crnn"
	"github.com/gotrainer/gotrainer/vision"
)

// plate is the picture with which Hezar shows its plate reader. What is asked for is the text; the
// weights are those of [Options].PlateReader.
type plate struct {
	File  string // below the data folder; what follows a space says where it is from
	Text  string `json:"expected_text"`
	Where string
}

func (c plate) run(o Options) error {
	model, err := crnn.Load(o.PlateReader)
	if errors.Is(err, fs.ErrNotExist) {
		return unsupported("there is no model that reads plates in %q", o.PlateReader)
	}
	if err != nil {
		return err
	}
	file, _, _ := strings.Cut(c.File, " ")
	image, err := model.Config().OpenImage(filepath.Join(o.Data, filepath.FromSlash(file)), vision.Bicubic)
	if err != nil {
		return unsupported("%v", err)
	}
	pixels, err := model.Config().Pixels(image)
	if err != nil {
		return err
	}
	readings, err := model.Read(pixels)
	if err != nil {
		return err
	}
	return equal("the text", readings[0].Text, c.Text)
}
