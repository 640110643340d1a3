package table

import (
	"context"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"strconv"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/plan"
)

// Example writes a matrix as CSV.
func Example() {
	m := &plan.Matrix{
		Grid: plan.Grid{Start: 0, Interval: 60_000, Steps: 3},
		Rows: []plan.Row{
			{Labels: labels.FromStrings("job", "a"), Values: []float64{1, 2}, Runs: []plan.Run{{First: 0, Len: 1}, {First: 2, Len: 1}}},
			{Labels: labels.FromStrings("job", "b"), Values: []float64{3}, Runs: []plan.Run{{First: 1, Len: 1}}},
		},
	}
	t, err := Of(context.Background(), m)
	if err != nil {
		panic(err)
	}
	write, _, err := prepareCSV(t, false)
	if err != nil {
		panic(err)
	}
	_ = write(os.Stdout)
	// Output:
	// job,timestamp,value
	// a,0,1
	// a,120,2
	// b,60,3
}

// small has batches be so small that tables of tests have many.
func small(t testing.TB, cells int) {
	wasLong, wasWide, wasParquet := longCells, wideCells, parquetCells
	longCells, wideCells, parquetCells = cells, cells, 3*cells
	t.Cleanup(func() { longCells, wideCells, parquetCells = wasLong, wasWide, wasParquet })
}

// check writes a table in every format and layout, and reads it back.
func check(t testing.TB, table *Table, m *reference) {
	long, wide := m.long(), m.wide()
	require.Equal(t, long, readArrow(t, written(t, table, "arrow", false)))
	require.Equal(t, wide, readArrow(t, written(t, table, "arrow", true)))
	require.Equal(t, long, readParquet(t, written(t, table, "parquet", false)))
	require.Equal(t, wide, readParquet(t, written(t, table, "parquet", true)))
	require.Equal(t, long, readCSV(t, written(t, table, "csv", false), len(m.columns)))
	require.Equal(t, long, readLines(t, written(t, table, "ndjson", false), m.columns))
}

// TestFormats: random tables are read back as they were, in batches of all sizes.
func TestFormats(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for range 150 {
		small(t, 1+r.IntN(200))
		table, m := random(r, r.IntN(8), r.IntN(40), 1+r.IntN(3), r.IntN(2) == 0)
		check(t, table, m)
	}
}

// TestPoints: points of Prometheus's engine, each with a time of its own, are the table of the
// matrix that says the same.
func TestPoints(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		want, m := random(r, r.IntN(8), 1+r.IntN(40), 1, false)
		var matrix promql.Matrix
		for i := range want.Series {
			s := promql.Series{Metric: want.Series[i].Labels}
			require.NoError(t, want.rows(&want.Series[i], func(time int32, values [][]float64, i int) error {
				s.Floats = append(s.Floats, promql.FPoint{T: want.Times[time], F: values[0][i]})
				return nil
			}))
			matrix = append(matrix, s)
		}
		got, err := Of(t.Context(), matrix)
		require.NoError(t, err)
		require.Equal(t, m.long(), readCSV(t, written(t, got, "csv", false), 1))
		m.columns = got.Columns
		require.Equal(t, m.wide(), readArrow(t, written(t, got, "arrow", true)))
	}
}

// TestEnds: a table of many series that is given up is not made to its end, and nothing is written.
func TestEnds(t *testing.T) {
	m := &plan.Matrix{Grid: plan.Grid{Interval: 1, Steps: 1}}
	for i := range 10_000 {
		m.Rows = append(m.Rows, plan.Row{Labels: labels.FromStrings("i", strconv.Itoa(i)), Values: []float64{1}, Runs: []plan.Run{{Len: 1}}})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	table, err := Of(ctx, m)
	require.NoError(t, err)
	for _, f := range Formats[1:] {
		w := httptest.NewRecorder()
		require.ErrorAs(t, Asked{Format: f}.Answer(ctx, w, table, nil), new(promql.ErrQueryCanceled), f.Name)
		require.Empty(t, w.Body.Bytes())
	}
	d := table.dictionaries()
	require.Empty(t, d.values)
}

// FuzzArrow: any table is read back from its Arrow stream as it was, whatever the size of batches.
func FuzzArrow(f *testing.F) {
	f.Add(uint64(1), byte(3), byte(20), byte(2), byte(30), byte(4), true)
	f.Fuzz(func(t *testing.T, seed uint64, series, times, columns, cells, _ byte, nullable bool) {
		small(t, 1+int(cells))
		table, m := random(rand.New(rand.NewPCG(seed, 0)), int(series%16), int(times), 1+int(columns%4), nullable)
		require.Equal(t, m.long(), readArrow(t, written(t, table, "arrow", false)))
		require.Equal(t, m.wide(), readArrow(t, written(t, table, "arrow", true)))
	})
}
