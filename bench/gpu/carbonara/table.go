package carbonara

import (
	"fmt"

	"github.com/promwarp/promwarp/bench/report"
)

// Tables are the comparisons for reading: the times by way, then promwarp beside v4.
func Tables(all []Comparison) []*report.Table {
	regular := &report.Table{
		Title: "Means of 7 points, 5 s to 35 s, ms from the host's memory to the host's memory:",
		Head:  []string{"values", "points", "v1", "v2", "v3", "v4", "v3, on the device"},
	}
	ours := &report.Table{
		Title: "promwarp, ms, and times as fast as v4:",
		Head:  []string{"values", "points", "bytes a point", "its cores", "by series", "resident", "summed", "resident", "/query by series", "resident", "/query, all aggregates of all series", "resident"},
	}
	irregular := &report.Table{
		Title: "Points 7 s apart with gaps, ms:",
		Head:  []string{"to", "points", "runs", "bytes a point", "its cores", "promwarp by series", "resident", "summed", "resident"},
	}
	for _, c := range all {
		at := func(way string) string { return report.Number(c.Ms[way]) }
		base := V4
		if c.From != 5 {
			base = Runs
		}
		beside := func(way string) string {
			return fmt.Sprintf("%s, %s", at(way), report.Times(c.Ms[base], c.Ms[way]))
		}
		points := fmt.Sprintf("%.1f M", float64(c.Points)/1e6)
		bytes := report.Number(float64(c.ChunkBytes) / float64(c.Points))
		if c.From == 5 {
			regular.Add(c.Values, points, at(V1), at(V2), at(V3), at(V4), at(V3There))
			ours.Add(c.Values, points, bytes, at(Cores), beside(BySeries), beside(BySeriesHot), beside(Summed), beside(SummedHot),
				beside(Resampled), beside(ResampledHot), beside(Grouped), beside(GroupedHot))
			continue
		}
		irregular.Add(fmt.Sprintf("%d s", c.To), points, at(Runs), bytes, at(Cores),
			beside(BySeries), beside(BySeriesHot), beside(Summed), beside(SummedHot))
	}
	return []*report.Table{regular, ours, irregular}
}
