package accelerate

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/dist/launch"
	"github.com/gotrainer/gotrainer/dist/shard"
	"github.com/gotrainer/gotrainer/torch"
)

// Environment returns the options that Python's Accelerator(cpu=cpu) takes from the environment,
// which `gotrainer launch` and `accelerate launch` set from their configurations: the process's
// GPU, if there is one and neither cpu nor ACCELERATE_USE_CPU is set; ACCELERATE_MIXED_PRECISION
// and ACCELERATE_GRADIENT_ACCUMULATION_STEPS; and, for programs that set Group, the ZeRO stage
// selected by a configuration of FSDP or DeepSpeed (launch.Sharding).
//
//	o, err := accelerate.Environment(false)
//	accelerator, err := accelerate.New(o)
func Environment(cpu bool) (o Options, err error) {
	stage, replicas, err := launch.Sharding(os.Getenv)
	if err != nil {
		return o, fmt.Errorf("accelerate: %w", err)
	}
	o.Sharding, o.ShardingReplicas = shard.Strategy(stage), replicas
	told, err := variable("ACCELERATE_USE_CPU")
	if err != nil {
		return o, err
	}
	if !cpu && !told {
		if o.Device, err = torch.ParseDevice("auto"); err != nil {
			return o, err
		}
	}
	if text := os.Getenv("ACCELERATE_MIXED_PRECISION"); text != "" {
		if o.MixedPrecision, err = amp.ParsePrecision(text); err != nil {
			return o, fmt.Errorf("accelerate: the environment has ACCELERATE_MIXED_PRECISION=%s; want no, bf16 or fp16",
				text)
		}
	}
	if text := os.Getenv("ACCELERATE_GRADIENT_ACCUMULATION_STEPS"); text != "" {
		if o.Accumulation.Steps, err = strconv.Atoi(text); err != nil || o.Accumulation.Steps < 1 {
			return o, fmt.Errorf("accelerate: the environment has ACCELERATE_GRADIENT_ACCUMULATION_STEPS=%s; want at "+
				"least 1",
				text)
		}
	}
	return o, nil
}

// variable returns a truth value from the environment, parsed like accelerate's strtobool.
func variable(name string) (bool, error) {
	switch text := strings.ToLower(os.Getenv(name)); text {
	case "y", "yes", "t", "true", "on", "1":
		return true, nil
	case "", "n", "no", "f", "false", "off", "0":
		return false, nil
	default:
		return false, fmt.Errorf("accelerate: the environment has %s=%s; want true or false", name, text)
	}
}
