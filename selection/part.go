package selection

import (
	"bytes"
	"context"

	"github.com/prometheus/prometheus/model/labels"
)

// Part is a stretch of a fetch that has come before the rest. The fetch may still fail, or bring
// the stretch again: SharesChunks says whether what was computed of the part holds of the whole.
type Part struct {
	Sel        *Selection
	MinT, MaxT int64 // ms, both included: Sel has all samples between them
}

type partKey struct{}

// OnPart returns a context in which a fetch that goes part by part tells f of each that has come.
// f is called by several goroutines at once, and holds up the fetch. A nil f is told of none.
func OnPart(ctx context.Context, f func(Part)) context.Context {
	return context.WithValue(ctx, partKey{}, f)
}

// PartCame tells who made ctx of a part.
func PartCame(ctx context.Context, p Part) {
	if f, ok := ctx.Value(partKey{}).(func(Part)); ok && f != nil {
		f(p)
	}
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
			c, d := cs[k], ds[k]
			same := s.Origin(c) == o.Origin(d) || bytes.Equal(s.Bytes(c), o.Bytes(d))
			c.Slab, c.Off = d.Slab, d.Off
			if !same || c != d {
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
