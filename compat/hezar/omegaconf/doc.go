// Package omegaconf reads and writes YAML like OmegaConf, which Hezar uses for its configurations:
// the same values in the same order give the same text, byte for byte.
//
//	text, err := omegaconf.Marshal(omegaconf.Map{
//		{"task", "image2text"}, {"learning_rate", 2e-5}, {"metrics", []string{"cer"}},
//	})
//	// task: image2text
//	// learning_rate: 2.0e-05
//	// metrics:
//	// - cer
//
//	m, err := omegaconf.Unmarshal(text)
//	rate, ok := m.Get("learning_rate")
//
// # Why not any YAML library
//
// A file that two programs write must not change because the other one wrote it last. libyaml's
// emitter, as PyYAML uses it, makes choices that no Go library makes the same way (which strings
// are quoted, how numbers look, where lists are indented, where long texts are folded), and
// OmegaConf makes further ones. go.yaml.in/yaml/v4 comes closest if told where to quote, but
// differs for texts that end with a line break or begin with a byte order mark. Reading has the
// opposite problem: PyYAML implements YAML 1.1, where yes and off are booleans and 010 is eight,
// and OmegaConf takes 1e-5 for a number where PyYAML takes it for a string.
package omegaconf
