package table

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/stretchr/testify/require"
)

// reference is a table as a plain list of cells, which is what formats are compared with.
type reference struct {
	columns  []string
	nullable bool
	series   []labels.Labels
	cells    []map[int64][]*float64 // of each series, by time: of each column; nil is null or no cell
	absent   []map[int64][]bool     // of those that are no cells
}

// random makes a table and its reference.
func random(r *rand.Rand, series, times, columns int, nullable bool) (*Table, *reference) {
	m := &reference{nullable: nullable}
	t := &Table{Nullable: nullable}
	for k := range columns {
		m.columns = append(m.columns, "c"+strconv.Itoa(k))
	}
	t.Columns = m.columns
	at := int64(r.IntN(1e9))
	for range times {
		t.Times = append(t.Times, at)
		at += 1 + r.Int64N(100_000)
	}
	for i := range series {
		b := labels.NewScratchBuilder(3)
		b.Add("id", strconv.Itoa(i))
		for l := range 3 {
			if r.IntN(4) > 0 {
				b.Add("l"+strconv.Itoa(l), []string{"a", "b,\"c\"", "ü\n"}[r.IntN(3)])
			}
		}
		b.Sort()
		s := Series{Labels: b.Labels()}
		cells, absent := map[int64][]*float64{}, map[int64][]bool{}
		density, same := r.IntN(5), r.IntN(2) == 0
		var places []int32
		for k := range columns {
			if k == 0 || !same {
				places = places[:0]
				for p := range times {
					if density == 4 || r.IntN(4) < density {
						places = append(places, int32(p))
					}
				}
			}
			c := Cells{Runs: RunsOf(places)}
			for _, p := range places {
				v := []float64{0, 1, -1.5, 1e300, 1e-300, math.Inf(1), math.NaN(), r.Float64()}[r.IntN(8)]
				ms := t.Times[p]
				if cells[ms] == nil {
					cells[ms], absent[ms] = make([]*float64, columns), slices.Repeat([]bool{true}, columns)
				}
				absent[ms][k] = false
				if nullable && r.IntN(5) == 0 {
					c.Values = append(c.Values, math.Float64frombits(value.StaleNaN))
					continue
				}
				c.Values = append(c.Values, v)
				cells[ms][k] = &v
			}
			s.Cells = append(s.Cells, c)
		}
		t.Series = append(t.Series, s)
		m.series, m.cells, m.absent = append(m.series, s.Labels), append(m.cells, cells), append(m.absent, absent)
	}
	return t, m
}

