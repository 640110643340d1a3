package forward

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/promwarp/promwarp/api/promapi"
	"github.com/promwarp/promwarp/engine/compare"
	"github.com/promwarp/promwarp/internal/memory"
)

// listAnswer is what a server answered to a request for a list.
type listAnswer struct {
	compare.Reply
	recorded recording
}

// ask asks one server, which may answer with limit bytes. What it takes to put the answer
// together with others is charged to the lease.
func ask(h http.HandlerFunc, r *http.Request, body []byte, lease *memory.Lease, limit int64) *listAnswer {
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.Header.Del("Accept-Encoding") // to be read here
	r.Header.Del("If-Modified-Since")
	r.Header.Del("If-None-Match")
	a := &listAnswer{recorded: recording{code: http.StatusOK, limit: int(limit), ctx: r.Context(), lease: lease}}
	broken := promapi.Answered(func() { h(&a.recorded, r) })
	if a.recorded.refused != nil {
		return a
	}
	switch err := json.Unmarshal(a.recorded.body.Bytes(), &a.Reply); {
	case a.recorded.tooLarge:
		a.Status, a.Error = "error", fmt.Sprintf("its answer is larger than the %d bytes that promwarp takes; --upstream.max-bytes bounds what all upstreams answer together", limit)
	case broken:
		a.Status, a.Error = "error", "its answer broke off"
	case err != nil:
		// Its text is not quoted: a page that shows the request may repeat credentials.
		a.Status, a.Error = "error", fmt.Sprintf("its answer with status %d, of %d bytes, is not that of a Prometheus", a.recorded.code, a.recorded.body.Len())
	case a.Status != "success" && a.Error == "":
		a.Error = fmt.Sprintf("its answer has status %d and no data", a.recorded.code)
	}
	return a
}

// respond passes on the error of the server of that name, or says that there is no memory.
func (l *listAnswer) respond(w http.ResponseWriter, name string) {
	if l.recorded.refused != nil {
		promapi.FormError(w, l.recorded.refused)
		return
	}
	if l.recorded.code >= http.StatusBadRequest && l.ErrorType != "" {
		promapi.Error(w, l.recorded.code, l.ErrorType, l.Error)
		return
	}
	promapi.Error(w, http.StatusBadGateway, promapi.Unavailable, fmt.Sprintf("the upstream %s failed: %s", name, l.Error))
}

// listBytes is the memory that each byte of an answer costs which is put together with others:
// three for the text, six for the values and what they are compared by, three for the union.
const listBytes = 12

// recording is a http.ResponseWriter that keeps a response of up to limit bytes.
type recording struct {
	header   http.Header
	code     int
	limit    int
	body     bytes.Buffer
	tooLarge bool

	ctx     context.Context // of the request
	lease   *memory.Lease
	refused error // of the lease
}

func (r *recording) Header() http.Header {
	if r.header == nil {
		r.header = http.Header{}
	}
	return r.header
}

func (r *recording) WriteHeader(code int) { r.code = code }

func (r *recording) Write(b []byte) (int, error) {
	if r.body.Len()+len(b) > r.limit {
		r.tooLarge = true
		return 0, errors.New("the answer is too large")
	}
	if r.refused = r.lease.Grow(r.ctx, listBytes*int64(len(b))); r.refused != nil {
		return 0, r.refused
	}
	return r.body.Write(b)
}
