// Package pretrained reads and writes the folders in which transformers keeps models: config.json
// and the weights, which may be one safetensors file, several with an index, or the older
// pytorch_model.bin, whole or in shards.
//
//	document, err := pretrained.ReadConfig(dir)
//	weights, err := pretrained.Open(dir)
//	defer weights.Close()
//	report, err := pretrained.Load(model, weights, pretrained.LoadOptions{Prefix: "bert."})
//
// Package auto and the packages of the encoders are built on it. A setting that a model does not
// support is refused by name. A setting without meaning here is kept and written back. The [Report]
// lists what was not loaded.
package pretrained
