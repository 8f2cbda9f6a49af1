// Package platereader reads Iranian licence plates, without training and without a download: a CRNN
// of 0.8 million weights is in the package, 1.6 MB of the program.
//
//	readings, err := platereader.Read("plate.png")
//	fmt.Println(readings[0].Text, readings[0].Score) // ۱۲ب۳۴۵۶۷
//
// A picture shows one plate, cut out; a label is read from left to right: two digits, the letter,
// three digits, the two of the region. The model has seen rendered plates only: it reads 98.4 % of
// 500 rendered ones that it never saw, and is a beginning for real ones. examples/crnn_plates has
// trained it, and trains one on your pictures.
package platereader

import (
	"embed"
	"io/fs"
	"sync"

	"github.com/gotrainer/gotrainer/models/crnn"
)

//go:embed pretrained/config.json pretrained/model.safetensors
var files embed.FS

// Load is the model, a new one for each call: to read with, or to train on.
func Load() (*crnn.Model, error) {
	dir, err := fs.Sub(files, "pretrained")
	if err != nil {
		return nil, err
	}
	return crnn.LoadFS(dir)
}

var (
	mutex  sync.Mutex
	loaded = sync.OnceValues(Load)
)

// Read reads pictures of plates: paths of files, []byte, image.Image and *vision.Image. The model
// is loaded by the first call. Any goroutine may call it; one is read for at a time.
func Read(pictures ...any) ([]crnn.Reading, error) {
	mutex.Lock()
	defer mutex.Unlock()
	model, err := loaded()
	if err != nil {
		return nil, err
	}
	return model.ReadPictures(pictures...)
}
