package canary

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net/http"
	"strings"

	"github.com/promwarp/promwarp/engine/compare"
	"github.com/promwarp/promwarp/internal/memory"
)

// Why a query is not compared.
var (
	errTimeout  = errors.New("its time is up")
	errTooLong  = errors.New("its answer is too long")
	errDeclined = errors.New("promwarp is busy")
)

// reasonOf is the reason in the metrics for an error of asking.
func reasonOf(err error) string {
	switch {
	case errors.Is(err, errTooLong):
		return "length"
	case errors.Is(err, errDeclined):
		return "busy"
	case memory.Exhausted(err):
		return "memory"
	}
	return "failed"
}

// asking asks the sides of one comparison.
type asking struct {
	question question
	lease    *memory.Lease
	err      error // why an answer says nothing about promwarp
}

// side asks h the question. An executor is one of promwarp's; of the upstream it is empty.
func (a *asking) side(h http.Handler, executor string) compare.Side {
	return func(ctx context.Context) (*compare.Answer, error) {
		form := maps.Clone(a.question.form)
		if executor != "" {
			form.Set("executor", executor)
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://promwarp"+a.question.path, strings.NewReader(form.Encode()))
		if err != nil {
			return nil, err
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.RemoteAddr, r.RequestURI = "canary", r.URL.Path
		w := &recorder{ctx: ctx, lease: a.lease, header: http.Header{}, status: http.StatusOK}
		h.ServeHTTP(w, r)
		if w.err != nil {
			a.err = w.err
			return nil, w.err
		}
		if executor != "" && (w.status == http.StatusTooManyRequests || w.status == http.StatusServiceUnavailable) {
			a.err = errDeclined
		}
		return compare.Parse(w.status, w.text.Bytes())
	}
}

// recorder keeps an answer, in bounds.
type recorder struct {
	ctx    context.Context
	lease  *memory.Lease
	header http.Header
	status int
	text   bytes.Buffer
	err    error
}

// Header implements http.ResponseWriter.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) { r.status = status }

// Write implements io.Writer. An answer takes about three times its bytes while it is compared.
func (r *recorder) Write(p []byte) (int, error) {
	if r.err == nil && r.text.Len()+len(p) > longestAnswer {
		r.err = errTooLong
	}
	if r.err == nil {
		r.err = r.lease.Grow(r.ctx, 3*int64(len(p)))
	}
	if r.err != nil {
		return 0, r.err
	}
	return r.text.Write(p)
}
