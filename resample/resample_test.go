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
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/promwarp/promwarp/internal/memory"
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

// TestGroupingEnds: a request that is given up while its series are grouped, by as many labels as one
// may list, ends soon, and leaves nothing for the next one.
func TestGroupingEnds(t *testing.T) {
	const series, names = 50_000, 190
	chunk := chunkenc.NewXORChunk()
	a, err := chunk.Appender()
	require.NoError(t, err)
	a.Append(0, 0, 1)
	b := selection.NewBuilder(0)
	for i := range series {
		b.Series(labels.FromStrings("__name__", "m", "a", "x", "b", "x", "c", "x", "d", "x", "e", fmt.Sprintf("%06d", i)))
		require.NoError(t, b.Chunk(chunkenc.EncXOR, 0, 0, chunk.Bytes()))
	}
	sel, err := b.Finish()
	require.NoError(t, err)
	without := "a"
	for i := range names {
		without += fmt.Sprint(",l", i)
	}
	r, err := Parse(form("metric=m&start=0&end=1&every=1s&aggregates=max&without="+without), now, withExamples(t))
	require.NoError(t, err)
	p, err := NewPlan(r)
	require.NoError(t, err)
	run := func(ctx context.Context, sel *selection.Selection) (groups int, took time.Duration, err error) {
		began := time.Now()
		result, err := New(Options{}).Run(ctx, stored{sel}, p)
		took = time.Since(began)
		if err == nil {
			groups = len(result.Series)
			result.Release()
		}
		return groups, took, err
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, ended, err := run(ctx, sel)
	require.ErrorContains(t, err, "query was canceled")
	groups, whole, err := run(t.Context(), sel)
	require.NoError(t, err)
	require.Equal(t, series, groups)
	require.Less(t, ended, whole/3)
}

// TestSelectorsTakeMemory: many selectors are charged for before any is read.
func TestSelectorsTakeMemory(t *testing.T) {
	pool := memory.New(memory.Options{Limit: 16 << 20, Wait: time.Millisecond})
	for selectors, refused := range map[int]bool{300: false, 900: true} {
		f := form("start=0&end=1&every=1s&aggregates=max")
		for range selectors {
			f.Add("match[]", "m")
		}
		r, err := Parse(f, now, withExamples(t))
		require.NoError(t, err)
		p, err := NewPlan(r)
		require.NoError(t, err)
		result, err := New(Options{Memory: pool}).Run(t.Context(), stored{selection.Empty()}, p)
		if refused {
			require.ErrorAs(t, err, new(*memory.TooLargeError))
		} else {
			require.NoError(t, err)
			result.Release()
		}
		require.Zero(t, pool.Used())
	}
}

// TestWholeRows: rows that have all buckets share one list of them, whoever has made them, and its
// memory counts once; the rows of a series that has gaps share another.
func TestWholeRows(t *testing.T) {
	at := func(i string, ts ...int64) samples {
		return samples{labels.FromStrings("__name__", "m", "i", i, "job", "a"+i[:1]), ts, make([]float64, len(ts))}
	}
	st := store(t, []samples{at("0", 0, 60_000, 120_000), at("1", 0, 120_000), at("2", 1000, 61_000, 121_000)})
	for more, told := range map[string]int64{"": 2, "&by=job": 2, "&fill=null": 0, "&fill=prev&by=job": 0} {
		pool := memory.New(memory.Options{Limit: 1 << 30})
		p, err := planned(form("metric=m&start=0&end=180&every=1m&aggregates=count,max" + more))
		require.NoError(t, err)
		r, err := New(Options{Memory: pool}).Run(t.Context(), st, p)
		require.NoError(t, err)
		require.Len(t, r.Series, 3)
		whole, gaps := r.Series[0].Rows, r.Series[1].Rows
		require.Equal(t, []int32{0, 1, 2}, whole[0].Buckets)
		require.Same(t, &whole[0].Buckets[0], &r.Series[2].Rows[1].Buckets[0], more)
		require.Same(t, &gaps[0].Buckets[0], &gaps[1].Buckets[0], more)
		require.Equal(t, told == 0, &whole[0].Buckets[0] == &gaps[0].Buckets[0], more)
		require.Equal(t, p.bytes()+3*seriesBytes+6*rowBytes(0)+8*r.Values()+4*told, r.bytes(), more)
		require.NotZero(t, pool.Used())
		r.Release()
		require.Zero(t, pool.Used(), more)
	}
}
