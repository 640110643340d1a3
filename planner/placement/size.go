package placement

import "github.com/promwarp/promwarp/cpuexec"

// Size is how much work a leaf is.
type Size struct {
	Function string // of its window, and what is made of that
	Series   int64
	Samples  int64   // in its chunks
	Decoded  float64 // share of them, from 0 to 1, that the cores have kept decoded
	Missing  int64   // bytes that must be copied to the device first
	Windows  int64   // series times steps
	Results  int64   // bytes that are copied back from the device
}

// lookedAt is the number of series whose chunks are looked at to know about how
// much they are.
const lookedAt = 512

// SizeOf is how much work a leaf is, about. No chunk of it counts as resident.
func SizeOf(l *cpuexec.Leaf) Size {
	n := l.Selection.NumSeries()
	mint, maxt := l.Window.Reads(l.Grid)
	every := max(1, n/lookedAt)
	series, samples, bytes := 0, int64(0), int64(0)
	for i := 0; i < n; i += every {
		series++
		for _, c := range l.Selection.Overlapping(i, mint, maxt) {
			samples += int64(c.Samples)
			bytes += int64(c.Len)
		}
	}
	scale := float64(n) / float64(max(series, 1))
	kind, results := kindOf(l)
	return Size{
		Function: l.Window.Func.Name + kind,
		Series:   int64(n),
		Samples:  int64(float64(samples) * scale),
		Missing:  int64(float64(bytes) * scale),
		Decoded:  l.DecodedShare(),
		Windows:  int64(n) * int64(l.Grid.Steps),
		Results:  results,
	}
}

// kindOf tells kinds of leaves apart whose costs differ beyond what the estimates
// know, and how many bytes a device copies back of a leaf.
func kindOf(l *cpuexec.Leaf) (kind string, results int64) {
	steps := int64(l.Grid.Steps)
	if l.Aggregate == nil {
		return " alone", 8 * int64(len(l.GroupOf)) * steps
	}
	for _, room := range l.Rooms {
		results += 12 * int64(room) * steps
	}
	switch name := l.Aggregate.Func.Name; name {
	case "topk", "bottomk", "quantile":
		kind = " " + name
	}
	return kind, results + 8*int64(l.Groups)*steps
}
