package vision

import (
	"encoding/json"
	"errors"
)

// segformer is the class whose processors prepare label maps, too.
const segformer = "Segformer"

// reduceLabelsKeys are the keys of do_reduce_labels, the one of older files last.
var reduceLabelsKeys = []string{"do_reduce_labels", "reduce_labels"}

var errSegformerCrops = errors.New("vision: a SegformerImageProcessor cuts nothing out (do_center_crop); want a " +
	"processor that only resizes")

// onlySegformer checks the settings of a SegformerImageProcessor, and takes those that others lack
// out of the fields of a file.
func (f *processorFile) onlySegformer(d map[string]json.RawMessage) error {
	if is(f.DoCenterCrop) {
		return errSegformerCrops
	}
	older, both := d[reduceLabelsKeys[1]]
	if _, named := d[reduceLabelsKeys[0]]; both && !named {
		if err := json.Unmarshal(older, &f.DoReduceLabels); err != nil {
			return err
		}
	}
	for _, key := range reduceLabelsKeys {
		delete(d, key)
	}
	return nil
}
