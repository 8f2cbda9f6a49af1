// Package pretrained reads and writes the folders in which transformers keeps models: config.json
// beside the weights, which may be one safetensors file, several with an index, or the older
// pytorch_model.bin, whole or in shards too.
//
//	document, err := pretrained.ReadConfig(dir)
//	weights, err := pretrained.Open(dir)
//	defer weights.Close()
//	report, err := pretrained.Load(model, weights, pretrained.LoadOptions{Prefix: "bert."})
//
// Package auto and those of the encoders are built on it. What a file says that a model cannot do
// is refused by name, what it says that has no meaning here is kept and written back, and what was
// not loaded is in the [Report].
package pretrained
