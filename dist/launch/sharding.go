package launch

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// setting is a setting in the sections for FSDP or DeepSpeed of an accelerate configuration.
type setting struct {
	key      string   // name in the section
	variable string   // name in the environment of the processes
	allowed  []string // supported values in lower case; nil: any
	why      string   // why other values are refused
}

// Some settings have no effect here and may have any value: hints on when to gather, settings that
// only speed up model loading in Python, and class names of Python layers.
var fsdpSettings = []setting{
	{"fsdp_version", "FSDP_VERSION", []string{"1", "2"}, "there are these two"},
	{"fsdp_sharding_strategy", "FSDP_SHARDING_STRATEGY", []string{"full_shard", "1", "shard_grad_op", "2", "no_shard",
		"3", "hybrid_shard", "4", "hybrid_shard_zero2", "5"}, "there are these"},
	{"fsdp_reshard_after_forward", "FSDP_RESHARD_AFTER_FORWARD", []string{"true", "false"}, "it is of version 2"},
	{"fsdp_offload_params", "FSDP_OFFLOAD_PARAMS", []string{"false"}, "parameters stay on their device"},
	{"fsdp_auto_wrap_policy", "FSDP_AUTO_WRAP_POLICY", []string{"transformer_based_wrap", "no_wrap"},
		"the layers of a shard.LayerRunner are units, whatever their size"},
	{"fsdp_min_num_params", "FSDP_MIN_NUM_PARAMS", nil, ""}, // for SIZE_BASED_WRAP only
	{"fsdp_transformer_layer_cls_to_wrap", "FSDP_TRANSFORMER_CLS_TO_WRAP", nil, ""},
	{"fsdp_backward_prefetch", "FSDP_BACKWARD_PREFETCH", nil, ""},
	{"fsdp_backward_prefetch_policy", "FSDP_BACKWARD_PREFETCH", nil, ""}, // in old files
	{"fsdp_forward_prefetch", "FSDP_FORWARD_PREFETCH", nil, ""},
	{"fsdp_state_dict_type", "FSDP_STATE_DICT_TYPE", []string{"sharded_state_dict"},
		"checkpoints are sharded; gotrainer convert and Trainer.SaveModel write whole models"},
	{"fsdp_use_orig_params", "FSDP_USE_ORIG_PARAMS", []string{"true"}, "parameters keep their names and groups"},
	{"fsdp_cpu_ram_efficient_loading", "FSDP_CPU_RAM_EFFICIENT_LOADING", nil, ""},
	{"fsdp_sync_module_states", "FSDP_SYNC_MODULE_STATES", []string{"true"}, "all begin with the weights of rank 0"},
	{"fsdp_activation_checkpointing", "FSDP_ACTIVATION_CHECKPOINTING", []string{"false"},
		"the program says it: engine.Options.GradientCheckpointing"},
	{"fsdp_activation_checkpointing_offload", "FSDP_ACTIVATION_CHECKPOINTING_OFFLOAD", []string{"false"},
		"activations stay on their device"},
	{"fsdp_ignored_modules", "FSDP_IGNORED_MODULES", []string{}, "all parameters are shared out"},
}

