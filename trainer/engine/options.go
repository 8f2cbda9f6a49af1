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
// defaults. Where an option is one of Hugging Face's TrainingArguments, its comment ends with the
// name that it has there.
type Options struct {
	// Optimizer is optim.AdamW{...}, optim.SGD{...}, what optim.ByName returns, or your own
	// Builder. Nil: optim.AdamW without weight decay at rate 5e-5, Hugging Face's default.
	Optimizer optim.Builder

	// Groups divides the parameters into groups with settings of their own. Nil: Hugging Face's two
	// groups, of which the second, biases and the weights of normalisation layers, has no weight
	// decay.
	Groups func(model any, params []torch.Named) []optim.Group

	// LowRankTargets are the linear layers whose gradients GaLore or APOLLO project, see
	// optim.LowRankGroups: optim_target_modules. It takes the place of Groups. Other modules that
	// match are warned of.
	LowRankTargets optim.Targets

	// Warn is told what is not done as somebody may have expected; nil: standard error.
	Warn func(text string)

	// the gradients' total norm is limited to it; zero: 1, as Hugging Face; +Inf: only reported;
	// negative: neither. An optimizer that updates during the backward pass (optim.BackwardUpdater)
	// leaves no gradients to limit, so that zero means none.
	MaxGradNorm  float64
	MaxGradValue float64 // every element of the gradients is limited to ±MaxGradValue, after the norm; zero: not

	// EMA keeps an exponential moving average of the weights beside them. Zero: none.
	EMA EMA

	Device    torch.Device  // where the model is trained; zero: the CPU
	Precision amp.Precision // amp.BF16: forward under autocast; weights and optimizer stay float32

	// IgnoreFP16OnCPU trains in float32 where Precision is amp.FP16 and Device the CPU, as Hugging
	// Face's Trainer does without a word. Otherwise New refuses that.
	IgnoreFP16OnCPU bool

	// Prefetch sends the numbers of the next batch to the GPU while this one computes: the slices of
	// float32, float64, int32, int64, uint8 and bool in the fields of a batch, which [Input] then
	// finds there. With Graphs, the stream that computes copies them on to the memory of the graph, on the
	// device. Neither the task nor anybody else may change them once the batch is made. It takes the
	// memory of one batch more, and where that is short the batch is sent when its turn comes. It does
	// not go together with DivideOnOutOfMemory of the trainer, and streams of data are not sent ahead.
	Prefetch bool

	// DatasetOnDevice keeps the training set in the memory of Device if it takes no more than so many
	// bytes; zero: not. It is sent once, when a run begins; a batch then is the indices of its
	// samples, sent while nobody waits, and an index_select of each slice that [Input] would send. Which slices
	// those are says Prefetch. Batches, their order and the bits are those without it. It is for a set
	// whose samples stay as they are, and a Collate that puts samples of one size one after the other;
	// another set, and one that is too large, is refused when the run begins. Neither the task nor
	// anybody else may change a batch. Evaluations and streams of data are sent batch by batch, and it
	// does not go together with DivideOnOutOfMemory of the trainer.
	DatasetOnDevice int64

	// TF32 is the arithmetic of float32 on a GPU, for the whole program: tf32.
	TF32 TF32
	// FullDeterminism has operators without a reproducible algorithm fail, and cuDNN take only those
	// that are reproducible, none of them by trial; on a GPU with CUBLAS_WORKSPACE_CONFIG=:16:8
	// unless the environment says otherwise. For the whole program: full_determinism.
	FullDeterminism bool

	// MemoryFormat is how the model's four-dimensional weights and buffers are laid out.
	// torch.ChannelsLast makes convolutions of pictures faster, on CPUs and on tensor cores, and adds
	// up in another order. Zero: as the model made them. model.to(memory_format=torch.channels_last).
	MemoryFormat torch.MemoryFormat
	// CuDNNBenchmark has cuDNN try its kernels for each new shape and take the fastest. For the whole
	// program; needs a GPU and shapes that come again: torch.backends.cudnn.benchmark.
	CuDNNBenchmark bool

	// Graphs has training recorded as CUDA graphs. Zero: not.
	Graphs Graphs

	// Loss takes the place of the model's loss, in training and evaluation; the task must be a
	// [Predictor]: compute_loss_func.
	Loss func(p ForwardPass, o Outputs) Loss
	// LabelSmoothing is the epsilon of [LabelSmoothing], which then takes the place of the model's
	// loss wherever there are labels: label_smoothing_factor.
	LabelSmoothing float64
	// NEFTuneAlpha adds noise of this size to the input embeddings in training; the model must be
	// an [InputEmbedder]. Zero: none: neftune_noise_alpha.
	NEFTuneAlpha float64
	// GradientCheckpointing saves memory: layers keep their input only and are computed again in
	// the backward pass. The model, or layers in it, must be [GradientCheckpointer]s:
	// gradient_checkpointing.
	GradientCheckpointing bool

	// Distributed is how several processes average gradients; nil: as Hugging Face's Trainer does,
	// with FindUnusedParameters unless GradientCheckpointing is set: ddp_find_unused_parameters,
	// ddp_static_graph, ddp_bucket_cap_mb, ddp_broadcast_buffers.
	Distributed *ddp.Options

	// Sharding is what each of several processes (trainer.Options.Group) has a part of only:
	// shard.ZeroRedundancyOptimizer, shard.ShardGradOp or shard.FullShard, the stages 1, 2 and 3 of
	// ZeRO. Zero: nothing. Layers that a [shard.LayerRunner] runs are units of FullShard. Of
	// Distributed it has FindUnusedParameters, BucketCapMB and KeepBuffers. A model that was made in
	// [nn.Defer] is drawn layer by layer under FullShard: fsdp, deepspeed.
	Sharding shard.Strategy
	// ShardingReplicas divides the processes into so many replicas, each of which shares the model out:
	// [shard.OnePerMachine] or a number; zero: one. HYBRID_SHARD of FullyShardedDataParallel.
	ShardingReplicas int

	// ComputeMetrics makes the numbers of an evaluation from all of its predictions, which are
	// freed when it returns; the task must be a [Predictor]: compute_metrics.
	ComputeMetrics func(p *Predictions) (map[string]float64, error)
	// BatchMetrics does so batch by batch and keeps no predictions: batch_eval_metrics.
	BatchMetrics BatchMetrics
	// PreprocessLogits changes what is kept of the logits, for instance to their argmax:
	// preprocess_logits_for_metrics.
	PreprocessLogits func(logits, labels []torch.Tensor) []torch.Tensor
	// EvalAccumulation is after how many batches the predictions move from the device to the host;
	// zero: at the end: eval_accumulation_steps.
	EvalAccumulation int
	// SortEvalByLength evaluates on samples of about the same length together, the longest first, so
	// that batches need little padding. Predictions and metrics are in the order of the set, what is
	// predicted of padding aside; BatchMetrics, hooks and Predictions.Losses see the batches as they
	// come. A loss that is the mean over the samples of a batch is what it was but for rounding; one
	// over tokens is averaged over those of other batches. Each sample is read once more, for its
	// length, when the loader is made; each of several processes evaluates the whole set. The task
	// must be a [Lengther], and an [ObservationSorter] if it gathers metrics.
	SortEvalByLength bool
	// FullEval evaluates with weights, buffers and floating-point inputs in bfloat16 or float16;
	// the float32 weights are kept aside and put back. Hugging Face's Trainer does so outside of
	// training only, and keeps the model in the low precision after it: bf16_full_eval,
	// fp16_full_eval.
	FullEval amp.Precision

	// NonPaddingTokens counts only those input tokens that are no padding:
	// include_num_input_tokens_seen="non_padding".
	NonPaddingTokens bool

	// InitWeightsFrom is a file whose weights the model starts with, as [nn.Load] reads it
	// (safetensors, or what torch.save wrote: .bin, .pt, .pth, .ckpt), or a folder with
	// model.safetensors or, if that is not there, pytorch_model.bin. Every parameter must be there
	// in its shape, and none else. Of an [Adapted] model it is the file of an adapter.
	InitWeightsFrom string
}

