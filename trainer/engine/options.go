package engine

import (
	"fmt"
	"math"
	"os"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/dist/shard"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/torch/cuda"
)

// Options configures [New]. The zero value trains on the CPU in float32 with Hugging Face's
// defaults. If an option is one of Hugging Face's TrainingArguments, its comment ends with the name
// it has there.
type Options struct {
	// Optimizer is optim.AdamW{...}, optim.SGD{...}, the result of optim.ByName, or your own
	// Builder. Nil: optim.AdamW without weight decay and with a learning rate of 5e-5, Hugging
	// Face's default.
	Optimizer optim.Builder

	// Groups divides the parameters into groups with their own settings, or even optimizers. Nil:
	// Hugging Face's two groups, the second of which (biases and the weights of normalisation
	// layers) has no weight decay.
	Groups func(model any, params []torch.Named) []optim.Group

	// LowRankTargets are the linear layers whose gradients GaLore or APOLLO project; see
	// optim.LowRankGroups. They replace Groups. If other modules match, a warning is given:
	// optim_target_modules.
	LowRankTargets optim.Targets

	// Warn is called when something is not done that the user might expect. Nil: write to standard
	// error.
	Warn func(text string)

	// MaxGradNorm limits the total norm of the gradients. Zero: 1, as in Hugging Face. +Inf: the
	// norm is only reported. Negative: it is neither limited nor reported. An optimizer that
	// updates during the backward pass (optim.BackwardUpdater) leaves no gradients to limit, so
	// with it zero means no limit.
	MaxGradNorm  float64
	MaxGradValue float64 // limits every element of the gradients to ±MaxGradValue, after the norm; zero: no limit

	// EMA keeps an exponential moving average of the weights. Zero: none.
	EMA EMA

	Device    torch.Device  // where the model is trained; zero: the CPU
	Precision amp.Precision // amp.BF16: forward under autocast; weights and optimizer stay float32

	// IgnoreFP16OnCPU trains in float32 if Precision is amp.FP16 and Device is the CPU, as Hugging
	// Face's Trainer silently does. Without it, New refuses this combination.
	IgnoreFP16OnCPU bool

	// Prefetch sends the next batch to the GPU while the current one is being computed: the slices
	// of float32, float64, int32, int64, uint8 and bool in the fields of a batch. [Input] then
	// finds them on the device. With Graphs, the computing stream copies them from there to the
	// memory of the graph.
	//
	// Nothing, including the task, may change these slices once the batch has been made. Prefetch
	// needs the memory of one additional batch; if that is not available, the batch is sent when it
	// is needed. It cannot be combined with the trainer's DivideOnOutOfMemory, and data streams are
	// not sent ahead.
	Prefetch bool

	// DatasetOnDevice keeps the training set in the memory of Device if it takes no more than this
	// many bytes; zero: it is not kept there. The set is sent once, at the beginning of a run. A
	// batch is then the indices of its samples, which are sent without waiting, and an index_select
	// of each slice that [Input] would send. The slices are those listed at Prefetch. The batches,
	// their order and the bits are the same as without this option.
	//
	// The samples of the set must not change, and Collate must place samples of equal size one
	// after the other. Any other set, and one that is too large, is refused at the beginning of the
	// run. Nothing, including the task, may change a batch. Evaluations and data streams are sent
	// batch by batch. DatasetOnDevice cannot be combined with the trainer's DivideOnOutOfMemory.
	DatasetOnDevice int64

	// TF32 selects the arithmetic for float32 on a GPU, for the whole program: tf32.
	TF32 TF32
	// FullDeterminism makes operators without a reproducible algorithm fail, and makes cuDNN use
	// only reproducible algorithms and choose them without benchmarking. On a GPU it sets
	// CUBLAS_WORKSPACE_CONFIG=:16:8 unless the environment says otherwise. It applies to the whole
	// program: full_determinism.
	FullDeterminism bool

	// MemoryFormat is the memory layout of the model's four-dimensional weights and buffers.
	// torch.ChannelsLast makes convolutions of images faster, on CPUs and on tensor cores, but
	// changes the order of summation. Zero: the layout the model was made with. It is
	// model.to(memory_format=torch.channels_last).
	MemoryFormat torch.MemoryFormat
	// CuDNNBenchmark makes cuDNN try its kernels for each new shape and use the fastest. It applies
	// to the whole program, needs a GPU, and helps only if shapes recur:
	// torch.backends.cudnn.benchmark.
	CuDNNBenchmark bool

	// Graphs makes training run as recorded CUDA graphs. Zero: no graphs.
	Graphs Graphs

	// Loss replaces the model's loss in training and evaluation. The task must be a [Predictor]:
	// compute_loss_func.
	Loss func(p ForwardPass, o Outputs) Loss
	// LabelSmoothing is the epsilon of [LabelSmoothing], which replaces the model's loss whenever
	// there are labels: label_smoothing_factor.
	LabelSmoothing float64
	// NEFTuneAlpha adds noise of this magnitude to the input embeddings during training. The model
	// must be an [InputEmbedder]. Zero: no noise: neftune_noise_alpha.
	NEFTuneAlpha float64
	// GradientCheckpointing saves memory: layers keep only their input and are recomputed in the
	// backward pass. The model, or layers in it, must implement [GradientCheckpointer]:
	// gradient_checkpointing.
	GradientCheckpointing bool

	// Distributed says how several processes average gradients. Nil: as in Hugging Face's Trainer,
	// with FindUnusedParameters unless GradientCheckpointing is set: ddp_find_unused_parameters,
	// ddp_static_graph, ddp_bucket_cap_mb, ddp_broadcast_buffers.
	Distributed *ddp.Options

	// Sharding says what is divided among several processes (trainer.Options.Group), so that each
	// has only a part of it: shard.ZeroRedundancyOptimizer, shard.ShardGradOp or shard.FullShard,
	// which are stages 1, 2 and 3 of ZeRO. Zero: nothing. With FullShard, layers that a
	// [shard.LayerRunner] runs are units, and a model made in [nn.Defer] gets its initial weights
	// layer by layer. Of Distributed, FindUnusedParameters, BucketCapMB and KeepBuffers apply:
	// fsdp, deepspeed.
	Sharding shard.Strategy
	// ShardingReplicas divides the processes into this many replicas, each of which shards the
	// model among its processes: [shard.OnePerMachine] or a number; zero: one. It is HYBRID_SHARD
	// of FullyShardedDataParallel.
	ShardingReplicas int

	// ComputeMetrics computes the numbers of an evaluation from all of its predictions, which are
	// freed when it returns. The task must be a [Predictor]: compute_metrics.
	ComputeMetrics func(p *Predictions) (map[string]float64, error)
	// BatchMetrics computes the numbers batch by batch and keeps no predictions:
	// batch_eval_metrics.
	BatchMetrics BatchMetrics
	// PreprocessLogits transforms the logits before they are kept, for example to their argmax:
	// preprocess_logits_for_metrics.
	PreprocessLogits func(logits, labels []torch.Tensor) []torch.Tensor
	// EvalAccumulation is the number of batches after which predictions are moved from the device
	// to the host. Zero: at the end: eval_accumulation_steps.
	EvalAccumulation int
	// SortEvalByLength evaluates samples of similar length together, the longest first, so that
	// batches need little padding. The task must be a [Lengther] and, if it gathers metrics, an
	// [ObservationSorter].
	//
	// Predictions and metrics are in the order of the set, and the same apart from what is
	// predicted for padding. BatchMetrics, hooks and Predictions.Losses see the batches in sorted
	// order. A loss that is the mean over the samples of a batch changes only by rounding; one that
	// is a mean over tokens is averaged over different batches. Each sample is read once more, for
	// its length, when the loader is made. With several processes, each evaluates the whole set.
	SortEvalByLength bool
	// FullEval evaluates with weights, buffers and floating-point inputs in bfloat16 or float16.
	// The float32 weights are kept and restored afterwards. Hugging Face's Trainer does this only
	// outside of training, and leaves the model in the low precision: bf16_full_eval,
	// fp16_full_eval.
	FullEval amp.Precision

	// NonPaddingTokens counts only input tokens that are not padding:
	// include_num_input_tokens_seen="non_padding".
	NonPaddingTokens bool

	// InitWeightsFrom is a file with the initial weights of the model, in a format that [nn.Load]
	// reads: safetensors, or a file written by torch.save (.bin, .pt, .pth, .ckpt). It can also be
	// a folder with model.safetensors or, if that does not exist, pytorch_model.bin. The file must
	// have every parameter in its shape and no others. For an [Adapted] model it is the file of an
	// adapter.
	InitWeightsFrom string
}

