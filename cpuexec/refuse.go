package cpuexec

import (
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// ReasonHistograms is why selectors of native histograms are refused.
const ReasonHistograms = "it selects native histograms, which are not on an executor yet"

// Refuses says why the samples that window w reads of a selection, when it is evaluated on
// g, are none that an executor can evaluate, or nothing if they are. It decodes none: the
// chunks' encodings say so.
func Refuses(w *plan.Window, g plan.Grid, sel *selection.Selection) string {
	if mint, maxt := w.Reads(g); hasHistograms(sel, mint, maxt) {
		return ReasonHistograms
	}
	return ""
}

// hasHistograms reports whether chunks that overlap mint to maxt (ms, both included) hold
// anything but floats. A kept selection may have floats at one time and histograms at
// another.
func hasHistograms(s *selection.Selection, mint, maxt int64) bool {
	if s.OnlyFloats() {
		return false
	}
	for i := range s.NumSeries() {
		for _, c := range s.Overlapping(i, mint, maxt) {
			if c.Enc != chunkenc.EncXOR && c.Enc != chunkenc.EncXOR2 {
				return true
			}
		}
	}
	return false
}
