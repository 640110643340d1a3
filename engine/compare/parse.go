package compare

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

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
		case "stats":
			var stats struct {
				Timings struct {
					Evaluated float64 `json:"evalTotalTime"` // seconds
				} `json:"timings"`
			}
			from.ReadVal(&stats)
			a.Evaluated = time.Duration(stats.Timings.Evaluated * float64(time.Second))
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
			s := readSeries(from)
			if from.Error != nil && from.Error != io.EOF {
				return fmt.Errorf("series %s: %w", s.Labels, from.Error)
			}
			if err := consume(s); err != nil {
				return err
			}
		}
		return nil
	case parser.ValueTypeScalar:
		points := []promql.FPoint{readPoint(from)}
		if from.Error != nil && from.Error != io.EOF {
			return from.Error
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

// readSeries reads a series of a matrix or a vector.
func readSeries(from *jsoniter.Iterator) (s Series) {
	for field := from.ReadObject(); field != ""; field = from.ReadObject() {
		switch field {
		case "metric":
			var metric map[string]string
			from.ReadVal(&metric)
			s.Labels = labels.FromMap(metric)
		case "value":
			s.Floats = append(s.Floats, readPoint(from))
		case "values":
			for from.ReadArray() {
				s.Floats = append(s.Floats, readPoint(from))
			}
		case "histogram":
			s.Histograms = append(s.Histograms, readHistogram(from))
		case "histograms":
			for from.ReadArray() {
				s.Histograms = append(s.Histograms, readHistogram(from))
			}
		default:
			from.Skip()
		}
	}
	return s
}

func readHistogram(from *jsoniter.Iterator) Histogram {
	h := model.SampleHistogramPair{Histogram: &model.SampleHistogram{}}
	from.ReadVal(&h)
	return Histogram{int64(h.Timestamp), h.Histogram.String(), float64(h.Histogram.Count), float64(h.Histogram.Sum)}
}

// readPoint reads [seconds,"value"].
func readPoint(from *jsoniter.Iterator) (p promql.FPoint) {
	from.ReadArray()
	p.T = int64(math.Round(1000 * from.ReadFloat64()))
	from.ReadArray()
	var err error
	if p.F, err = strconv.ParseFloat(string(from.ReadStringAsSlice()), 64); err != nil && from.Error == nil {
		from.ReportError("the value of a point", err.Error())
	}
	from.ReadArray()
	return p
}
