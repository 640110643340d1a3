package placement

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/resample"
	"github.com/promwarp/promwarp/resample/aggregate"
	"github.com/promwarp/promwarp/resample/custom"
	"github.com/promwarp/promwarp/selection"
)

// Size is how much work a leaf or a resample request is.
type Size struct {
	Function string // of a leaf's window, and what is made of that; or what is made of buckets
	Series   int64
	Samples  int64   // in its chunks
	Decoded  float64 // share of them, from 0 to 1, that the cores retain decoded
	Missing  int64   // bytes that must be copied to the device first
	Windows  int64   // series times steps
	Results  int64   // bytes that are copied back from the device
}

// sampledSeries is the least number of series whose chunks SizeOf adds up, if there are so
// many. It adds up those of fewer than twice as many.
const sampledSeries = 512

// SizeOf estimates how much work a leaf is from some of its series. No chunk counts as
// resident.
func SizeOf(l *cpuexec.Leaf) Size {
	mint, maxt := l.Window.Reads(l.Grid)
	s := sizeOver(l.Selection, mint, maxt)
	kind, results := kindOf(l)
	s.Function, s.Results = l.Window.Func.Name+kind, results
	s.Decoded = l.DecodedShare()
	s.Windows = s.Series * int64(l.Grid.Steps)
	return s
}

// SizeOfTask estimates how much work a resample request is, as SizeOf does.
func SizeOfTask(t *resample.Task) Size {
	from, to := t.Reads()
	s := sizeOver(t.Selection, from, to-1)
	var parts aggregate.Parts
	buckets, instructions := int64(t.Grid.N()), 0
	for _, of := range t.Sources() {
		parts |= of.Parts
		s.Windows += s.Series * buckets
		if code, _ := custom.PortableOf(t.Aggregates[of.Outputs[0]].Definition); code != nil {
			instructions += code.Work()
		}
	}
	s.Function = "resample " + strings.Join(aggregate.PartNames(parts), "+")
	if instructions > 0 {
		s.Function += fmt.Sprintf("+2^%d instructions", bits.Len(uint(instructions)))
	}
	s.Results = 8 * int64(t.Groups) * buckets * int64(len(t.Aggregates))
	return s
}

// sizeOver is the size of the chunks of a selection that have samples of mint to maxt (ms).
func sizeOver(sel *selection.Selection, mint, maxt int64) Size {
	n := sel.NumSeries()
	every := max(1, n/sampledSeries)
	series, samples, bytes := 0, int64(0), int64(0)
	for i := 0; i < n; i += every {
		series++
		for _, c := range sel.Overlapping(i, mint, maxt) {
			samples += int64(c.Samples)
			bytes += int64(c.Len)
		}
	}
	scale := float64(n) / float64(max(series, 1))
	return Size{Series: int64(n), Samples: int64(float64(samples) * scale), Missing: int64(float64(bytes) * scale)}
}

// kindOf returns what a model tells apart besides the function, because the formula of the
// costs does not, and how many bytes a device copies back.
func kindOf(l *cpuexec.Leaf) (kind string, results int64) {
	steps := int64(l.Grid.Steps)
	if l.Aggregate == nil {
		return " alone", 8 * int64(len(l.GroupOf)) * steps
	}
	for _, room := range l.Rooms {
		results += 12 * int64(room) * steps
	}
	if f := l.Aggregate.Func; !f.Adds() {
		kind = " " + f.Name
	}
	return kind, results + 8*int64(l.Groups)*steps
}
