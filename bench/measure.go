package main

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/common/model"

	"github.com/promwarp/promwarp/bench/report"
)

// measure asks all queries.
func (f *field) measure(ctx context.Context, o options) ([]report.Row, error) {
	var rows []report.Row
	for i, q := range o.queries {
		t := trial{field: f, form: q.Form(o.endTime(), o.length()), row: report.Row{
			Name: q.Name, Expr: q.Expr,
			Range: duration(min(q.Range, o.length())), Step: duration(q.Step),
		}}
		err := t.run(ctx, o, i)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err := f.alive(); err != nil {
			return nil, fmt.Errorf("query %s: %w", q.Name, err)
		}
		if err != nil {
			t.row.Error = err.Error()
		}
		rows = append(rows, t.row)
		f.say(fmt.Sprintf("%2d/%d %s%s", i+1, len(o.queries), q.Name, t.summary()))
	}
	return rows, nil
}

// duration writes a duration as PromQL does.
func duration(d time.Duration) string { return model.Duration(d).String() }
