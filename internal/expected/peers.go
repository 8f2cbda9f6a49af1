package expected

import (
	"encoding/json"
	"fmt"
	"slices"
)

// claims are what is known to be asked of one peer: the members of its field that are claims, or
// lists of claims. Members that are text say where it is from.
var claims = map[string]map[string]func(o Options, raw json.RawMessage) error{
	"hf_trainer": {
		"files":                      nil, // the versions of the tests
		"defaults":                   claim(defaults.run),
		"test_gradient_accumulation": claim(sameGradients),
		"test_evaluate":              claim(peerEvaluation.run),
		"test_adam_w":                claim(adamW.run),
		"test_can_resume_training":   claim(resume.run),
		"test_checkpoint_rotation":   rotation,
	},
	"accelerate": {
		"batch_sampler_shards": claim(shards.run),
		"skip_batches":         claim(skipped.run),
	},
	"pytorch_accelerated": {
		"max_steps":    claim(maxSteps.run),
		"loss_tracker": claim(lossTracker.run),
	},
	"hezar": {
		"plate_example":          claimWith(plate.run),
		"licence_plate_tutorial": claim(tutorial.run),
	},
}

// claim decodes strictly before it runs.
func claim[T any](run func(v T) error) func(o Options, raw json.RawMessage) error {
	return claimWith(func(v T, _ Options) error { return run(v) })
}

// claimWith is a claim that needs files.
func claimWith[T any](run func(v T, o Options) error) func(o Options, raw json.RawMessage) error {
	return func(o Options, raw json.RawMessage) error {
		v, err := decode[T](raw)
		if err != nil {
			return err
		}
		return run(v, o)
	}
}

func readPeers(d *document) ([]Entry, error) {
	var entries []Entry
	for _, peer := range d.matching([]string{"hf_trainer", "accelerate", "pytorch_accelerated", "hezar", "pymarlin"}) {
		var members map[string]json.RawMessage
		if err := json.Unmarshal(d.fields[peer], &members); err != nil {
			return nil, fmt.Errorf("field %q: %w", peer, err)
		}
		for _, name := range names(members) {
			more, err := peerEntries(d.options, peer, name, members[name])
			if err != nil {
				return nil, err
			}
			entries = append(entries, more...)
		}
	}
	return entries, nil
}

// peerEntries makes the entries of one member: none of text, one of an object, one for each element
// of a list.
func peerEntries(o Options, peer, name string, raw json.RawMessage) ([]Entry, error) {
	entry := func(label, name string, raw json.RawMessage) Entry {
		return Entry{peer + "/" + label, func() error {
			run, ok := claims[peer][name]
			if !ok {
				return unsupported("%s is not known to claim %q; it claims %q", peer, name, names(claims[peer]))
			}
			return run(o, raw)
		}}
	}
	switch raw[0] {
	case '"':
		return nil, nil
	case '[':
		var list []json.RawMessage
		if err := json.Unmarshal(raw, &list); err != nil {
			return nil, err
		}
		var entries []Entry
		for i, element := range list {
			if name != "cases" {
				entries = append(entries, entry(fmt.Sprintf("%s[%d]", name, i), name, element))
				continue
			}
			var own struct{ Name string } // a case says itself which claim it is
			if err := json.Unmarshal(element, &own); err != nil {
				return nil, fmt.Errorf("field %q: %s[%d]: %w", peer, name, i, err)
			}
			entries = append(entries, entry(own.Name, own.Name, element))
		}
		return slices.Clip(entries), nil
	}
	if run, ok := claims[peer][name]; ok && run == nil {
		return nil, nil
	}
	return []Entry{entry(name, name, raw)}, nil
}

// prose are the members of a claim that describe it in words.
type prose struct {
	Name   string
	Do     string
	Expect string
	Test   string
}
