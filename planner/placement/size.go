package placement

import "github.com/promwarp/promwarp/cpuexec"

// Size is how much work a leaf is.
type Size struct {
	Function string // of its window, and what is made of that
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
	n := l.Selection.NumSeries()
	mint, maxt := l.Window.Reads(l.Grid)
	every := max(1, n/sampledSeries)
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
