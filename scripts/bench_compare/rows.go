package main

import (
	"fmt"
	"slices"
	"strings"
)

// row is a workload and the programs that do its work.
type row struct {
	name    string
	program string // in Python
	peers   []string
	options []string // of all programs
}

var trainers = []string{"raw", "raw_tuned", "accelerate", "hf"}

var rows = []row{
	{"startup", "train", []string{"raw", "hf"}, nil},
	{"mlp_tiny", "train", trainers, nil},
	{"mlp", "train", trainers, nil},
	{"accum", "train", trainers, nil},
	{"crnn", "train", trainers, nil},
	{"crnn_bf16", "train", []string{"raw", "raw_tuned"}, []string{"--precision", "bf16"}},
	{"bert_small", "train", trainers, nil},
	{"bert_base", "train", []string{"raw", "raw_tuned", "hf"}, nil},
	{"eval", "evaluate", []string{"raw", "raw_tuned", "hf"}, nil},
	{"tokenize", "tokenize_text", []string{"raw", "raw_tuned", "hf"}, nil},
	{"images", "images", []string{"raw", "loader2"}, nil},
	{"checkpoint", "checkpoint", []string{"raw", "safetensors", "hf"}, nil},
	{"op_add", "operation", []string{"raw", "raw_tuned"}, nil},
	{"op_linear_train", "operation", []string{"raw", "raw_tuned"}, nil},
}

// workload is the name that the programs know: that of the row up to a precision.
func (r row) workload() string { return strings.TrimSuffix(r.name, "_bf16") }

func chosen(names string) ([]row, error) {
	if names == "" {
		return rows, nil
	}
	var out []row
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(rows, func(r row) bool { return r.name == name })
		if i < 0 {
			var all []string
			for _, r := range rows {
				all = append(all, r.name)
			}
			return nil, fmt.Errorf("there is no row %q; want one of %s", name, strings.Join(all, ", "))
		}
		out = append(out, rows[i])
	}
	return out, nil
}

// command runs one of the programs: ours, or a peer.
func (o options) command(r row, who string, threads int) []string {
	args := []string{o.bench, "-data", o.data}
	if who != ours {
		args = []string{o.python, o.peers + "/" + r.program + ".py", "--impl", who}
	}
	args = append(args, "--workload", r.workload(), "--threads", fmt.Sprint(threads))
	if o.tiny {
		args = append(args, "--tiny")
	}
	return append(args, r.options...)
}
