package resample

import (
	"context"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/synthetic"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stored is a storage of one selection, which every selector matches.
type stored struct{ sel *selection.Selection }

func (s stored) Querier(mint, maxt int64) (storage.Querier, error) {
	return storedQuerier{s, mint, maxt}, nil
}

type storedQuerier struct {
	stored
	mint, maxt int64
}

func (q storedQuerier) Select(_ context.Context, _ bool, h *storage.SelectHints, _ ...*labels.Matcher) storage.SeriesSet {
	mint, maxt := selection.Bounds(h, q.mint, q.maxt)
	return q.sel.SeriesSet(mint, maxt, nil)
}

func (q storedQuerier) SelectChunks(context.Context, *storage.SelectHints, ...*labels.Matcher) (*selection.Selection, annotations.Annotations, error) {
	return q.sel, nil, nil
}

func (storedQuerier) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (storedQuerier) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}
func (storedQuerier) Close() error { return nil }

// samples are those of a series.
type samples struct {
	labels labels.Labels
	ts     []int64
	vs     []float64
}

// store encodes series, which are in the order of their labels.
func store(t require.TestingT, series []samples) stored {
	s, err := synthetic.Make(synthetic.Options{
		Series: len(series), Distinct: len(series),
		Labels:  func(i int) labels.Labels { return series[i].labels },
		Samples: func(i int) ([]int64, []float64) { return series[i].ts, series[i].vs },
	})
	require.NoError(t, err)
	return stored{s}
}

// form is a request's fields, as name=value pairs.
func form(pairs string) url.Values {
	f, err := url.ParseQuery(pairs)
	if err != nil {
		panic(err)
	}
	return f
}

var now = time.UnixMilli(1_790_000_000_000)

// known is what the tests' requests may be written with.
var known = Known{Parser: parser.NewParser(parser.Options{}), Define: true}

func planned(f url.Values) (*Plan, error) {
	r, err := Parse(f, now, known)
	if err != nil {
		return nil, err
	}
	return NewPlan(r)
}

func Example() {
	series := samples{labels.FromStrings("__name__", "load"), []int64{0, 20_000, 40_000, 70_000}, []float64{1, 3, 2, 8}}
	s, _ := synthetic.Make(synthetic.Options{
		Series: 1, Distinct: 1,
		Labels:  func(int) labels.Labels { return series.labels },
		Samples: func(int) ([]int64, []float64) { return series.ts, series.vs },
	})
	p, _ := planned(form("metric=load&start=0&end=120&every=1m&aggregates=count,mean,rate:sum"))
	r, _ := New(Options{}).Run(context.Background(), stored{s}, p)
	defer r.Release()
	for i, row := range r.Series[0].Rows {
		for k, bucket := range row.Buckets {
			fmt.Println(p.Aggregates[i].Text, p.Grid.Labels[bucket]/1000, row.Values[k])
		}
	}
	// Output:
	// count 0 3
	// count 60 1
	// mean 0 2
	// mean 60 8
	// rate:sum 0 4
	// rate:sum 60 6
}
