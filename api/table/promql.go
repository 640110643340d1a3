package table

import (
	"context"
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
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
	case promql.Matrix:
		series := make([]points, len(v))
		for i := range v {
			if len(v[i].Histograms) > 0 {
				return nil, errHistogram
			}
			series[i] = points{v[i].Metric, v[i].Floats}
		}
		t.add(series)
	case promql.Vector:
		series, floats := make([]points, len(v)), make([]promql.FPoint, len(v))
		for i := range v {
			if v[i].H != nil {
				return nil, errHistogram
			}
			floats[i] = promql.FPoint{T: v[i].T, F: v[i].F}
			series[i] = points{v[i].Metric, floats[i : i+1]}
		}
		t.add(series)
	case promql.Scalar:
		t.add([]points{{labels.EmptyLabels(), []promql.FPoint{{T: v.T, F: v.V}}}})
	case promql.String:
		t.Text = &v.V
		t.add([]points{{labels.EmptyLabels(), []promql.FPoint{{T: v.T}}}})
	default:
		return nil, fmt.Errorf("an answer of type %T is no table", v)
	}
	return t, nil
}

var errHistogram = &resample.Error{
	Code: resample.CodeUnsupported, Field: "format", Text: "the answer has native histograms, which are no numbers",
	Hint: "use format=json, or make numbers of them: histogram_quantile(), histogram_sum(), histogram_count()",
}

// points are a series as Prometheus's engine returns it, each point with a time of its own.
type points struct {
	labels labels.Labels
	floats []promql.FPoint
}

// sameTimes reports whether two series have points at the same times, as most neighbours have.
func (p points) sameTimes(q points) bool {
	return slices.EqualFunc(p.floats, q.floats, func(a, b promql.FPoint) bool { return a.T == b.T })
}

// add makes series the table's: finds all times, and which of them each series has.
func (t *Table) add(series []points) {
	n := 0
	for i, s := range series {
		if n += len(s.floats); t.Watch.Err() != nil {
			return
		}
		if i > 0 && s.sameTimes(series[i-1]) {
			continue
		}
		for _, p := range s.floats {
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
		for _, p := range s.floats {
			values = append(values, p.F)
		}
		c := &cells[i]
		c.Values = values[first:len(values):len(values)]
		t.Series[i] = Series{s.labels, cells[i : i+1 : i+1]}
		if i > 0 && s.sameTimes(series[i-1]) {
			c.Runs = cells[i-1].Runs
			continue
		}
		places = places[:0]
		at := 0
		for _, p := range s.floats {
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
