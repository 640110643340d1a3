// Package inside has an http.Client ask an http.Handler of this process, as if it were a server. A
// request goes in; out comes the answer, whose body can be read while the handler writes.
package inside

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/promwarp/promwarp/internal/parallel"
)

// Client is the remote address of requests from inside, which no connection has.
const Client = "promwarp"

// Transport is an http.RoundTripper that asks the handler. A body must be closed, which ends the
// handler's writing and waits until it has returned.
type Transport struct{ http.Handler }

// RoundTrip implements http.RoundTripper.
func (t Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.RemoteAddr, r.RequestURI = Client, r.URL.RequestURI()
	if r.Body == nil {
		r.Body = http.NoBody
	}
	a := &answer{header: http.Header{}, response: &http.Response{ProtoMajor: 1, ProtoMinor: 1, ContentLength: -1, Request: r}, begun: make(chan struct{})}
	a.body, a.pipe = io.Pipe()
	a.response.Body = a
	a.handler.Go(func() {
		err := parallel.Rescue(func() error {
			t.ServeHTTP(a, r)
			return nil
		})
		a.WriteHeader(http.StatusOK)
		_ = a.pipe.CloseWithError(err)
	})
	<-a.begun
	return a.response, nil
}

// ErrBusy is the error of a handler that has no time for a request.
var ErrBusy = errors.New("too busy to answer")

// Ask posts a form and returns the whole answer, of so many bytes at most.
func Ask(ctx context.Context, h http.Handler, path string, form url.Values, longest int) (status int, text []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://promwarp"+path, strings.NewReader(form.Encode()))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := Transport{h}.RoundTrip(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	text, err = io.ReadAll(io.LimitReader(resp.Body, int64(longest)+1))
	switch {
	case err != nil:
	case len(text) > longest:
		err = fmt.Errorf("the answer is too long: over %d bytes", longest)
	case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable:
		err = fmt.Errorf("%w: %.300s", ErrBusy, text)
	}
	return resp.StatusCode, text, err
}

// answer is what a handler writes, and the body of the response.
type answer struct {
	header   http.Header
	response *http.Response
	begun    chan struct{} // closed with the header
	body     *io.PipeReader
	pipe     *io.PipeWriter
	handler  sync.WaitGroup
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if a.response.StatusCode == 0 {
		a.response.StatusCode, a.response.Status, a.response.Header = status, http.StatusText(status), a.header.Clone()
		close(a.begun)
	}
}

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.pipe.Write(p)
}

// Read implements io.Reader.
func (a *answer) Read(p []byte) (int, error) { return a.body.Read(p) }

// Close implements io.Closer.
func (a *answer) Close() error {
	err := a.body.Close()
	a.handler.Wait()
	return err
}