// long are the rows of the long layout, as text.
func (m *reference) long() (rows []string) {
	for i, ls := range m.series {
		for _, ms := range slices.Sorted(maps.Keys(m.cells[i])) {
			row := fmt.Sprint(ms, " ", ls)
			for _, v := range m.cells[i][ms] {
				row += text(v)
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// wide are the rows of the wide layout, as text. A column without any cell is not there.
func (m *reference) wide() (rows []string) {
	times, has := map[int64]bool{}, map[string]bool{}
	for i := range m.series {
		for ms, absent := range m.absent[i] {
			times[ms] = true
			for k := range absent {
				if !absent[k] {
					has[fmt.Sprint(i, k)] = true
				}
			}
		}
	}
	for _, ms := range slices.Sorted(maps.Keys(times)) {
		row := fmt.Sprint(ms, " ")
		for i := range m.series {
			for k := range m.columns {
				if !has[fmt.Sprint(i, k)] {
					continue
				}
				var v *float64
				if m.cells[i][ms] != nil {
					v = m.cells[i][ms][k]
				}
				row += text(v)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

func text(v *float64) string {
	if v == nil {
		return " null"
	}
	return fmt.Sprintf(" %x", math.Float64bits(*v))
}

// written is a table in a format.
func written(t testing.TB, table *Table, format string, wide bool) []byte {
	for _, f := range Formats {
		if f.Name == format {
			write, _, err := f.prepare(table, wide)
			require.NoError(t, err)
			var b bytes.Buffer
			require.NoError(t, write(&b))
			return b.Bytes()
		}
	}
	t.Fatalf("there is no format %s", format)
	return nil
}

// readArrow reads an Arrow stream back, as the text of its rows.
func readArrow(t testing.TB, b []byte) (rows []string) {
	r, err := ipc.NewReader(bytes.NewReader(b))
	require.NoError(t, err)
	defer r.Release()
	for r.Next() {
		rows = append(rows, rowsOf(t, r.RecordBatch())...)
	}
	require.NoError(t, r.Err())
	return rows
}

// readParquet reads a Parquet file back, with a library that did not write it.
func readParquet(t testing.TB, b []byte) (rows []string) {
	f, err := file.NewParquetReader(bytes.NewReader(b))
	require.NoError(t, err)
	r, err := pqarrow.NewFileReader(f, pqarrow.ArrowReadProperties{BatchSize: 1000}, memory.DefaultAllocator)
	require.NoError(t, err)
	table, err := r.ReadTable(context.Background())
	require.NoError(t, err)
	defer table.Release()
	batches := array.NewTableReader(table, 1000)
	for batches.Next() {
		rows = append(rows, rowsOf(t, batches.RecordBatch())...)
	}
	return rows
}

// rowsOf are the rows of a batch: time, labels and values.
func rowsOf(t testing.TB, b arrow.RecordBatch) (rows []string) {
	require.Equal(t, TimeColumn, b.ColumnName(0))
	times := b.Column(0).(*array.Timestamp)
	for i := range int(b.NumRows()) {
		require.False(t, times.IsNull(i))
		ls, values, isLong := labels.NewScratchBuilder(4), "", false
		for k := 1; k < int(b.NumCols()); k++ {
			switch c := b.Column(k).(type) {
			case *array.Dictionary:
				isLong = true
				if !c.IsNull(i) {
					ls.Add(b.ColumnName(k), c.Dictionary().(*array.String).Value(c.GetValueIndex(i)))
				}
			case *array.String:
				isLong = true
				if !c.IsNull(i) {
					ls.Add(b.ColumnName(k), c.Value(i))
				}
			case *array.Float64:
				if v := c.Value(i); c.IsNull(i) {
					values += text(nil)
				} else {
					values += text(&v)
				}
			default:
				t.Fatalf("column %s is %T", b.ColumnName(k), c)
			}
		}
		row := fmt.Sprint(int64(times.Value(i)), " ")
		if ls.Sort(); isLong {
			row += ls.Labels().String()
		}
		rows = append(rows, row+values)
	}
	return rows
}

// readCSV reads CSV back. Bits of NaN are those of NaN.
func readCSV(t testing.TB, b []byte, columns int) (rows []string) {
	lines, err := csv.NewReader(bytes.NewReader(b)).ReadAll()
	require.NoError(t, err)
	n := len(lines[0]) - columns - 1
	for _, line := range lines[1:] {
		ls := labels.NewScratchBuilder(4)
		for k, name := range lines[0][:n] {
			if line[k] != "" {
				ls.Add(name, line[k])
			}
		}
		seconds, err := strconv.ParseFloat(line[n], 64)
		require.NoError(t, err)
		row := fmt.Sprint(int64(math.Round(seconds*1000)), " ", ls.Labels())
		for _, cell := range line[n+1:] {
			var v *float64
			if cell != "" {
				f, err := strconv.ParseFloat(cell, 64)
				require.NoError(t, err)
				v = &f
			}
			row += text(v)
		}
		rows = append(rows, row)
	}
	return rows
}

// readLines reads NDJSON back.
func readLines(t testing.TB, b []byte, columns []string) (rows []string) {
	d := json.NewDecoder(bytes.NewReader(b))
	for d.More() {
		var line struct {
			Metric    map[string]string
			Timestamp float64
			Values    map[string]any
		}
		require.NoError(t, d.Decode(&line))
		row := fmt.Sprint(int64(math.Round(line.Timestamp*1000)), " ", labels.FromMap(line.Metric))
		for _, name := range columns {
			var v *float64
			switch of := line.Values[name].(type) {
			case float64:
				v = &of
			case string:
				f, err := strconv.ParseFloat(of, 64)
				require.NoError(t, err)
				v = &f
			}
			row += text(v)
		}
		rows = append(rows, row)
	}
	return rows
}