// TF32 says whether matrix products, convolutions and recurrent layers of float32 on a GPU may be
// computed in TF32: faster, with 10 bits of mantissa instead of 23.
type TF32 int

const (
	TF32Unset TF32 = iota // as the program has set it; libtorch's default is TF32 in convolutions only
	TF32On                // in all of them; needs a GPU of capability 8.0
	TF32Off               // in none of them
)

func (t TF32) String() string { return [...]string{"unset", "on", "off"}[t] }

// refusals keep the first thing that is wrong with options.
type refusals struct{ first error }

// when refuses an option for a reason.
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

// settings of the whole program
func (o *Options) apply() {
	if o.FullDeterminism {
		torch.UseDeterministicAlgorithms(true, false)
		c := cuda.CuDNNSettings()
		c.Deterministic, c.Benchmark = true, false
		cuda.SetCuDNN(c)
		if _, set := os.LookupEnv(workspaces); !set && o.Device.IsCUDA() {
			_ = os.Setenv(workspaces, ":16:8") // cuBLAS is not reproducible with several streams otherwise
		}
	}
	if o.CuDNNBenchmark {
		c := cuda.CuDNNSettings()
		c.Benchmark = true
		cuda.SetCuDNN(c)
	}
	if o.TF32 != TF32Unset && o.Device.IsCUDA() { // a CPU's products have precisions of their own
		cuda.SetTF32(o.TF32 == TF32On)
	}
}

const workspaces = "CUBLAS_WORKSPACE_CONFIG"
