package cgotorch

// #include "load.h"
// #cgo nocallback ct_hold_team
import "C"

// HoldTeam keeps a team of so many threads of OpenMP, which do nothing; 0: none. It tells whether
// that was possible: with OpenMP's runtimes other than libgomp it is not. See waiting.c. It is not
// safe for concurrent use.
func HoldTeam(threads int) bool { return C.ct_hold_team(C.int32_t(threads)) != 0 }
