package plan

import (
	"fmt"
	"iter"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/annotations"
)

// Run is a stretch of consecutive steps that all have a value.
type Run struct {
	First int32 // step
	Len   int32
}

// AppendRun appends a run of later steps to runs, or to the last of them if there is no step
// between the two.
func AppendRun(runs []Run, run Run) []Run {
	if n := len(runs); n > 0 && runs[n-1].First+runs[n-1].Len == run.First {
		runs[n-1].Len += run.Len
		return runs
	}
	return append(runs, run)
}

// Row is one series of a matrix: the values of the steps that have one, in
// order, and which steps those are. Whether a step has a value is never encoded
// in the value, since every NaN is a legal one.
type Row struct {
	Labels labels.Labels
	Values []float64
	Runs   []Run
}

// All yields the times in ms, on g, and the values of the steps that have one, in order.
func (r *Row) All(g Grid) iter.Seq2[int64, float64] {
	return func(yield func(int64, float64) bool) {
		values := r.Values
		for _, run := range r.Runs {
			for k := range int(run.Len) {
				if !yield(g.At(int(run.First)+k), values[k]) {
					return
				}
			}
			values = values[run.Len:]
		}
	}
}

// Matrix is what an executor returns: series in the order in which Prometheus's
// engine would have produced them, each with at least one value. There are no native
// histograms in it. It is a parser.Value: that of a whole range query goes as it is to
// what writes the answer, with its rows sorted by their labels.
type Matrix struct {
	Grid        Grid
	Rows        []Row
	Annotations annotations.Annotations

	// SamplesAtStep counts for each step the samples in all windows, and
	// NewSamplesAtStep those of them that no earlier step had read.
	SamplesAtStep, NewSamplesAtStep []int64
	// Peak is the largest number of samples and result points that
	// Prometheus's engine would have held at once, or the least that it may be. PeakAtMost is the most
	// where that is more.
	Peak, PeakAtMost int

	Work Work

	release []func()
}

// Type implements parser.Value.
func (*Matrix) Type() parser.ValueType { return parser.ValueTypeMatrix }

// String implements parser.Value.
func (m *Matrix) String() string {
	return fmt.Sprintf("%d series at %d steps", len(m.Rows), m.Grid.Steps)
}

// Lend says that values of the matrix lie in memory of somebody else, which release
// gives back.
func (m *Matrix) Lend(release func()) { m.release = append(m.release, release) }

// Release gives the memory of the values back, which must not be read any more. A
// matrix that is not released is still garbage once nothing refers to it or to its
// values, but to collect it may take long.
func (m *Matrix) Release() {
	for _, f := range m.release {
		f()
	}
	m.Rows, m.release = nil, nil
}

// SeriesOf returns what Prometheus's engine answered as series, those of a vector and of a scalar with one
// point each. It reports false for a text.
func SeriesOf(v parser.Value) (promql.Matrix, bool) {
	switch v := v.(type) {
	case promql.Matrix:
		return v, true
	case promql.Vector:
		all := make(promql.Matrix, len(v))
		for i, s := range v {
			if all[i].Metric = s.Metric; s.H != nil {
				all[i].Histograms = []promql.HPoint{{T: s.T, H: s.H}}
			} else {
				all[i].Floats = []promql.FPoint{{T: s.T, F: s.F}}
			}
		}
		return all, true
	case promql.Scalar:
		return promql.Matrix{{Floats: []promql.FPoint{{T: v.T, F: v.V}}}}, true
	}
	return nil, false
}

// Work says what a node's evaluation took.
type Work struct {
	Series       int   `json:"series"`
	Chunks       int   `json:"chunks"`
	Samples      int64 `json:"samples"`            // decoded
	Kept         int64 `json:"kept"`               // samples taken from columns decoded earlier
	Digested     int   `json:"digested,omitempty"` // chunks within long windows of which no sample was needed
	Bytes        int64 `json:"bytes"`              // of encoded chunks
	FetchMicros  int64 `json:"fetch_us"`
	EvalMicros   int64 `json:"eval_us"`
	ResultSeries int   `json:"result_series"`
	ResultPoints int64 `json:"result_points"`
	// Device is what of it GPUs did, which the samples, chunks and bytes above do
	// not count.
	Device *DeviceWork `json:"device,omitempty"`
}

// Points is the number of values in the matrix.
func (m *Matrix) Points() (n int64) {
	for i := range m.Rows {
		n += int64(len(m.Rows[i].Values))
	}
	return n
}

// DeviceWork says what GPUs did of a node's evaluation.
type DeviceWork struct {
	Leaves  int   `json:"leaves"` // windows and what aggregates them
	Chunks  int   `json:"chunks"`
	Samples int64 `json:"samples"` // decoded
	Bytes   int64 `json:"bytes"`   // of encoded chunks
	Micros  int64 `json:"us"`      // from the chunks to the groups' values
}

// NodeWork says what a node took together with those below it. What adds the values of a window to
// groups, in the same loop, is the window's.
type NodeWork struct {
	Micros   int64      `json:"us"`
	Series   int        `json:"series"`
	Samples  int64      `json:"samples"`            // decoded on cores
	Kept     int64      `json:"kept"`               // samples decoded earlier
	Digested int        `json:"digested,omitempty"` // chunks of which no sample was needed
	Cache    *CacheWork `json:"cache,omitempty"`    // the tiles of a window's selector
}

// AddDevice adds what further leaves took.
func (w *Work) AddDevice(d *DeviceWork) {
	if w.Device == nil {
		w.Device = &DeviceWork{}
	}
	w.Device.Leaves += d.Leaves
	w.Device.Chunks += d.Chunks
	w.Device.Samples += d.Samples
	w.Device.Bytes += d.Bytes
	w.Device.Micros += d.Micros
}
