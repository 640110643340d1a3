package resample

import (
	"math"
	"unsafe"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/internal/memory"
)

// Result is the answer to a request.
type Result struct {
	*Plan
	Series    []Series // in the order of their labels; each has a value
	Truncated bool     // there are more than the request's limit
	Warnings  annotations.Annotations
	Work      Work
	lease     *memory.Lease
}

// Series are the values of a series or group.
type Series struct {
	Labels labels.Labels
	Rows   []Row // of each aggregate of the request; a row may be empty
}

// Row has a value for each of some buckets, in order. Rows may share their Buckets.
type Row struct {
	Buckets []int32 // of the grid
	Values  []float64
}

// Null stands for no value where the request's filling is null. It is the bits of a stale marker,
// which no aggregate has: see IsNull.
var Null = math.Float64frombits(value.StaleNaN)

// IsNull reports whether v is Null.
func IsNull(v float64) bool { return value.IsStaleNaN(v) }

// Release gives the memory of the result back. It must not be used any more.
func (r *Result) Release() { r.lease.Release() }

// bytes is the memory of the result.
func (r *Result) bytes() int64 {
	n := int64(len(r.Series)) * int64(unsafe.Sizeof(Series{}))
	for i := range r.Series {
		for k := range r.Series[i].Rows {
			n += rowBytes(len(r.Series[i].Rows[k].Values))
		}
	}
	return n
}

// rowBytes is the memory of a row of so many values.
func rowBytes(values int) int64 { return int64(unsafe.Sizeof(Row{})) + 12*int64(values) }

// Values is the number of values of the result.
func (r *Result) Values() (n int64) {
	for i := range r.Series {
		for k := range r.Series[i].Rows {
			n += int64(len(r.Series[i].Rows[k].Values))
		}
	}
	return n
}
