package api

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"slices"
	"strconv"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	v1 "github.com/prometheus/prometheus/web/api/v1"

	"github.com/promwarp/promwarp/plan"
)

// csvCodec writes a query's answer as CSV: one column for each label, then
// timestamp (seconds since the epoch) and value, one row for each sample.
// Warnings have no place in it. Of a large answer it encodes only the first row, with the
// names; the request's stream writes the rest behind that.
type csvCodec struct{}

func (csvCodec) ContentType() v1.MIMEType { return v1.MIMEType{Type: "text", SubType: "csv"} }

// CanEncode implements v1.Codec. Histograms have no single value, so an answer
// that holds one is left to JSON.
func (csvCodec) CanEncode(resp *v1.Response) bool {
	value, _ := resultOf(resp)
	switch r := value.(type) {
	case promql.Scalar, promql.String, *plan.Matrix:
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
	value, s := resultOf(resp)
	t := newTable(value)
	if t.rows >= minStreamed && s != nil {
		s.rest = t
		return t.head(), nil
	}
	buf := bytes.NewBuffer(t.head())
	_, err := t.WriteRest(buf)
	return buf.Bytes(), err
}

// table is a query's result as rows of labels, a time and a value.
type table struct {
	result any
	rows   int
	names  []string
	cell   []string
}

// newTable finds the names of all labels.
func newTable(result any) *table {
	t := &table{result: result}
	seen := map[string]bool{}
	add := func(m labels.Labels, rows int) {
		t.rows += rows
		m.Range(func(l labels.Label) {
			if !seen[l.Name] {
				seen[l.Name] = true
				t.names = append(t.names, l.Name)
			}
		})
	}
	switch r := result.(type) {
	case promql.Vector:
		for i := range r {
			add(r[i].Metric, 1)
		}
	case promql.Matrix:
		for i := range r {
			add(r[i].Metric, len(r[i].Floats))
		}
	case *plan.Matrix:
		for i := range r.Rows {
			add(r.Rows[i].Labels, len(r.Rows[i].Values))
		}
	}
	slices.Sort(t.names)
	return t
}

// head is the first row, which names the columns.
func (t *table) head() []byte {
	var buf bytes.Buffer
	w := csv.NewWriter(&buf)
	_ = w.Write(append(slices.Clone(t.names), "timestamp", "value")) // a buffer takes all
	w.Flush()
	return buf.Bytes()
}

// csvBuffer is how many bytes of rows are collected before they are written.
const csvBuffer = 32 << 10

// WriteRest writes the rows behind the first, until writing fails.
func (t *table) WriteRest(to io.Writer) (int64, error) {
	counted := &writtenBytes{Writer: to}
	w := csv.NewWriter(bufio.NewWriterSize(counted, csvBuffer)) // which uses that buffer
	switch r := t.result.(type) {
	case promql.Scalar:
		_ = t.row(w, labels.EmptyLabels(), r.T, r.V)
	case promql.String:
		_ = t.cells(w, labels.EmptyLabels(), r.T, r.V)
	case promql.Vector:
		for i := range r {
			if t.row(w, r[i].Metric, r[i].T, r[i].F) != nil {
				break
			}
		}
	case promql.Matrix:
		t.points(w, r)
	case *plan.Matrix:
		t.steps(w, r)
	}
	w.Flush()
	return counted.n, w.Error()
}

func (t *table) points(w *csv.Writer, m promql.Matrix) {
	for i := range m {
		for _, p := range m[i].Floats {
			if t.row(w, m[i].Metric, p.T, p.F) != nil {
				return
			}
		}
	}
}

func (t *table) steps(w *csv.Writer, m *plan.Matrix) {
	for i := range m.Rows {
		for ms, v := range m.Rows[i].All(m.Grid) {
			if t.row(w, m.Rows[i].Labels, ms, v) != nil {
				return
			}
		}
	}
}

func (t *table) row(w *csv.Writer, m labels.Labels, ms int64, v float64) error {
	return t.cells(w, m, ms, strconv.FormatFloat(v, 'f', -1, 64))
}

func (t *table) cells(w *csv.Writer, m labels.Labels, ms int64, value string) error {
	t.cell = t.cell[:0]
	for _, n := range t.names {
		t.cell = append(t.cell, m.Get(n))
	}
	t.cell = append(t.cell, strconv.FormatFloat(float64(ms)/1000, 'f', -1, 64), value)
	return w.Write(t.cell)
}

// writtenBytes counts the bytes that are written.
type writtenBytes struct {
	io.Writer
	n int64
}

func (w *writtenBytes) Write(b []byte) (int, error) {
	n, err := w.Writer.Write(b)
	w.n += int64(n)
	return n, err
}

// CSV writes a query's answer as /query does with format=csv.
func CSV(v parser.Value) ([]byte, error) {
	resp := &v1.Response{Data: &v1.QueryData{ResultType: v.Type(), Result: v}}
	if !(csvCodec{}).CanEncode(resp) {
		return nil, errors.New("histograms cannot be written as CSV; use JSON")
	}
	return csvCodec{}.Encode(resp)
}
