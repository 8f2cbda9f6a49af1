package cgotorch

// #include "load.h"
// #cgo nocallback ct_hold_team
import "C"

// HoldTeam keeps an OpenMP team of the given number of idle threads; 0 means none. It reports
// whether that was possible: only with libgomp, not with other OpenMP runtimes. See waiting.c. It
// is not safe for concurrent use.
func HoldTeam(threads int) bool { return C.ct_hold_team(C.int32_t(threads)) != 0 }
