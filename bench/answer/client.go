// Package answer asks servers range queries, and compares what they answer.
package answer

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Answer is what a server's query API said.
type Answer struct {
	Code int
	Body []byte
	Took time.Duration // from sending the request to the end of the body
}

// client asks as a dashboard does, but for compression, which is asked for where it is measured.
var client = &http.Client{
	Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 2},
	Timeout:   5 * time.Minute,
}

// Ask sends the form to the range-query API of the server at the URL base. The
// body is read into buf, which may be nil, and is good until buf is used again.
func Ask(ctx context.Context, base string, form url.Values, buf *bytes.Buffer) (Answer, error) {
	return ask(ctx, base, form, buf, "")
}

// AskGzip is Ask for a compressed answer. The time ends before it is unpacked.
func AskGzip(ctx context.Context, base string, form url.Values, buf *bytes.Buffer) (Answer, error) {
	a, err := ask(ctx, base, form, buf, "gzip")
	if err != nil {
		return a, err
	}
	r, err := gzip.NewReader(bytes.NewReader(a.Body))
	if err == nil {
		a.Body, err = io.ReadAll(r)
	}
	return a, err
}

func ask(ctx context.Context, base string, form url.Values, buf *bytes.Buffer, encoding string) (Answer, error) {
	if buf == nil {
		buf = new(bytes.Buffer)
	}
	buf.Reset()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/api/v1/query_range", strings.NewReader(form.Encode()))
	if err != nil {
		return Answer{}, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if encoding != "" {
		req.Header.Set("Accept-Encoding", encoding)
	}
	begin := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	if _, err := buf.ReadFrom(resp.Body); err != nil {
		return Answer{}, err
	}
	return Answer{Code: resp.StatusCode, Body: buf.Bytes(), Took: time.Since(begin)}, nil
}

// Err says what the server had against the query, nil for nothing.
func (a Answer) Err() error {
	if a.Code == http.StatusOK {
		return nil
	}
	return fmt.Errorf("status %d: %s", a.Code, a.Body[:min(len(a.Body), 300)])
}

// Equal says whether two answers are the same, byte for byte.
func (a Answer) Equal(b Answer) bool { return a.Code == b.Code && bytes.Equal(a.Body, b.Body) }
