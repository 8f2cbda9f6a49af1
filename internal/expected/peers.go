package expected

import (
	"encoding/json"
	"fmt"

	"github.com/gotrainer/gotrainer/internal/conformance/spec"
)

// peers are the projects with known claims.
var peers = []string{"hf_trainer", "accelerate", "pytorch_accelerated", "hezar", "pymarlin"}

// claims maps each peer's claims to the functions that test them. Members of a peer's field are
// claims or lists of claims; members that are text state the origin.
var claims = map[string]map[string]func(o Options, raw json.RawMessage){
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
		"plate_example":          func(o Options, raw json.RawMessage) { decode[plate](raw).run(o) },
		"licence_plate_tutorial": claim(tutorial.run),
	},
}

// claim returns a function that decodes a claim strictly and runs it.
func claim[T any](run func(v T)) func(o Options, raw json.RawMessage) {
	return func(_ Options, raw json.RawMessage) { run(decode[T](raw)) }
}

func readPeers(d *document) (entries []Entry) {
	for _, peer := range d.matching(peers) {
		members := fieldOf[map[string]json.RawMessage](d, peer)
		for _, name := range names(members) {
			entries = append(entries, peerEntries(d.options, peer, name, members[name])...)
		}
	}
	return entries
}

// peerEntries makes the entries of one member: none for text, one for an object, one for each
// element of a list.
func peerEntries(o Options, peer, name string, raw json.RawMessage) (entries []Entry) {
	add := func(label, name string, raw json.RawMessage) {
		entries = append(entries, entry(peer+"/"+label, func() {
			run, ok := claims[peer][name]
			if !ok {
				unsupported("%s is not known to claim %q; it claims %q", peer, name, names(claims[peer]))
			}
			run(o, raw)
		}))
	}
	switch raw[0] {
	case '"':
	case '[':
		var list []json.RawMessage
		spec.Check(json.Unmarshal(raw, &list))
		for i, element := range list {
			if name != "cases" {
				add(fmt.Sprintf("%s[%d]", name, i), name, element)
				continue
			}
			var own struct{ Name string } // an element may name its claim
			if err := json.Unmarshal(element, &own); err != nil {
				spec.Failf("field %q: %s[%d]: %w", peer, name, i, err)
			}
			add(own.Name, own.Name, element)
		}
	default:
		if run, ok := claims[peer][name]; !ok || run != nil {
			add(name, name, raw)
		}
	}
	return entries
}

// prose holds the members that describe a claim in words.
type prose struct {
	Name   string
	Do     string
	Expect string
	Test   string
}
