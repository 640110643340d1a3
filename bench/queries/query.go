// Package queries holds the queries of the comparison.
package queries

import (
	"net/url"
	"strconv"
	"time"
)

// Query is a range query of a dashboard.
type Query struct {
	Name  string
	Expr  string
	Range time.Duration // up to the end of the data
	Step  time.Duration
}

// Form asks for the query on a data set that ends at end and is length long,
// both in whole milliseconds. A longer range is cut to that length.
func (q Query) Form(end time.Time, length time.Duration) url.Values {
	start := end.Add(-min(q.Range, length))
	return url.Values{
		"query": {q.Expr},
		"start": {seconds(start)},
		"end":   {seconds(end)},
		"step":  {strconv.FormatFloat(q.Step.Seconds(), 'f', -1, 64)},
	}
}

func seconds(t time.Time) string {
	return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', -1, 64)
}
