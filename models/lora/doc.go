// Package lora trains low-rank updates of some layers of a model, and leaves all other weights as
// they are: LoRA, as in peft 0.21.
//
//	adapter, err := lora.Add(model, lora.Config{R: 16, Alpha: 32, TargetModules: []string{"q_proj", "v_proj"}})
//	all, trained := nn.CountParams(model) // 135,436,608 and 921,600, say
//	// ... train the model ...
//	err = adapter.Save("runs/adapter")
//
// A layer with an update computes W·x + b + s·B·A·dropout(x). A is [R, in], drawn like the weight
// of a linear layer; B is [out, R] and starts at zero, so at first the updates change nothing; s is
// Alpha/R. Optimizers, and the checkpoints of package auto's models (Model.AddLoRA), hold only the
// trained weights.
//
// With UseDoRA the norm of each row of the weight is trained too, and the update changes only the
// directions of the rows; a step takes longer, since it recomputes the norms.
//
// The files are those of peft: adapter_config.json, and the weights in adapter_model.safetensors.
// peft loads the files written here, and peft's files load here. Linear layers and transformers'
// Conv1D (GPT-2) take updates. Embeddings and convolutions do not. A file that asks for another variant of LoRA
// is refused by name.
//
// Source: Hu and others, LoRA: Low-Rank Adaptation of Large Language Models, 2021; peft/tuners/lora
// of peft 0.21.
package lora
