"""Writes configurations with accelerate 1.15.0, as its `accelerate config` does: no, basic, multi_cpu, multi_gpu, fsdp
and deepspeed. With file names as arguments it reads those with accelerate instead, and prints what it made of them.
"""

import json
import os
import sys

from accelerate.commands.config.config_args import ClusterConfig, load_config_from_file
from accelerate.commands.config.default import write_basic_config

if len(sys.argv) > 1:
    for path in sys.argv[1:]:
        print(path, json.dumps(load_config_from_file(path).to_dict(), sort_keys=True))
    sys.exit()
os.chdir(os.path.dirname(os.path.abspath(__file__)))
for name in ("basic.json", "basic.yaml"):
    if os.path.exists(name):
        os.remove(name)
write_basic_config("bf16", "basic.json")
ClusterConfig.from_json_file("basic.json").to_yaml_file("basic.yaml")
common = {"compute_environment": "LOCAL_MACHINE", "use_cpu": False, "debug": False}
ClusterConfig(**common, distributed_type="NO", mixed_precision="no", num_processes=1, gpu_ids="all").to_yaml_file("no.yaml")
ClusterConfig(
    **{**common, "use_cpu": True}, distributed_type="MULTI_CPU", mixed_precision="bf16", num_processes=4, num_machines=2, machine_rank=1,
    main_process_ip="10.0.0.1", main_process_port=29500, same_network=True, tpu_env=[],
).to_yaml_file("multi_cpu.yaml")
ClusterConfig(
    **common, distributed_type="MULTI_GPU", mixed_precision="fp16", num_processes=8, num_machines=2, gpu_ids="0,1,2,3",
    main_process_ip="192.168.20.1", main_process_port=9898, same_network=True, downcast_bf16="no", tpu_env=[],
).to_yaml_file("multi_gpu.yaml")
ClusterConfig(
    **common, distributed_type="FSDP", mixed_precision="bf16", num_processes=2, same_network=True, tpu_env=[],
    fsdp_config={"fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP", "fsdp_transformer_layer_cls_to_wrap": "BertLayer"},
).to_yaml_file("fsdp.yaml")
ClusterConfig(
    **common, distributed_type="DEEPSPEED", mixed_precision="bf16", num_processes=4, same_network=True, tpu_env=[],
    deepspeed_config={"zero_stage": 2, "gradient_clipping": 0.7, "offload_optimizer_device": "cpu"},
).to_yaml_file("deepspeed.yaml")