var deepSpeedSettings = []setting{
	{"zero_stage", "ACCELERATE_DEEPSPEED_ZERO_STAGE", []string{"0", "1", "2", "3"}, "there are these stages"},
	{"gradient_accumulation_steps", "ACCELERATE_GRADIENT_ACCUMULATION_STEPS", nil, ""},
	{"gradient_clipping", "ACCELERATE_GRADIENT_CLIPPING", []string{"none"},
		"the program clips: engine.Options.MaxGradNorm, Accelerator.ClipGradNorm"},
	{"offload_optimizer_device", "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE", []string{"none"},
		"moments stay on the device of their parameters"},
	{"offload_param_device", "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE", []string{"none"},
		"parameters stay on their device"},
	{"offload_optimizer_nvme_path", "", []string{"none"}, "moments stay on the device of their parameters"},
	{"offload_param_nvme_path", "", []string{"none"}, "parameters stay on their device"},
	{"zero3_init_flag", "ACCELERATE_DEEPSPEED_ZERO3_INIT", []string{"false"}, "the program says it: nn.Defer"},
	{"zero3_save_16bit_model", "ACCELERATE_DEEPSPEED_ZERO3_SAVE_16BIT_MODEL", []string{"false"},
		"checkpoints are sharded; gotrainer convert and Trainer.SaveModel write whole models"},
	{"deepspeed_config_file", "ACCELERATE_DEEPSPEED_CONFIG_FILE", []string{"none"}, "it is of DeepSpeed's engine, which " +
		"is not here; the stage is zero_stage"},
	{"deepspeed_multinode_launcher", "", []string{"standard"}, "machines are started one by one"},
	{"deepspeed_hostfile", "", []string{"none"}, "machines are started one by one"},
	{"deepspeed_moe_layer_cls_names", "ACCELERATE_DEEPSPEED_MOE_LAYER_CLS_NAMES", []string{"none"},
		"there are no layers of experts"},
}

// Sharding returns the stage of ZeRO given by the environment of a process started by accelerate
// launch or gotrainer launch. A configuration chooses it in its section of FSDP (FULL_SHARD is 3,
// SHARD_GRAD_OP 2, NO_SHARD 0; in version 2, 3 with fsdp_reshard_after_forward and 2 without it)
// or of DeepSpeed (zero_stage). Zero means no sharding. Unsupported settings are refused by name.
// The stages are those of package dist/shard.
//
// replicas is -1 if each machine has a replica that is sharded over its processes (HYBRID_SHARD,
// stage 3, and HYBRID_SHARD_ZERO2, stage 2), like shard.OnePerMachine; otherwise 0.
func Sharding(getenv func(string) string) (stage, replicas int, err error) {
	fsdp, err := truth("ACCELERATE_USE_FSDP", getenv)
	if err != nil {
		return 0, 0, err
	}
	deepSpeed, err := truth("ACCELERATE_USE_DEEPSPEED", getenv)
	switch {
	case err != nil:
		return 0, 0, err
	case fsdp && deepSpeed:
		return 0, 0, fmt.Errorf("ACCELERATE_USE_FSDP and ACCELERATE_USE_DEEPSPEED are both set; want one of them")
	case fsdp:
		return stageOfFSDP(fsdpSettings, func(s setting) (string, string) { return s.variable, getenv(s.variable) })
	case deepSpeed:
		stage, err = stageOfDeepSpeed(func(s setting) (string, string) { return s.variable, getenv(s.variable) })
	}
	return stage, 0, err
}

func truth(name string, getenv func(string) string) (bool, error) {
	switch text := strings.ToLower(getenv(name)); text {
	case "y", "yes", "t", "true", "on", "1":
		return true, nil
	case "", "n", "no", "f", "false", "off", "0":
		return false, nil
	default:
		return false, fmt.Errorf("the environment has %s=%s; want true or false", name, text)
	}
}

// valuesOf returns the settings that are given, by key, in lower case. of returns the name and the
// value of a setting in the source.
func valuesOf(settings []setting, of func(setting) (name, value string)) (map[string]string, error) {
	values := map[string]string{}
	for _, s := range settings {
		name, value := of(s)
		if value == "" || name == "" {
			continue
		}
		low := strings.ToLower(value)
		if s.allowed != nil && !slices.Contains(s.allowed, low) {
			want := strings.ToUpper(strings.Join(s.allowed, ", "))
			switch {
			case len(s.allowed) == 0:
				want = "it left out"
			case len(s.allowed) == 1 || s.allowed[0] == "true":
				want = strings.Join(s.allowed, " or ")
			}
			return nil, fmt.Errorf("%s is %s; want %s: %s", name, value, want, s.why)
		}
		values[s.key] = low
	}
	return values, nil
}

