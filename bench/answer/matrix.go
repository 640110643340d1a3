package answer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// Matrix is a parsed answer.
type Matrix struct {
	Series  map[string][]Point // by labels, as JSON with sorted names
	Notices []string           // warnings and infos, sorted
}

// Point is a time in seconds and a value.
type Point struct{ T, V float64 }

// Points is the number of points of all series.
func (m *Matrix) Points() (n int) {
	for _, ps := range m.Series {
		n += len(ps)
	}
	return n
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

// Parse reads an answer.
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
	m := &Matrix{Series: make(map[string][]Point, len(r.Data.Result)), Notices: append(r.Warnings, r.Infos...)}
	slices.Sort(m.Notices)
	for _, s := range r.Data.Result {
		labels, err := json.Marshal(s.Metric)
		if err != nil {
			return nil, err
		}
		name := string(labels)
		if len(s.Histograms) > 0 {
			return nil, fmt.Errorf("series %s has native histograms, which are not compared", name)
		}
		if _, ok := m.Series[name]; ok {
			return nil, fmt.Errorf("series %s comes twice", name)
		}
		if m.Series[name], err = parsePoints(s.Values); err != nil {
			return nil, fmt.Errorf("series %s: %w", name, err)
		}
	}
	return m, nil
}

// parsePoints reads [[seconds,"value"],...]. It must be JSON.
func parsePoints(b []byte) ([]Point, error) {
	ps := make([]Point, 0, bytes.Count(b, []byte{'['}))
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
		ps = append(ps, Point{t, v})
		b = b[end+1:]
	}
}
