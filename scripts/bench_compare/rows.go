package main

import (
	"fmt"
	"slices"
	"strings"
)

// row is a workload and the programs that run it.
type row struct {
	name    string
	program string // the Python program
	peers   []string
	options []string // passed to all programs
	device  string   // the only kind of device that the row is for; empty means all
}

var (
	trainers = []string{"raw", "raw_tuned", "accelerate", "hf"}
	compiled = append(slices.Clip(trainers), "compile")
)

var rows = []row{
	{"startup", "train", []string{"raw", "hf"}, nil, ""},
	{"mlp_tiny", "train", compiled, nil, ""},
	{"mlp", "train", compiled, nil, ""},
	{"accum", "train", compiled, nil, ""},
	{"crnn", "train", append(slices.Clip(trainers), "hezar"), nil, ""},
	{"crnn_bf16", "train", []string{"raw", "raw_tuned"}, []string{"--precision", "bf16"}, ""},
	{"bert_small", "train", compiled, nil, ""},
	{"bert_base", "train", []string{"raw", "raw_tuned", "hf"}, nil, ""},
	{"bert_base_b128", "train", []string{"raw", "raw_tuned", "hf"}, []string{"--batch", "128", "--steps", "50"}, gpu},
	{"lm", "train", []string{"raw", "raw_tuned", "hf"}, nil, ""},
	{"sft", "train", []string{"trl"}, nil, ""},
	{"dpo", "train", []string{"trl"}, nil, ""},
	{"grpo", "train", []string{"trl"}, nil, ""},
	{"eval", "evaluate", []string{"raw", "raw_tuned", "hf"}, nil, ""},
	{"tokenize", "tokenize_text", []string{"raw", "raw_tuned", "hf"}, nil, cpu},
	{"images", "images", []string{"raw", "loader2"}, nil, cpu},
	{"checkpoint", "checkpoint", []string{"raw", "safetensors", "hf"}, nil, ""},
	{"op_add", "operation", []string{"raw", "raw_tuned"}, nil, ""},
	{"op_linear_train", "operation", []string{"raw", "raw_tuned"}, nil, ""},
}

// Kinds of devices.
const (
	cpu = "cpu"
	gpu = "cuda"
)

// kind returns the kind of device that the programs run on.
func (o options) kind() string {
	name, _, _ := strings.Cut(o.device, ":")
	return name
}

// workload is the name that the programs use: the row's name without a precision or batch size.
func (r row) workload() string {
	return strings.TrimSuffix(strings.TrimSuffix(r.name, "_bf16"), "_b128")
}

// chosen returns the rows for the device, or the named ones, with the selected peers.
func (o options) chosen() ([]row, error) {
	var out []row
	for _, r := range rows {
		if r.device == "" || r.device == o.kind() {
			out = append(out, o.wanted(r))
		}
	}
	if o.rows == "" {
		return out, nil
	}
	all := out
	out = nil
	for name := range strings.SplitSeq(o.rows, ",") {
		i := slices.IndexFunc(all, func(r row) bool { return r.name == name })
		if i < 0 {
			var names []string
			for _, r := range all {
				names = append(names, r.name)
			}
			return nil, fmt.Errorf("there is no row %q on %s; want one of %s", name, o.device, strings.Join(names, ", "))
		}
		out = append(out, all[i])
	}
	return out, nil
}

// wanted returns a row with the selected peers. On a GPU it adds a tuned run of transformers'
// Trainer, with TF32 and loader processes.
func (o options) wanted(r row) row {
	if r.program == "train" && r.name != "startup" && o.kind() == gpu {
		r.peers = append(slices.Clip(r.peers), "hf_tuned")
	}
	if o.impls == "" {
		return r
	}
	only := strings.Split(o.impls, ",")
	r.peers = slices.DeleteFunc(slices.Clone(r.peers), func(peer string) bool { return !slices.Contains(only, peer) })
	return r
}

// command returns the command line of a program: ours, or a peer.
func (o options) command(r row, who string, threads int) []string {
	args := []string{o.bench, "-data", o.data}
	if who != ours {
		args = []string{o.python, o.peers + "/" + r.program + ".py", "--impl", who}
	}
	args = append(args, "--workload", r.workload(), "--threads", fmt.Sprint(threads), "--device", o.device)
	if o.tiny {
		args = append(args, "--tiny")
	}
	return append(args, r.options...)
}