func stageOfFSDP(settings []setting, of func(setting) (name, value string)) (stage, replicas int, err error) {
	values, err := valuesOf(slices.DeleteFunc(slices.Clone(settings), func(s setting) bool {
		_, version := of(fsdpSettings[0])
		two := version == "2" // the name of this setting depends on the version
		return two && s.key == "fsdp_sharding_strategy" || !two && s.key == "fsdp_reshard_after_forward"
	}), of)
	if err != nil {
		return 0, 0, err
	}
	if values["fsdp_version"] == "2" {
		if values["fsdp_reshard_after_forward"] == "false" {
			return 2, 0, nil
		}
		return 3, 0, nil
	}
	switch values["fsdp_sharding_strategy"] {
	case "shard_grad_op", "2":
		return 2, 0, nil
	case "no_shard", "3":
		return 0, 0, nil
	case "hybrid_shard", "4":
		return 3, -1, nil
	case "hybrid_shard_zero2", "5":
		return 2, -1, nil
	}
	return 3, 0, nil
}

func stageOfDeepSpeed(of func(setting) (name, value string)) (int, error) {
	values, err := valuesOf(deepSpeedSettings, of)
	if err != nil {
		return 0, err
	}
	if stage := values["zero_stage"]; stage != "" {
		return int(stage[0] - '0'), nil
	}
	return 2, nil // accelerate's default
}

// section reads the settings in a section.
func section(name string, v any, settings []setting) (map[string]string, error) {
	values, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s is %v; want names and values", name, v)
	}
	text := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if !slices.ContainsFunc(settings, func(s setting) bool { return s.key == key }) {
			return nil, fmt.Errorf("%s has the name %s, which means nothing here; remove it", name, key)
		}
		if values[key] != nil {
			text[key] = fmt.Sprint(values[key])
		}
	}
	return text, nil
}

// checkSharding refuses sections that are invalid or do not belong to the distributed type.
func (c *Config) checkSharding() (err error) {
	of := func(values map[string]string) func(setting) (string, string) {
		return func(s setting) (string, string) { return s.key, values[s.key] }
	}
	for _, s := range []struct {
		kind, name string
		values     map[string]string
	}{{"FSDP", "fsdp_config", c.FSDP}, {"DEEPSPEED", "deepspeed_config", c.DeepSpeed}} {
		if len(s.values) > 0 && c.DistributedType != s.kind {
			return fmt.Errorf("there is a %s, but distributed_type is %s; want %s, or no such section", s.name,
				c.DistributedType, s.kind)
		}
	}
	switch c.DistributedType {
	case "FSDP":
		_, _, err = stageOfFSDP(fsdpSettings, of(c.FSDP))
	case "DEEPSPEED":
		_, err = stageOfDeepSpeed(of(c.DeepSpeed))
	}
	return err
}

// shardingEnv returns the environment variables for the processes.
func (c *Config) shardingEnv() (env []string) {
	add := func(settings []setting, values map[string]string) {
		for _, s := range settings {
			if v := values[s.key]; v != "" && s.variable != "" {
				env = append(env, s.variable+"="+v)
			}
		}
	}
	switch c.DistributedType {
	case "FSDP":
		env = append(env, "ACCELERATE_USE_FSDP=true")
		add(fsdpSettings, c.FSDP)
	case "DEEPSPEED":
		env = append(env, "ACCELERATE_USE_DEEPSPEED=true")
		add(deepSpeedSettings, c.DeepSpeed)
	}
	return env
}

// sections adds the sections to the values of a file.
func (c *Config) sections(values map[string]any) {
	for name, s := range map[string]map[string]string{"fsdp_config": c.FSDP, "deepspeed_config": c.DeepSpeed} {
		if len(s) == 0 {
			continue
		}
		text := map[string]any{}
		for key, v := range s {
			switch strings.ToLower(v) { // written as booleans, not strings
			case "true":
				text[key] = true
			case "false":
				text[key] = false
			default:
				text[key] = v
			}
		}
		values[name] = text
	}
}
