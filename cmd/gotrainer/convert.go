package main

import (
	"fmt"

	"github.com/gotrainer/gotrainer/checkpoint/sharded"
)

// convertCommand is gotrainer convert.
type convertCommand struct {
	Checkpoint string `arg:"" help:"Folder of a sharded checkpoint: the one with index.json."`
	Folder     string `arg:"" help:"Folder for model.safetensors and the other files of the checkpoint, such as config.json. It is created if necessary, and must not be that of the checkpoint."`
}

func (c *convertCommand) Run() error {
	if err := sharded.Convert(c.Checkpoint, c.Folder); err != nil {
		return err
	}
	fmt.Println("model.safetensors is in", c.Folder)
	return nil
}
