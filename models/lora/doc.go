// Package lora trains a model by low-rank updates of some of its layers, and leaves all other weights
// as they are: LoRA, as peft 0.21 has it.
//
//	adapter, err := lora.Add(model, lora.Config{R: 16, Alpha: 32, TargetModules: []string{"q_proj", "v_proj"}})
//	all, trained := nn.CountParams(model) // 135,436,608 and 921,600, say
//	// ... train the model ...
//	err = adapter.Save("runs/adapter")
//
// A layer with an update computes W·x + b + s·B·A·dropout(x). A is [R, in], drawn as those of
// linear layers; B is [out, R] and starts at zero, so at first a model computes what it did without
// the update; s is Alpha/R. Optimizers, and the checkpoints of package auto's models
// (Model.AddLoRA), hold only what is trained.
//
// With UseDoRA the norm of each row of the weight is trained too, and the update changes only the
// directions of the rows; such a step takes longer, since it computes the norms anew.
//
// The files are those of peft: adapter_config.json, and the weights in adapter_model.safetensors.
// peft loads the files written here, and peft's files load here. Linear layers and transformers'
// Conv1D (GPT-2) take updates. Embeddings and convolutions do not. A file that asks for another variant of LoRA
// is refused by name.
//
// Source: Hu and others, LoRA: Low-Rank Adaptation of Large Language Models, 2021;
// peft/tuners/lora of peft 0.21.
package lora
