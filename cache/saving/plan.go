package saving

import (
	"github.com/promwarp/promwarp/cache/disk"
	"github.com/promwarp/promwarp/cache/tile"
)

// Plan says what a new file is to have.
type Plan struct {
	covered  tile.Coverage // what is kept
	Spans    tile.Spans    // of which these are written
	files    []disk.File
	old      []tile.Coverage // what the files have that may still be used
	Replaces []uint64        // files, by number
}

// NewPlan finds out what of covered is not, or not as new, in files, as far as these may answer at
// m.
func NewPlan(covered tile.Coverage, m tile.Moment, files []disk.File) *Plan {
	p := &Plan{covered: covered, files: files}
	missing := covered
	for _, f := range files {
		old := CoverageOf(f.Covered).Usable(m)
		p.old = append(p.old, old)
		for _, s := range old {
			// What was kept at the same time or before is there.
			for _, k := range missing.Within(s.Span) {
				if k.At <= s.At {
					missing = missing.Without(k.Span)
				}
			}
		}
	}
	p.Spans = missing.All()
	return p
}

// Merge adds the newest files to what is written, size bytes, as long as they
// are not much larger than that: so there are few files, and nothing is written
// more often than their number. It reports whether there are any.
func (p *Plan) Merge(size int64) bool {
	for i := len(p.files) - 1; i >= 0 && p.files[i].Size <= 2*size; i-- {
		// All of it must be kept, as new as it is there.
		for _, s := range p.old[i] {
			if len(p.covered.Since(s.At).All().Missing(s.Span)) > 0 {
				return len(p.Replaces) > 0
			}
		}
		p.Replaces = append(p.Replaces, p.files[i].Seq)
		for _, s := range p.old[i] {
			p.Spans = p.Spans.With(s.Span)
		}
		size += p.files[i].Size
	}
	return len(p.Replaces) > 0
}

// Stretches is what the file will cover.
func (p *Plan) Stretches() (out []disk.Stretch) {
	for _, s := range p.Spans {
		for _, k := range p.covered.Within(s).Revised(0) {
			out = append(out, disk.Stretch{From: k.From, To: k.To, At: k.At})
		}
	}
	return out
}

// CoverageOf is what a file covers.
func CoverageOf(stretches []disk.Stretch) (cs tile.Coverage) {
	for _, s := range stretches {
		cs = append(cs, tile.Stretch{Span: tile.Span{From: s.From, To: s.To}, At: s.At})
	}
	return cs
}
