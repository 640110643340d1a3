package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"text/tabwriter"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	v1 "github.com/prometheus/prometheus/web/api/v1"

	"github.com/promwarp/promwarp/api/table"
)

// writeJSON prints an answer as Prometheus's API has it under data.
func writeJSON(w io.Writer, v parser.Value) error {
	b, err := v1.JSONCodec{}.Encode(&v1.Response{Status: "success", Data: &v1.QueryData{ResultType: v.Type(), Result: v}})
	if err != nil {
		return err
	}
	var r struct{ Data json.RawMessage }
	if err := json.Unmarshal(b, &r); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", r.Data)
	return err
}

// writeCSV prints an answer as /query does with format=csv.
func writeCSV(w io.Writer, v parser.Value) error {
	t, err := table.Of(v)
	if err != nil {
		return err
	}
	return table.CSV(w, t)
}

// writeTable prints an answer for reading: a row a series. The rows of a range
// sum up its points; json and csv have them all.
func writeTable(w io.Writer, v parser.Value) error {
	buf := bufio.NewWriter(w)
	t := tabwriter.NewWriter(buf, 0, 0, 2, ' ', 0)
	switch r := v.(type) {
	case promql.Scalar:
		fmt.Fprintln(t, number(r.V))
	case promql.String:
		fmt.Fprintln(t, r.V)
	case promql.Vector:
		if len(r) == 0 {
			fmt.Fprintln(t, "(no series)")
			break
		}
		fmt.Fprintln(t, "SERIES\tVALUE")
		for _, s := range r {
			fmt.Fprintf(t, "%s\t%s\n", series(s.Metric), value(s.F, s.H))
		}
	case promql.Matrix:
		if len(r) == 0 {
			fmt.Fprintln(t, "(no series)")
			break
		}
		fmt.Fprintln(t, "SERIES\tPOINTS\tFIRST\tMIN\tMAX\tLAST")
		for _, s := range r {
			row(t, s)
		}
	default:
		return fmt.Errorf("no table for an answer of type %s; use --output=json", v.Type())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return buf.Flush()
}

// row prints the sum of one series.
func row(w io.Writer, s promql.Series) {
	if len(s.Floats) == 0 {
		n := len(s.Histograms)
		fmt.Fprintf(w, "%s\t%d\t%s\t\t\t%s\n", series(s.Metric), n, value(0, s.Histograms[0].H), value(0, s.Histograms[n-1].H))
		return
	}
	least, most := math.NaN(), math.NaN()
	for _, p := range s.Floats {
		if math.IsNaN(least) || p.F < least {
			least = p.F
		}
		if math.IsNaN(most) || p.F > most {
			most = p.F
		}
	}
	fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\n", series(s.Metric), len(s.Floats)+len(s.Histograms),
		number(s.Floats[0].F), number(least), number(most), number(s.Floats[len(s.Floats)-1].F))
}

// series writes labels as a selector is written: name{label="value"}.
func series(m labels.Labels) string {
	name := m.Get(model.MetricNameLabel)
	if !model.LegacyValidation.IsValidMetricName(name) {
		return m.String()
	}
	rest := m.MatchLabels(false, model.MetricNameLabel)
	if rest.IsEmpty() {
		return name
	}
	return name + rest.String()
}

func value(f float64, h *histogram.FloatHistogram) string {
	if h != nil {
		return h.String()
	}
	return number(f)
}

// number is f in full, in the shortest form.
func number(f float64) string {
	if a := math.Abs(f); a != 0 && (a < 1e-6 || a >= 1e15) {
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}
