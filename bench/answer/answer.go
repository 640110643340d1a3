// Package answer asks servers, and compares what their query API answers.
//
// A Request goes to a server and comes back as an Answer: its bytes and how long they took. Two
// answers of a range query are compared by Difference, which parses both into Prometheus's types
// and has engine/compare find where they differ. Start with Ask.
package answer

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/engine/compare"
	"github.com/promwarp/promwarp/plan"
)

// The paths of queries at one time, and over a range.
const (
	Query      = "/api/v1/query"
	QueryRange = "/api/v1/query_range"
)

// Request is what a server is asked.
type Request struct {
	Path string
	Form url.Values
	Read []byte // a remote-read request, compressed by snappy, in place of a form
	Gzip bool   // accept a compressed answer, which is unpacked once it has come
	Drop bool   // throw the answer's body away as it comes
}

// Answer is what a server said.
type Answer struct {
	Code  int
	Body  []byte
	First time.Duration // from sending the request to the first byte of the body
	Took  time.Duration // from sending the request to the end of the body
	Sent  int           // bytes of the body as they came
}

// client asks as a dashboard does, but for compression, which is asked for where it is measured.
var client = &http.Client{
	Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64},
	Timeout:   5 * time.Minute,
}

// Ask sends a request to the server at the URL base. The body is read into buf, which may be nil,
// and is good until buf is used again.
func Ask(ctx context.Context, base string, r Request, buf *bytes.Buffer) (Answer, error) {
	if buf == nil {
		buf = new(bytes.Buffer)
	}
	buf.Reset()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+r.Path, strings.NewReader(r.Form.Encode()))
	if err != nil {
		return Answer{}, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if r.Read != nil {
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(r.Read)), int64(len(r.Read))
		req.Header.Set("Content-Type", "application/x-protobuf")
		req.Header.Set("Content-Encoding", "snappy")
		req.Header.Set("User-Agent", "Prometheus/3.15.0")
	}
	if r.Gzip {
		req.Header.Set("Accept-Encoding", "gzip")
	}
	begin := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	a := Answer{Code: resp.StatusCode}
	if _, err := io.CopyN(buf, resp.Body, 1); err != nil && !errors.Is(err, io.EOF) {
		return Answer{}, err
	}
	a.First = time.Since(begin)
	if r.Drop && a.Code == http.StatusOK {
		n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, resp.Body, make([]byte, 256<<10))
		a.Took, a.Sent = time.Since(begin), buf.Len()+int(n)
		return a, err
	}
	if _, err := buf.ReadFrom(resp.Body); err != nil {
		return Answer{}, err
	}
	a.Took, a.Body, a.Sent = time.Since(begin), buf.Bytes(), buf.Len()
	if resp.Header.Get("Content-Encoding") != "gzip" {
		return a, nil
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(a.Body))
	if err == nil {
		a.Body, err = io.ReadAll(unpacked)
	}
	return a, err
}

// Err says what the server had against the request, nil for nothing.
func (a Answer) Err() error {
	if a.Code == http.StatusOK {
		return nil
	}
	return fmt.Errorf("status %d: %s", a.Code, a.Body[:min(len(a.Body), 300)])
}

// Points is the number of points of all series.
func Points(a *compare.Answer) (n int) {
	for _, s := range a.Series {
		n += len(s.Floats)
	}
	return n
}

// Difference says where got differs from want, nothing if it does not. Values may be apart as
// Prometheus's and promwarp's may.
func Difference(want, got *compare.Answer) string {
	if d := compare.Differ(want, got, plan.Tolerance); d != nil {
		return d.String()
	}
	return ""
}

// Parse reads an answer of series.
func (a Answer) Parse() (*compare.Answer, error) {
	if err := a.Err(); err != nil {
		return nil, err
	}
	r, err := compare.Parse(a.Code, a.Body)
	switch {
	case err != nil:
		return nil, err
	case r.Type != parser.ValueTypeMatrix && r.Type != parser.ValueTypeVector:
		return nil, fmt.Errorf("the result is a %s", r.Type)
	}
	for _, s := range r.Series {
		if len(s.Histograms) > 0 {
			return nil, fmt.Errorf("series %s has native histograms, which are not compared", s.Labels)
		}
	}
	r.Sort()
	return r, nil
}
