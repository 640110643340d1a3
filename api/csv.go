package api

import (
	"bytes"
	"encoding/csv"
	"errors"
	"slices"
	"strconv"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	v1 "github.com/prometheus/prometheus/web/api/v1"
)

// csvCodec writes a query's answer as CSV: one column for each label, then
// timestamp (seconds since the epoch) and value, one row for each sample.
// Warnings have no place in it.
type csvCodec struct{}

func (csvCodec) ContentType() v1.MIMEType { return v1.MIMEType{Type: "text", SubType: "csv"} }

// CanEncode implements v1.Codec. Histograms have no single value, so an answer
// that holds one is left to JSON.
func (csvCodec) CanEncode(resp *v1.Response) bool {
	d, ok := resp.Data.(*v1.QueryData)
	if !ok {
		return false
	}
	switch r := d.Result.(type) {
	case promql.Scalar, promql.String:
		return true
	case promql.Vector:
		return !slices.ContainsFunc(r, func(s promql.Sample) bool { return s.H != nil })
	case promql.Matrix:
		return !slices.ContainsFunc(r, func(s promql.Series) bool { return len(s.Histograms) > 0 })
	}
	return false
}

// Encode implements v1.Codec.
func (csvCodec) Encode(resp *v1.Response) ([]byte, error) {
	var buf bytes.Buffer
	w := csv.NewWriter(&buf)
	t := table{w: w}
	switch r := resp.Data.(*v1.QueryData).Result.(type) {
	case promql.Scalar:
		t.header(nil)
		t.row(labels.EmptyLabels(), r.T, r.V)
	case promql.String:
		t.header(nil)
		t.cells(labels.EmptyLabels(), r.T, r.V)
	case promql.Vector:
		t.header(func(yield func(labels.Labels) bool) {
			for i := range r {
				if !yield(r[i].Metric) {
					return
				}
			}
		})
		for i := range r {
			t.row(r[i].Metric, r[i].T, r[i].F)
		}
	case promql.Matrix:
		t.header(func(yield func(labels.Labels) bool) {
			for i := range r {
				if !yield(r[i].Metric) {
					return
				}
			}
		})
		for i := range r {
			for _, p := range r[i].Floats {
				t.row(r[i].Metric, p.T, p.F)
			}
		}
	}
	w.Flush()
	return buf.Bytes(), w.Error()
}

// table writes rows of labels, a time and a value.
type table struct {
	w     *csv.Writer
	names []string
	cell  []string
}

// header finds all label names and writes the first row.
func (t *table) header(metrics func(func(labels.Labels) bool)) {
	seen := map[string]bool{}
	if metrics != nil {
		for m := range metrics {
			m.Range(func(l labels.Label) {
				if !seen[l.Name] {
					seen[l.Name] = true
					t.names = append(t.names, l.Name)
				}
			})
		}
	}
	slices.Sort(t.names)
	_ = t.w.Write(append(slices.Clone(t.names), "timestamp", "value"))
}

func (t *table) row(m labels.Labels, ms int64, v float64) {
	t.cells(m, ms, strconv.FormatFloat(v, 'f', -1, 64))
}

func (t *table) cells(m labels.Labels, ms int64, value string) {
	t.cell = t.cell[:0]
	for _, n := range t.names {
		t.cell = append(t.cell, m.Get(n))
	}
	t.cell = append(t.cell, strconv.FormatFloat(float64(ms)/1000, 'f', -1, 64), value)
	_ = t.w.Write(t.cell) // errors stay with the writer
}

// CSV writes a query's answer as /query does with format=csv.
func CSV(v parser.Value) ([]byte, error) {
	resp := &v1.Response{Data: &v1.QueryData{ResultType: v.Type(), Result: v}}
	if !(csvCodec{}).CanEncode(resp) {
		return nil, errors.New("histograms cannot be written as CSV; use JSON")
	}
	return csvCodec{}.Encode(resp)
}
