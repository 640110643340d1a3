package cache

import (
	"math"

	"github.com/promwarp/promwarp/cache/disk"
)

// writePlan says what a new file is to have.
type writePlan struct {
	covered  coverage // what is kept
	spans    spans    // of which these are written
	files    []disk.File
	old      []coverage // what the files have that may still be used
	replaces []uint64   // files, by number
}

// planWrite finds out what is kept and not, or not as new, in files.
func (c *Cache) planWrite(covered coverage, files []disk.File) *writePlan {
	p := &writePlan{covered: covered, files: files}
	m := c.moment()
	missing := covered
	for _, f := range files {
		old := coverageOf(f.Covered).within(m.settled, m.oldest)
		p.old = append(p.old, old)
		for _, s := range old {
			// What was kept at the same time or before is there.
			for _, k := range missing.within(s.span, math.MinInt64) {
				if k.at <= s.at {
					missing = missing.without(k.span)
				}
			}
		}
	}
	p.spans = missing.all()
	return p
}

// merge adds the newest files to what is written, size bytes, as long as they
// are not much larger than that: so there are few files, and nothing is written
// more often than their number. It reports whether there are any.
func (p *writePlan) merge(size int64) bool {
	for i := len(p.files) - 1; i >= 0 && p.files[i].Size <= 2*size; i-- {
		// All of it must be kept, as new as it is there.
		for _, s := range p.old[i] {
			if len(p.covered.since(s.at).missing(s.span)) > 0 {
				return len(p.replaces) > 0
			}
		}
		p.replaces = append(p.replaces, p.files[i].Seq)
		for _, s := range p.old[i] {
			p.spans = p.spans.with(s.span)
		}
		size += p.files[i].Size
	}
	return len(p.replaces) > 0
}

// stretches is what the file will cover.
func (p *writePlan) stretches() (out []disk.Stretch) {
	for _, s := range p.spans {
		for _, k := range p.covered.within(s, math.MinInt64).revised(0) {
			out = append(out, disk.Stretch{From: k.from, To: k.to, At: k.at})
		}
	}
	return out
}
