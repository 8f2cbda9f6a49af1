package arguments

import (
	"fmt"
	"os"
	"strings"

	"github.com/gotrainer/gotrainer/dist/launch"
	"github.com/gotrainer/gotrainer/dist/shard"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// applySharding sets what is divided among several processes: fsdp or, if that is not set, what the
// configuration says with which the program was launched.
func (a *TrainingArguments) applySharding(_ *trainer.Options, e *engine.Options) error {
	stage, replicas, err := launch.Sharding(os.Getenv)
	if err != nil {
		return fmt.Errorf("arguments: %w", err)
	}
	if e.Sharding, e.ShardingReplicas = shard.Strategy(stage), replicas; a.FSDP == nil || a.FSDP == false {
		return nil
	}
	words := strings.Trim(fmt.Sprint(a.FSDP), "[]") // also for a list
	for _, w := range strings.Fields(words) {
		switch strings.ToLower(w) {
		case "full_shard", "true":
			e.Sharding, e.ShardingReplicas = shard.FullShard, 0
		case "shard_grad_op":
			e.Sharding, e.ShardingReplicas = shard.ShardGradOp, 0
		case "hybrid_shard":
			e.Sharding, e.ShardingReplicas = shard.FullShard, shard.OnePerMachine
		case "hybrid_shard_zero2":
			e.Sharding, e.ShardingReplicas = shard.ShardGradOp, shard.OnePerMachine
		case "no_shard", "false":
			e.Sharding, e.ShardingReplicas = 0, 0
		case "auto_wrap": // layers of a shard.LayerRunner are always units
		default:
			return &Error{"fsdp", w, "full_shard, shard_grad_op, hybrid_shard, hybrid_shard_zero2 or no_shard, and " +
				"auto_wrap: nothing is moved to the host"}
		}
	}
	return nil
}
