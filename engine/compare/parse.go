package compare

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

// Refused is the error of a server that answered with one, in Prometheus's form.
type Refused struct {
	Status int
	Type   string // see api/promapi
	Text   string
}

func (r *Refused) Error() string { return r.Text }

// Reply is Prometheus's form of what a server answers.
type Reply struct {
	Status    string          `json:"status"`
	Data      json.RawMessage `json:"data"`
	ErrorType string          `json:"errorType"`
	Error     string          `json:"error"`
	Warnings  []string        `json:"warnings"`
	Infos     []string        `json:"infos"`
}

// ReadReply reads what a server answers, with its status. An error of Prometheus's form is a *Refused.
func ReadReply(status int, body []byte) (r Reply, err error) {
	switch err := json.Unmarshal(body, &r); {
	case err != nil:
		return r, fmt.Errorf("status %d: not an answer of the query API: %w: %.300s", status, err, body)
	case r.Status != "success":
		return r, &Refused{Status: status, Type: r.ErrorType, Text: r.Error}
	}
	return r, nil
}

// Parse reads a server's answer to PromQL.
func Parse(status int, body []byte) (*Answer, error) {
	r, err := ReadReply(status, body)
	if err != nil {
		return nil, err
	}
	return r.Answer()
}

// Answer reads the answer to PromQL.
func (r *Reply) Answer() (*Answer, error) {
	data := r.Data
	var d struct {
		ResultType parser.ValueType `json:"resultType"`
		Result     json.RawMessage  `json:"result"`
		Stats      struct {
			Timings struct {
				Evaluated float64 `json:"evalTotalTime"` // seconds
			} `json:"timings"`
		} `json:"stats"`
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, err
	}
	a := &Answer{Type: d.ResultType, Warnings: r.Warnings, Infos: r.Infos}
	a.Evaluated = time.Duration(d.Stats.Timings.Evaluated * float64(time.Second))
	switch d.ResultType {
	case parser.ValueTypeMatrix, parser.ValueTypeVector:
		return a, a.parseRows(d.Result)
	case parser.ValueTypeScalar:
		points, err := parsePoints(d.Result)
		a.Series = []Series{{Floats: points}}
		return a, err
	case parser.ValueTypeString:
		var s model.String
		err := json.Unmarshal(d.Result, &s)
		a.Text = s.Value
		return a, err
	}
	return nil, fmt.Errorf("the answer is of no known type, but %q", d.ResultType)
}

// parseRows reads the series of a matrix or a vector.
func (a *Answer) parseRows(result []byte) error {
	var all []struct {
		Metric     map[string]string           `json:"metric"`
		Value      json.RawMessage             `json:"value"`
		Values     json.RawMessage             `json:"values"`
		Histogram  *model.SampleHistogramPair  `json:"histogram"`
		Histograms []model.SampleHistogramPair `json:"histograms"`
	}
	if err := json.Unmarshal(result, &all); err != nil {
		return err
	}
	for _, s := range all {
		row := Series{Labels: labels.FromMap(s.Metric)}
		var err error
		if row.Floats, err = parsePoints(append(s.Values, s.Value...)); err != nil {
			return fmt.Errorf("series %s: %w", row.Labels, err)
		}
		if s.Histogram != nil {
			s.Histograms = append(s.Histograms, *s.Histogram)
		}
		for _, h := range s.Histograms {
			row.Histograms = append(row.Histograms, Histogram{int64(h.Timestamp), h.Histogram.String()})
		}
		a.Series = append(a.Series, row)
	}
	return nil
}

// parsePoints reads [[seconds,"value"],...], or one of them. It must be JSON.
func parsePoints(b []byte) ([]promql.FPoint, error) {
	ps := make([]promql.FPoint, 0, bytes.Count(b, []byte{'['}))
	for {
		i := bytes.IndexByte(b, '"')
		if i < 0 {
			return ps, nil
		}
		head := bytes.Trim(b[:i], "[], \t\r\n")
		b = b[i+1:]
		end := bytes.IndexByte(b, '"')
		if end < 0 {
			return nil, errors.New("a value does not end")
		}
		t, err := strconv.ParseFloat(string(head), 64)
		if err != nil {
			return nil, fmt.Errorf("the time of a point: %w", err)
		}
		v, err := strconv.ParseFloat(string(b[:end]), 64)
		if err != nil {
			return nil, fmt.Errorf("the value of a point: %w", err)
		}
		ps = append(ps, promql.FPoint{T: int64(math.Round(1000 * t)), F: v})
		b = b[end+1:]
	}
}
