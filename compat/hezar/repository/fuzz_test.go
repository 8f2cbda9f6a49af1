package repository_test

import (
	"testing"

	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/compat/hezar/repository"
)

// FuzzCRNNConfig reads damaged model_config.yaml files.
func FuzzCRNNConfig(f *testing.F) {
	f.Add("name: crnn_image2text\nconfig_type: model\nid2label:\n  0: ''\n  1: '۱'\nmap2seq_in_dim: " +
		"1024\nreverse_output_digits: true\n")
	f.Add("id2label: {'0': '', '1': a}\nmap2seq_in_dim: 2048\nn_channels: 3")
	f.Add("id2label: [a]\nmap2seq_in_dim: -512")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := omegaconf.Unmarshal([]byte(text))
		if err != nil {
			return
		}
		c, err := repository.CRNNConfig(m, nil)
		if err != nil {
			return
		}
		if c.ImageHeight <= 0 || c.ImageHeight%16 != 0 || len(c.Charset) == 0 {
			t.Fatalf("%q gives %+v", text, c)
		}
	})
}
