package compare

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	jsoniter "github.com/json-iterator/go"
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

// Answer reads the answer to PromQL.
func (r *Reply) Answer() (*Answer, error) {
	a := &Answer{Warnings: r.Warnings, Infos: r.Infos}
	err := a.Read(bytes.NewReader(r.Data), func(s Series) error {
		a.Series = append(a.Series, s)
		return nil
	})
	return a, err
}

// Read reads the data of an answer to PromQL as it comes. It sets the type and the text, and has each
// series consumed, and a scalar as one without labels.
func (a *Answer) Read(data io.Reader, consume func(Series) error) error {
	from := jsoniter.Parse(jsoniter.ConfigCompatibleWithStandardLibrary, data, 64<<10)
	for field := from.ReadObject(); field != ""; field = from.ReadObject() {
		switch field {
		case "resultType":
			a.Type = parser.ValueType(from.ReadString())
		case "result":
			if err := a.readResult(from, consume); err != nil {
				return err
			}
		default:
			from.Skip()
		}
	}
	switch {
	case from.Error != nil && from.Error != io.EOF:
		return from.Error
	case !slices.Contains(types, a.Type):
		return a.strange()
	}
	return nil
}

var types = []parser.ValueType{parser.ValueTypeMatrix, parser.ValueTypeVector, parser.ValueTypeScalar, parser.ValueTypeString}

func (a *Answer) strange() error {
	return fmt.Errorf("the answer is of no known type, but %q", a.Type)
}

// readResult reads the result, which comes behind its type.
func (a *Answer) readResult(from *jsoniter.Iterator, consume func(Series) error) error {
	switch a.Type {
	case parser.ValueTypeMatrix, parser.ValueTypeVector:
		for from.ReadArray() {
			var w written
			if from.ReadVal(&w); from.Error != nil && from.Error != io.EOF {
				return from.Error
			}
			s, err := w.series()
			if err != nil {
				return fmt.Errorf("series %s: %w", s.Labels, err)
			}
			if err := consume(s); err != nil {
				return err
			}
		}
		return nil
	case parser.ValueTypeScalar:
		points, err := parsePoints(from.SkipAndReturnBytes())
		if err != nil {
			return err
		}
		return consume(Series{Floats: points})
	case parser.ValueTypeString:
		var s model.String
		from.ReadVal(&s)
		a.Text = s.Value
		return nil
	}
	return a.strange()
}

// written is a series as servers write it.
type written struct {
	Metric     map[string]string           `json:"metric"`
	Value      json.RawMessage             `json:"value"`
	Values     json.RawMessage             `json:"values"`
	Histogram  *model.SampleHistogramPair  `json:"histogram"`
	Histograms []model.SampleHistogramPair `json:"histograms"`
}

func (w *written) series() (s Series, err error) {
	s.Labels = labels.FromMap(w.Metric)
	if s.Floats, err = parsePoints(append(w.Values, w.Value...)); err != nil {
		return s, err
	}
	if w.Histogram != nil {
		w.Histograms = append(w.Histograms, *w.Histogram)
	}
	for _, h := range w.Histograms {
		s.Histograms = append(s.Histograms, Histogram{int64(h.Timestamp), h.Histogram.String(), float64(h.Histogram.Count), float64(h.Histogram.Sum)})
	}
	return s, nil
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
