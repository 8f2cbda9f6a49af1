package parquet

import "log/slog"

// order notices that rows are requested in an order in which groups are decoded again and again. A
// run would not fail then, but not get anywhere either: a group of a million rows takes a second.
type order struct {
	wanted, decoded int64 // rows
	reported        bool
}

// decodes counts the rows of a group that is about to be decoded. It reports the order once, when
// everything has been decoded twice for fewer than a hundredth of the rows.
func (o *order) decodes(path string, rows, total, cache, size int64) {
	o.decoded += rows
	if o.reported || o.decoded < 3*total || o.wanted > o.decoded/100 {
		return
	}
	o.reported = true
	slog.Warn("parquet: almost every row decodes a row group again; raise Options.Cache, or read the rows as a stream "+
		"and shuffle it with data.ShuffleStream", "file", path, "rows_requested", o.wanted, "rows_decoded", o.decoded,
		"cache", cache, "bytes_of_all_groups", size)
}
