package table

import (
	"context"
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/resample"
)

// ValueColumn is the column of values of a PromQL answer.
const ValueColumn = "value"

// Of returns a PromQL answer as a table, which is of no use once ctx has ended. It refers to the values of a *plan.Matrix, and copies
// others. Native histograms are no numbers: the error is a *resample.Error.
func Of(ctx context.Context, v parser.Value) (*Table, error) {
	t := &Table{Columns: []string{ValueColumn}, Single: true, Watch: parallel.Watch{Ctx: ctx}}
	switch v := v.(type) {
	case *plan.Matrix:
		t.Times = make([]int64, v.Grid.Steps)
		for k := range t.Times {
			t.Times[k] = v.Grid.At(k)
		}
		t.Series = make([]Series, len(v.Rows))
		t.Copied = 8*int64(len(t.Times)) + SeriesBytes*int64(len(v.Rows))
		for i := range v.Rows {
			t.Series[i] = Series{v.Rows[i].Labels, v.Rows[i : i+1 : i+1]}
		}
	case promql.String:
		t.Text = &v.V
		t.add(promql.Matrix{{Floats: []promql.FPoint{{T: v.T}}}})
	default:
		series, ok := plan.SeriesOf(v)
		if !ok {
			return nil, fmt.Errorf("an answer of type %T is no table", v)
		}
		if slices.ContainsFunc(series, func(s promql.Series) bool { return len(s.Histograms) > 0 }) {
			return nil, errHistogram
		}
		t.add(series)
	}
	return t, nil
}

var errHistogram = &resample.Error{
	Code: resample.CodeUnsupported, Field: "format", Text: "the answer has native histograms, which are no numbers",
	Hint: "use format=json, or make numbers of them: histogram_quantile(), histogram_sum(), histogram_count()",
}

// sameTimes reports whether two series have points at the same times, as most neighbours have.
func sameTimes(s, o promql.Series) bool {
	return slices.EqualFunc(s.Floats, o.Floats, func(a, b promql.FPoint) bool { return a.T == b.T })
}

// add makes series the table's: finds all times, and which of them each series has.
func (t *Table) add(series promql.Matrix) {
	n := 0
	for i, s := range series {
		if n += len(s.Floats); t.Watch.Err() != nil {
			return
		}
		if i > 0 && sameTimes(s, series[i-1]) {
			continue
		}
		for _, p := range s.Floats {
			t.Times = append(t.Times, p.T)
		}
	}
	slices.Sort(t.Times)
	t.Times = slices.Compact(t.Times)

	t.Series = make([]Series, len(series))
	cells, values := make([]Cells, len(series)), make([]float64, 0, n)
	t.Copied = 8*int64(n+cap(t.Times)) + SeriesBytes*int64(len(series))
	var places []int32
	for i, s := range series {
		if t.Watch.Err() != nil {
			return
		}
		first := len(values)
		for _, p := range s.Floats {
			values = append(values, p.F)
		}
		c := &cells[i]
		c.Values = values[first:len(values):len(values)]
		t.Series[i] = Series{s.Metric, cells[i : i+1 : i+1]}
		if i > 0 && sameTimes(s, series[i-1]) {
			c.Runs = cells[i-1].Runs
			continue
		}
		places = places[:0]
		at := 0
		for _, p := range s.Floats {
			if at == len(t.Times) || t.Times[at] != p.T {
				at, _ = slices.BinarySearch(t.Times, p.T)
			}
			places = append(places, int32(at))
			at++
		}
		c.Runs = RunsOf(places)
		t.Copied += RunBytes * int64(len(c.Runs))
	}
}
