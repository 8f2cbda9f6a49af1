package main

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/dist/launch"
)

// fromPET takes settings that the flags leave open from the variables PET_*, from which torchrun
// reads its defaults and in which Kubeflow passes settings to containers. A configuration takes
// precedence.
func (c *launchCommand) fromPET(getenv func(string) string, config *launch.Config, found bool) error {
	if found {
		return nil
	}
	if backend := getenv("PET_RDZV_BACKEND"); backend != "" && backend != "static" {
		return fmt.Errorf("launch: PET_RDZV_BACKEND=%s is torchrun's own rendezvous, where machines come and go: start "+
			"torchrun --no-python, or leave out the job's elasticPolicy", backend)
	}
	nodes := getenv("PET_NNODES")
	if least, most, elastic := strings.Cut(nodes, ":"); elastic && least != most {
		return fmt.Errorf("launch: PET_NNODES=%s is a variable number of machines; want a fixed one", nodes)
	} else if elastic {
		nodes = most
	}
	each := getenv("PET_NPROC_PER_NODE")
	switch each {
	case "auto", "gpu", "cpu":
		n := runtime.NumCPU()
		if g := gpus(); g > 0 && each != "cpu" {
			n = g
		} else if each == "gpu" {
			return fmt.Errorf("launch: PET_NPROC_PER_NODE=gpu, but libtorch finds no GPU here; want a number, or cpu")
		}
		each = strconv.Itoa(n)
	}
	var nodeRank, restarts, port int
	for _, v := range []struct {
		name, text string
		into       *int
		least      int
	}{
		{"PET_NNODES", nodes, &config.NumMachines, 1}, {"PET_NPROC_PER_NODE", each, &c.perNode, 1},
		{"PET_NODE_RANK", getenv("PET_NODE_RANK"), &nodeRank, 0},
		{"PET_MAX_RESTARTS", getenv("PET_MAX_RESTARTS"), &restarts, 0},
		{"PET_MASTER_PORT", getenv("PET_MASTER_PORT"), &port, 1},
	} {
		if v.text == "" {
			continue
		}
		n, err := strconv.Atoi(v.text)
		if err != nil || n < v.least {
			return fmt.Errorf("launch: the environment has %s=%q; want a number of at least %d", v.name, v.text,
				v.least)
		}
		*v.into = n
	}
	config.MachineRank = nodeRank
	if config.NumMachines > 1 { // a single machine needs no address for others
		config.MainProcessIP, config.MainProcessPort = getenv("PET_MASTER_ADDR"), port
	}
	if c.Restarts == nil {
		c.Restarts = &restarts
	}
	return nil
}
