// Package lora trains a model by low-rank updates of some of its layers, and leaves all other weights
// as they are: LoRA, as peft 0.21 has it.
//
//	adapter, err := lora.Add(model, lora.Config{R: 16, Alpha: 32, TargetModules: []string{"q_proj", "v_proj"}})
//	all, trained := nn.CountParams(model) // 135,436,608 and 921,600, say
//	// ... train the model ...
//	err = adapter.Save("runs/adapter")
//
// A layer with an update computes W·x + b + s·B·A·dropout(x). A is [R, in], drawn as those of linear
// layers; B is [out, R], zero at first, so that a model computes at first what it did without; s is
// Alpha/R. Optimizers, and the checkpoints of models of package auto (Model.AddLoRA), hold what is
// trained alone.
//
// The files are those of peft, which loads them and whose files are loaded: adapter_config.json, and
// the weights in adapter_model.safetensors. Linear layers and transformers' Conv1D (GPT-2) take
// updates. Embeddings, convolutions, DoRA and the other variants do not; a file that asks for one is
// refused by name.
//
// Source: Hu and others, LoRA: Low-Rank Adaptation of Large Language Models, 2021;
// peft/tuners/lora of peft 0.21.
package lora
