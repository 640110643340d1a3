package resampled

import (
	"context"

	"github.com/promwarp/promwarp/api/table"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/resample"
)

// tableOf is a result as a table, with a column for each aggregate. It refers to the result's
// values, and is of no use once ctx has ended.
func tableOf(ctx context.Context, r *resample.Result, warnings []string) *table.Table {
	t := &table.Table{Times: r.Grid.Labels, Warnings: warnings, Nullable: r.Fill.Filling == resample.FillNull, Watch: parallel.Watch{Ctx: ctx}}
	for i := range r.Aggregates {
		t.Columns = append(t.Columns, r.Aggregates[i].Text)
	}
	n := len(t.Columns)
	cells := make([]table.Cells, n*len(r.Series))
	t.Series = make([]table.Series, len(r.Series))
	t.Copied = table.SeriesBytes * int64(len(cells))
	var buckets []int32
	var runs []plan.Run
	for i := range r.Series {
		if t.Watch.Err() != nil {
			break
		}
		s := &r.Series[i]
		of := cells[i*n : (i+1)*n : (i+1)*n]
		for k := range s.Rows {
			row := &s.Rows[k]
			// Most rows share their buckets with the one before them.
			if len(row.Buckets) != len(buckets) || len(buckets) > 0 && &row.Buckets[0] != &buckets[0] {
				buckets, runs = row.Buckets, table.RunsOf(row.Buckets)
				t.Copied += table.RunBytes * int64(len(runs))
			}
			of[k] = table.Cells{Runs: runs, Values: row.Values}
		}
		t.Series[i] = table.Series{Labels: s.Labels, Cells: of}
	}
	return t
}
