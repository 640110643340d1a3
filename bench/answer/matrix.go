package answer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"

	"github.com/promwarp/promwarp/engine/compare"
	"github.com/promwarp/promwarp/plan"
)

// Matrix is a parsed answer of a range query: its series by labels, and its warnings and infos.
type Matrix struct {
	Series  promql.Matrix
	Notices []string
}

// Points is the number of points of all series.
func (m *Matrix) Points() (n int) {
	for _, s := range m.Series {
		n += len(s.Floats)
	}
	return n
}

// Difference says where got differs from want, nothing if it does not. Values may be apart as
// Prometheus's and promwarp's may. Of notices the kinds are compared: some name the range that was
// asked for, which Join does not know.
func Difference(want, got *Matrix) string {
	if w, g := kinds(want.Notices), kinds(got.Notices); !slices.Equal(w, g) {
		return fmt.Sprintf("warnings and infos %q instead of %q", g, w)
	}
	d := compare.Differ("", compare.Answer{Value: got.Series}, compare.Answer{Value: want.Series}, plan.Tolerance)
	if d == nil {
		return ""
	}
	text := fmt.Sprintf("%s %s instead of %s", d.What, d.Ours, d.Theirs)
	if d.Series != "" {
		text += fmt.Sprintf(" at %s of %s", strconv.FormatFloat(float64(d.Time)/1000, 'f', -1, 64), d.Series)
	}
	return text
}

func kinds(notices []string) (kinds []string) {
	for _, n := range notices {
		n, _, _ = strings.Cut(n, ", from buckets")
		kinds = append(kinds, n)
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// Join puts answers for parts of a range together, in the order of time.
func Join(parts []*Matrix) *Matrix {
	all := &Matrix{}
	at := map[string]int{}
	for _, p := range parts {
		for _, s := range p.Series {
			name := s.Metric.String()
			i, ok := at[name]
			if !ok {
				i, at[name] = len(all.Series), len(all.Series)
				all.Series = append(all.Series, promql.Series{Metric: s.Metric})
			}
			all.Series[i].Floats = append(all.Series[i].Floats, s.Floats...)
		}
		all.Notices = append(all.Notices, p.Notices...)
	}
	all.sort()
	return all
}

func (m *Matrix) sort() {
	slices.SortFunc(m.Series, func(a, b promql.Series) int { return labels.Compare(a.Metric, b.Metric) })
}

// response is an answer of the query API, as far as it matters here.
type response struct {
	Status   string   `json:"status"`
	Error    string   `json:"error"`
	Warnings []string `json:"warnings"`
	Infos    []string `json:"infos"`
	Data     struct {
		ResultType string `json:"resultType"`
		Result     []struct {
			Metric     map[string]string `json:"metric"`
			Values     json.RawMessage   `json:"values"`
			Histograms json.RawMessage   `json:"histograms"`
		} `json:"result"`
	} `json:"data"`
}

// Parse reads an answer of a range query.
func (a Answer) Parse() (*Matrix, error) {
	if err := a.Err(); err != nil {
		return nil, err
	}
	var r response
	if err := json.Unmarshal(a.Body, &r); err != nil {
		return nil, fmt.Errorf("not an answer of the query API: %w: %.200s", err, a.Body)
	}
	if r.Status != "success" || r.Data.ResultType != "matrix" {
		return nil, fmt.Errorf("status %q, result type %q %s", r.Status, r.Data.ResultType, r.Error)
	}
	m := &Matrix{Notices: append(r.Warnings, r.Infos...)}
	for _, s := range r.Data.Result {
		metric := labels.FromMap(s.Metric)
		if len(s.Histograms) > 0 {
			return nil, fmt.Errorf("series %s has native histograms, which are not compared", metric)
		}
		points, err := parsePoints(s.Values)
		if err != nil {
			return nil, fmt.Errorf("series %s: %w", metric, err)
		}
		m.Series = append(m.Series, promql.Series{Metric: metric, Floats: points})
	}
	m.sort()
	return m, nil
}

// parsePoints reads [[seconds,"value"],...]. It must be JSON.
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
