package cuda

import (
	"github.com/gotrainer/gotrainer/cgotorch"
	"github.com/gotrainer/gotrainer/torch"
)

// Stat is a number now and the highest it was since the last [ResetPeakMemoryStats].
type Stat struct{ Current, Peak int64 }

// Stats is what libtorch's caching allocator has given out of a GPU's memory:
// torch.cuda.memory_stats. All but the counts are bytes.
type Stats struct {
	Allocated Stat // tensors: torch.cuda.memory_allocated, max_memory_allocated
	Active    Stat // and what a stream may still use
	Reserved  Stat // taken from the GPU, in use or kept for later: torch.cuda.memory_reserved
	Requested Stat // as Allocated, before it is rounded up

	Retries     int64 // how often memory was short, and was found when the cache was emptied (num_alloc_retries)
	OutOfMemory int64 // how often it was not found even then (num_ooms)
	DeviceCalls int64 // how often the GPU was asked for memory (num_device_alloc)
}

// MemoryStats reads them. It does not wait for the GPU.
func MemoryStats(d torch.Device) (Stats, error) {
	if err := usable(d); err != nil {
		return Stats{}, err
	}
	var m cgotorch.CUDAMemory
	if err := try("MemoryStats", cgotorch.CUDAGetMemory(d.Index(), &m)); err != nil {
		return Stats{}, err
	}
	return Stats{
		Allocated: Stat{m.Allocated, m.AllocatedPeak}, Active: Stat{m.Active, m.ActivePeak},
		Reserved: Stat{m.Reserved, m.ReservedPeak}, Requested: Stat{m.Requested, m.RequestedPeak},
		Retries: m.Retries, OutOfMemory: m.OutOfMemory, DeviceCalls: m.DeviceAllocations,
	}, nil
}

// ResetPeakMemoryStats makes every peak what is current: torch.cuda.reset_peak_memory_stats.
func ResetPeakMemoryStats(d torch.Device) error {
	if err := usable(d); err != nil {
		return err
	}
	return try("ResetPeakMemoryStats", cgotorch.CUDAResetPeak(d.Index()))
}

// MemoryInfo is how many bytes of a GPU's memory no process has taken, and how many there are:
// torch.cuda.mem_get_info.
func MemoryInfo(d torch.Device) (free, total int64, err error) {
	if err = usable(d); err == nil {
		err = try("MemoryInfo", cgotorch.CUDAMemoryInfo(d.Index(), &free, &total))
	}
	return free, total, err
}

// EmptyCache is [torch.EmptyCache]: it gives memory that libtorch keeps for later back to the GPUs,
// which costs time. Without a GPU it only collects garbage.
func EmptyCache() { torch.EmptyCache() }