// TF32 says whether matrix products, convolutions and recurrent layers in float32 on a GPU may be
// computed in TF32, which is faster but has a mantissa of 10 bits instead of 23.
type TF32 int

const (
	TF32Unset TF32 = iota // as the program has set it; libtorch's default is TF32 in convolutions only
	TF32On                // in all of them; needs a GPU of capability 8.0
	TF32Off               // in none of them
)

func (t TF32) String() string { return [...]string{"unset", "on", "off"}[t] }

// refusals keeps the first error found in options.
type refusals struct{ first error }

// when records an error with the reason, if wrong is set and there is no error yet.
func (r *refusals) when(wrong bool, reason string, args ...any) {
	if wrong && r.first == nil {
		r.first = fmt.Errorf("engine: Options."+reason, args...)
	}
}

func (o *Options) validate() error {
	var r refusals
	o.EMA.validate(&r)
	o.validateSharding(&r)
	r.when(o.TF32 < TF32Unset || o.TF32 > TF32Off, "TF32 is %d; want TF32Unset, TF32On or TF32Off", int(o.TF32))
	r.when(o.MemoryFormat != torch.ContiguousFormat && o.MemoryFormat != torch.ChannelsLast,
		"MemoryFormat is %d; want torch.ChannelsLast, or zero to leave the model as it is", o.MemoryFormat)
	r.when(o.CuDNNBenchmark && o.FullDeterminism, "CuDNNBenchmark and Options.FullDeterminism are both set, but what is "+
		"fastest differs from run to run; want one of them")
	r.when(o.CuDNNBenchmark && !o.Device.IsCUDA(), "CuDNNBenchmark is set, but Options.Device is %s; cuDNN is for GPUs",
		o.Device)
	r.when(o.DatasetOnDevice < 0, "DatasetOnDevice is %d; want the bytes that a training set may take on the device, "+
		"or 0 to send its batches one by one", o.DatasetOnDevice)
	r.when(o.MaxGradValue < 0, "MaxGradValue is %g; want a positive limit, or 0 for none", o.MaxGradValue)
	r.when(!(o.LabelSmoothing >= 0 && o.LabelSmoothing <= 1), "LabelSmoothing is %g; want 0 to 1", o.LabelSmoothing)
	r.when(!(o.NEFTuneAlpha >= 0) || math.IsInf(o.NEFTuneAlpha, 0),
		"NEFTuneAlpha is %g; want a positive number, or 0 for no noise", o.NEFTuneAlpha)
	r.when(o.EvalAccumulation < 0, "EvalAccumulation is %d; want a number of batches, or 0 for all", o.EvalAccumulation)
	r.when(o.Loss != nil && o.LabelSmoothing != 0, "LabelSmoothing is %g, but Options.Loss is set and would hide it; "+
		"call engine.LabelSmoothing in that loss", o.LabelSmoothing)
	r.when(o.ComputeMetrics != nil && o.BatchMetrics != nil,
		"ComputeMetrics and Options.BatchMetrics are both set; want one of them")
	r.when(o.Groups != nil && o.lowRank(), "Groups and Options.LowRankTargets are both set; want one of them")
	o.Graphs.validate(&r, o.Device)
	if r.first != nil {
		return r.first
	}
	if o.Device.IsCUDA() {
		if err := torch.CheckDevice(o.Device); err != nil {
			return fmt.Errorf("engine: Options.Device: %w", err)
		}
		if err := torch.NoGraphs(); err != nil && o.Graphs.Kinds > 0 {
			return fmt.Errorf("engine: Options.Graphs: %w", err)
		}
		return o.checkCapability()
	}
	r.when(o.Prefetch && !isRemote(o.Device), "Prefetch is set, but Options.Device is %s, where batches need not be sent",
		o.Device)
	r.when(o.TF32 == TF32On, "TF32 is TF32On, but Options.Device is %s; TF32 is an arithmetic of NVIDIA's GPUs from "+
		"Ampere on", o.Device)
	r.when(o.Precision == amp.FP16 && !o.IgnoreFP16OnCPU, "Precision is fp16, which the CPU cannot train in; use bf16 or "+
		"fp32, or set IgnoreFP16OnCPU to train in fp32 as Hugging Face's Trainer does")
	if o.Precision == amp.FP16 {
		o.Precision = amp.FP32
	}
	return r.first
}

func (o *Options) lowRank() bool {
	return o.LowRankTargets.Pattern != "" || o.LowRankTargets.Parts != nil
}

// apply sets the options that apply to the whole program.
func (o *Options) apply() {
	if o.FullDeterminism {
		torch.UseDeterministicAlgorithms(true, false)
		c := cuda.CuDNNSettings()
		c.Deterministic, c.Benchmark = true, false
		cuda.SetCuDNN(c)
		if _, set := os.LookupEnv(workspaces); !set && o.Device.IsCUDA() {
			_ = os.Setenv(workspaces, ":16:8") // otherwise cuBLAS is not reproducible with several streams
		}
	}
	if o.CuDNNBenchmark {
		c := cuda.CuDNNSettings()
		c.Benchmark = true
		cuda.SetCuDNN(c)
	}
	if o.TF32 != TF32Unset && o.Device.IsCUDA() { // TF32 does not exist on CPUs
		cuda.SetTF32(o.TF32 == TF32On)
	}
}

const workspaces = "CUBLAS_WORKSPACE_CONFIG"
