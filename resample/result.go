package resample

import (
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/resample/bucket"
)

// Result is the answer to a request.
type Result struct {
	*Plan
	Series    []Series // in the order of their labels; each has a value
	Truncated bool     // there are more than the request's limit
	Warnings  annotations.Annotations
	Work      Work

	whole []int32      // the Buckets of rows that have all
	lent  []func()     // give memory of values back that is somebody else's
	bytes atomic.Int64 // of the plan and of rows
	lease *memory.Lease
}

// Series are the values of a series or group.
type Series struct {
	Labels labels.Labels
	Rows   []Row // of each aggregate of the request; a row may be empty
}

// Row has a value for each of some buckets, in order. Rows may share their Buckets, which must
// not be changed.
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
func (r *Result) Release() {
	r.giveBack()
	r.Series = nil
	r.lease.Release()
}

// giveBack gives memory of values back that is somebody else's.
func (r *Result) giveBack() {
	for _, f := range r.lent {
		f()
	}
	r.lent = nil
}

// bytes is the memory of the plan, and of the buckets that rows share.
func (p *Plan) bytes() int64 { return bucket.SizeBytes(p.Grid.N()) + 4*int64(p.Grid.N()) }

const seriesBytes = int64(unsafe.Sizeof(Series{}))

// rowBytes is the memory of a row with its values, without its buckets.
func rowBytes(values int) int64 { return int64(unsafe.Sizeof(Row{})) + 8*int64(values) }

// Values is the number of values of the result.
func (r *Result) Values() (n int64) {
	for i := range r.Series {
		for k := range r.Series[i].Rows {
			n += int64(len(r.Series[i].Rows[k].Values))
		}
	}
	return n
}

// failed returns why the request cannot go on.
func (r *run) failed() error {
	if err := plan.Ended(r.ctx); err != nil {
		return err
	}
	if err := r.hold(0); err != nil {
		return err
	}
	return r.budget.Charge(0)
}

// hold counts n more values of the result, or samples held. Who finds too many ends the request.
func (r *run) hold(n int) error {
	if most := int64(r.x.o.MaxSamples); r.held.Add(int64(n)) > most && most > 0 {
		return promql.ErrTooManySamples("resampling")
	}
	return nil
}

// chargeRows counts memory of the result.
func (r *run) chargeRows(bytes int64) error {
	r.result.bytes.Add(bytes)
	return r.budget.Charge(bytes)
}
