package segformer

import (
	"regexp"
	"strings"
)

// inMemory maps names of modules, which are those that save_pretrained writes, to the names that
// transformers 5 uses in memory, and therefore in a state_dict saved with torch.save and in peft's
// adapters.
func inMemory(name string) string {
	return inLayers.toMemory.Replace(fileStage.ReplaceAllStringFunc(name, func(s string) string {
		part := fileStage.FindStringSubmatch(s)
		return "stages." + part[2] + "." + strings.Replace(part[1], "block", "blocks", 1)
	}))
}

// inFiles maps the names in memory back.
func inFiles(name string) string {
	return inLayers.toFiles.Replace(memoryStage.ReplaceAllStringFunc(name, func(s string) string {
		part := memoryStage.FindStringSubmatch(s)
		return "encoder." + strings.Replace(part[2], "blocks", "block", 1) + "." + part[1]
	}))
}

var (
	fileStage   = regexp.MustCompile(`\bencoder\.(patch_embeddings|block|layer_norm)\.(\d+)`)
	memoryStage = regexp.MustCompile(`\bstages\.(\d+)\.(patch_embeddings|blocks|layer_norm)\b`)
)

// inLayers are the names of the modules within stages and in the decode head.
var inLayers = func() (r struct{ toMemory, toFiles *strings.Replacer }) {
	pairs := [][2]string{ // in files, in memory
		{"attention.self.query", "attention.q_proj"}, {"attention.self.key", "attention.k_proj"},
		{"attention.self.value", "attention.v_proj"},
		{"attention.self.sr", "attention.sequence_reduction.sequence_reduction"},
		{"attention.self.layer_norm", "attention.sequence_reduction.layer_norm"},
		{"attention.output.dense", "attention.o_proj"}, {"mlp.dense1", "mlp.fc1"}, {"mlp.dense2", "mlp.fc2"},
		{"layer_norm_1", "layernorm_before"}, {"layer_norm_2", "layernorm_after"},
		{"decode_head.linear_c", "decode_head.linear_projections"},
	}
	var there, back []string
	for _, p := range pairs {
		there, back = append(there, p[0], p[1]), append(back, p[1], p[0])
	}
	r.toMemory, r.toFiles = strings.NewReplacer(there...), strings.NewReplacer(back...)
	return r
}()
