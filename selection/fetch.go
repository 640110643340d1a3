package selection

import (
	"bytes"
	"sync/atomic"

	"github.com/prometheus/prometheus/model/labels"
)

// Fetch is what a fetch is told besides what to bring. The zero value expects and reports nothing.
type Fetch struct {
	Request  // that it is for
	Expected Expectation
	// Came, if it is not nil, is told of each part that has come where the fetch goes part by part. It
	// is called by several goroutines at once, and holds up the fetch.
	Came func(Part)
	Own  *Stats // the tiles of this selector alone
}

// Expectation is what is known beforehand of what a fetch will bring.
type Expectation struct {
	// Series are the ones that it brings, in label order, or these and others, or some
	// of them: what makes its selection may use these labels instead of making
	// equal ones.
	Series []labels.Labels
	// Samples is about how many samples a series has in the time range; 0 when that
	// is not known. It is more only where everything known of the series lies in
	// plain XOR chunks, so that nothing is lost with a source that sends times and
	// values instead.
	Samples int
	// Chunks is about how many chunks all series have together, and Bytes how long these are; 0 when
	// that is not known.
	Chunks, Bytes int
	// Signed reports of a series, by its place in Series, whether it has had values
	// below 0 lately, or -0. Only of one that has, a sample of value 0 may be -0, which most
	// sources send alike among times and values; then chunks are fetched. Nil means that
	// any series may have had.
	Signed func(series int) bool
	// NoSamples is until when samples are of no use, in ns since the epoch. A source that found them
	// so notes it here, with what is kept of the series; nil where nothing is.
	NoSamples *atomic.Int64
	// Ahead says that no query waits for the fetch, so that its source is not to be asked
	// for parts of it at once.
	Ahead bool
}

// Part is a stretch of a fetch that has come before the rest. The fetch may still fail, or bring
// the stretch again: SharesChunks says whether what was computed of the part holds of the whole.
type Part struct {
	Sel        *Selection
	MinT, MaxT int64 // ms, both included: Sel has all samples between them
}

// SharesChunks reports whether s and o have the very same series with chunks that overlap mint to
// maxt (ms, both included), and of these the same chunks, byte for byte.
func (s *Selection) SharesChunks(o *Selection, mint, maxt int64) bool {
	j := 0
	for i := range s.series {
		cs := s.Overlapping(i, mint, maxt)
		if len(cs) == 0 {
			continue
		}
		var ds []Chunk
		for ; j < len(o.series) && len(ds) == 0; j++ {
			ds = o.Overlapping(j, mint, maxt)
		}
		if len(cs) != len(ds) || !labels.Equal(s.series[i], o.series[j-1]) {
			return false
		}
		for k := range cs {
			c, d := &cs[k], &ds[k]
			same := c.MinT == d.MinT && c.MaxT == d.MaxT && c.Len == d.Len && c.Samples == d.Samples && c.Enc == d.Enc
			if !same || s.Origin(*c) != o.Origin(*d) && !bytes.Equal(s.Bytes(*c), o.Bytes(*d)) {
				return false
			}
		}
	}
	for ; j < len(o.series); j++ {
		if len(o.Overlapping(j, mint, maxt)) > 0 {
			return false
		}
	}
	return true
}
