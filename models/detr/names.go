package detr

import (
	"regexp"
	"strconv"
	"strings"
)

// toMemory maps names of modules, which are those that save_pretrained writes, to the names that
// transformers 5 uses in memory, and therefore in a state_dict saved with torch.save and in peft's
// adapters. fromMemory maps them back.
var (
	toMemory = strings.NewReplacer("backbone.conv_encoder.", "backbone.", "out_proj", "o_proj", ".fc1", ".mlp.fc1",
		".fc2", ".mlp.fc2")
	fromMemory = strings.NewReplacer("backbone.conv_encoder.", "backbone.conv_encoder.", "backbone.",
		"backbone.conv_encoder.", ".o_proj", ".out_proj", ".mlp.fc1", ".fc1", ".mlp.fc2", ".fc2")
)

// The names of timm's ResNets, which are torchvision's.
var (
	timmStem  = regexp.MustCompile(`^(.*conv_encoder\.model\.)(conv|bn)1\.(.+)$`)
	timmLayer = regexp.MustCompile(`^(.*conv_encoder\.model\.)layer(\d+)\.(\d+)\.` +
		`(?:(conv|bn)(\d+)|downsample\.([01]))\.(.+)$`)
)

// inFiles maps the names in memory, and those of files that were made with a ResNet of timm, to
// those in files.
func inFiles(name string) string {
	name = fromMemory.Replace(name)
	part := map[string]string{"conv": "convolution", "bn": "normalization", "0": "convolution", "1": "normalization"}
	less := func(number string) string {
		n, err := strconv.Atoi(number)
		if err != nil {
			return number
		}
		return strconv.Itoa(n - 1)
	}
	if m := timmStem.FindStringSubmatch(name); m != nil {
		return m[1] + "embedder.embedder." + part[m[2]] + "." + m[3]
	}
	if m := timmLayer.FindStringSubmatch(name); m != nil {
		layer := m[1] + "encoder.stages." + less(m[2]) + ".layers." + m[3] + "."
		if m[6] != "" {
			return layer + "shortcut." + part[m[6]] + "." + m[7]
		}
		return layer + "layer." + less(m[5]) + "." + part[m[4]] + "." + m[7]
	}
	return name
}
