package classify

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/gotrainer/gotrainer/models/pretrained"
)

// ProblemType says what the logits mean, and so what the loss is: problem_type of transformers.
type ProblemType string

// The problem types there are. Empty means regression for one label and single-label classification
// for more.
const (
	Regression  ProblemType = "regression"                  // the logits are numbers; mean squared error
	SingleLabel ProblemType = "single_label_classification" // one of the classes is right; cross-entropy
	MultiLabel  ProblemType = "multi_label_classification"  // each class is right or not; binary cross-entropy of each
)

// Head describes the last layer. The zero value takes what config.json says.
type Head struct {
	NumLabels   int64       // how many logits; zero: as many as ID2Label has, else what config.json says, else 2
	ProblemType ProblemType // zero: regression for one label, else single_label_classification
	ID2Label    []string    // the text of each class; nil: LABEL_0, LABEL_1, ...
}

// Resolved fills in the defaults.
func (h Head) Resolved() (Head, error) {
	if h.NumLabels == 0 {
		h.NumLabels = int64(len(h.ID2Label))
		if h.NumLabels == 0 {
			h.NumLabels = 2
		}
	}
	if h.NumLabels < 1 {
		return h, fmt.Errorf("NumLabels is %d; want at least 1", h.NumLabels)
	}
	if h.ID2Label == nil {
		for i := range h.NumLabels {
			h.ID2Label = append(h.ID2Label, "LABEL_"+strconv.FormatInt(i, 10))
		}
	}
	if int64(len(h.ID2Label)) != h.NumLabels {
		return h, fmt.Errorf("ID2Label has %d texts, but NumLabels is %d", len(h.ID2Label), h.NumLabels)
	}
	switch h.ProblemType {
	case "":
		h.ProblemType = SingleLabel
		if h.NumLabels == 1 {
			h.ProblemType = Regression
		}
	case Regression, MultiLabel:
	case SingleLabel:
		if h.NumLabels == 1 {
			return h, fmt.Errorf("ProblemType is %s, but there is one label: a single class is always right",
				h.ProblemType)
		}
	default:
		return h, fmt.Errorf("there is no ProblemType %q; there are %q", h.ProblemType, []ProblemType{Regression,
			SingleLabel, MultiLabel})
	}
	return h, nil
}

// LabelID returns the number of the class with a text: label2id of transformers. A text that no
// class or more than one class has is an error.
func (h Head) LabelID(label string) (int64, error) {
	id := slices.Index(h.ID2Label, label)
	if id < 0 {
		return 0, fmt.Errorf("classify: there is no class %q; there are %q (ID2Label)", label, h.ID2Label)
	}
	if again := slices.Index(h.ID2Label[id+1:], label); again >= 0 {
		return 0, fmt.Errorf("classify: the classes %d and %d are both %q; give them different texts (ID2Label)", id,
			id+1+again, label)
	}
	return int64(id), nil
}

// Over returns h, with other's values where h has none.
func (h Head) Over(other Head) Head {
	if h.NumLabels == 0 && h.ID2Label == nil {
		h.NumLabels, h.ID2Label = other.NumLabels, other.ID2Label
		if h.ProblemType == "" {
			h.ProblemType = other.ProblemType
		}
		return h
	}
	if n := max(h.NumLabels, int64(len(h.ID2Label))); n == other.NumLabels {
		if h.ID2Label == nil {
			h.ID2Label = other.ID2Label
		}
		if h.ProblemType == "" {
			h.ProblemType = other.ProblemType
		}
	}
	return h
}

// DecodeHead takes the labels from config.json as they are there. If there are none, it returns the
// zero value.
func DecodeHead(d pretrained.Document) (Head, error) {
	var h Head
	var id2label map[string]string
	delete(d, "label2id") // the inverse of id2label
	if err := d.Decode([]pretrained.Field{
		{Key: "id2label", Value: &id2label}, {Key: "num_labels", Value: &h.NumLabels},
		{Key: "problem_type", Value: &h.ProblemType},
	}); err != nil {
		return h, err
	}
	if len(id2label) == 0 {
		return h, nil
	}
	h.ID2Label = make([]string, len(id2label))
	for key, text := range id2label {
		i, err := strconv.Atoi(key)
		if err != nil || i < 0 || i >= len(h.ID2Label) || strconv.Itoa(i) != key {
			return h, fmt.Errorf("id2label has the key %q; want the numbers 0 to %d", key, len(h.ID2Label)-1)
		}
		h.ID2Label[i] = text
	}
	if h.NumLabels != 0 && h.NumLabels != int64(len(h.ID2Label)) {
		return h, fmt.Errorf("num_labels is %d, but id2label has %d", h.NumLabels, len(h.ID2Label))
	}
	h.NumLabels = int64(len(h.ID2Label))
	return h, nil
}

// Encode puts the labels of a resolved head into config.json. It leaves out label2id if two classes
// have the same text.
func (h Head) Encode(d pretrained.Document) error {
	var id2label []byte // a map would not keep the numbers in their order
	label2id := map[string]int{}
	for i, text := range h.ID2Label {
		quoted, err := json.Marshal(text)
		if err != nil {
			return err
		}
		id2label = append(id2label, fmt.Sprintf(",%q:%s", strconv.Itoa(i), quoted)...)
		label2id[text] = i
	}
	id2label[0] = '{'
	d["id2label"] = append(id2label, '}')
	if len(label2id) == len(h.ID2Label) {
		if err := d.Encode([]pretrained.Field{{Key: "label2id", Value: &label2id}}); err != nil {
			return err
		}
	}
	return d.Encode([]pretrained.Field{{Key: "problem_type", Value: &h.ProblemType}})
}
