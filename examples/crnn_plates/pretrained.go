package main

import (
	"embed"
	"errors"
	"os"

	"github.com/gotrainer/gotrainer/models/crnn"
)

// pretrainedFiles are a model that this command has trained: pretrained/README.md.
//
//go:embed pretrained/config.json pretrained/model.safetensors
var pretrainedFiles embed.FS

// pretrained loads the model that comes with the command. Models are read from folders, so it goes
// through one.
func pretrained() (model *crnn.Model, err error) {
	dir, err := os.MkdirTemp("", "crnn_plates-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.CopyFS(dir, pretrainedFiles); err != nil {
		return nil, err
	}
	return crnn.Load(dir + "/pretrained")
}
