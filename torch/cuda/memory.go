package cuda

import (
	"github.com/gotrainer/gotrainer/cgotorch"
	"github.com/gotrainer/gotrainer/torch"
)

// Stat is a current value and its peak since the last [ResetPeakMemoryStats].
type Stat struct{ Current, Peak int64 }

// Stats describes how libtorch's caching allocator uses a GPU's memory: torch.cuda.memory_stats.
// All fields but the counts are in bytes.
type Stats struct {
	Allocated Stat // tensors: torch.cuda.memory_allocated, max_memory_allocated
	Active    Stat // tensors, and memory that a stream may still use
	Reserved  Stat // taken from the GPU, in use or kept for later: torch.cuda.memory_reserved
	Requested Stat // as Allocated, before rounding up

	Retries     int64 // how often memory was short but was found after emptying the cache (num_alloc_retries)
	OutOfMemory int64 // how often it was not found even then (num_ooms)
	DeviceCalls int64 // how often memory was requested from the GPU (num_device_alloc)
}

// MemoryStats returns the statistics of a GPU. It does not wait for the GPU.
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

// ResetPeakMemoryStats sets every peak to the current value: torch.cuda.reset_peak_memory_stats.
func ResetPeakMemoryStats(d torch.Device) error {
	if err := usable(d); err != nil {
		return err
	}
	return try("ResetPeakMemoryStats", cgotorch.CUDAResetPeak(d.Index()))
}

// MemoryInfo returns the free memory of a GPU, used by no process, and its total memory, in bytes:
// torch.cuda.mem_get_info.
func MemoryInfo(d torch.Device) (free, total int64, err error) {
	if err = usable(d); err == nil {
		err = try("MemoryInfo", cgotorch.CUDAMemoryInfo(d.Index(), &free, &total))
	}
	return free, total, err
}

// EmptyCache is [torch.EmptyCache]: it returns the GPU memory that libtorch holds for later use,
// which takes time. Without a GPU it only collects garbage.
func EmptyCache() { torch.EmptyCache() }
