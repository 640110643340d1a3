package forward

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/promwarp/promwarp/api/promapi"
	"github.com/promwarp/promwarp/engine/compare"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/parallel"
)

// listAnswer is what a server answered to a request for a list.
type listAnswer struct {
	compare.Reply
	recorded recording
}

// gather returns what forwards requests to all servers and answers with the union
// of what they list. A server that fails is an error, or a warning where it is
// optional and another one answers.
func (f *Forwarder) gather() http.HandlerFunc {
	forwards := make([]http.HandlerFunc, len(f.Remotes))
	for i, r := range f.Remotes {
		forwards[i] = f.forward(r)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			promapi.FormError(w, err)
			return
		}
		limit, err := listLimit(r, body)
		if err != nil {
			promapi.Error(w, http.StatusBadRequest, promapi.BadData, err.Error())
			return
		}
		lease := f.Memory.Lease(memory.Answers)
		defer lease.Release()
		answers := make([]*listAnswer, len(forwards))
		var asks errgroup.Group
		for i, h := range forwards {
			asks.Go(func() error {
				return parallel.Rescue(func() error {
					answers[i] = ask(h, r, body, lease, f.MaxListBytes/int64(len(forwards)))
					return nil
				})
			})
		}
		if err := asks.Wait(); err != nil {
			panic(err)
		}
		f.respondList(w, r, answers, limit)
	}
}

// listLimit is the request's limit of a list, 0 if it has none. A request that the
// union of several lists cannot answer is an error.
func listLimit(r *http.Request, body []byte) (int, error) {
	form := r.Clone(r.Context())
	form.Body = io.NopCloser(bytes.NewReader(body))
	if err := form.ParseForm(); err != nil {
		return 0, fmt.Errorf("error parsing form values: %w", err)
	}
	if form.Form.Has("group_limit") || form.Form.Has("group_next_token") {
		return 0, errors.New("promwarp reads from several servers, whose rule groups do not come in pages; leave out group_limit and group_next_token")
	}
	limit, err := strconv.Atoi(form.FormValue("limit"))
	if err != nil {
		return 0, nil // the servers say what is wrong with it
	}
	return limit, nil
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
	broken := serve(h, &a.recorded, r)
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

// serve has answer answer. It reports whether the answer is not whole, which a reverse
// proxy says by a panic.
func serve(answer http.HandlerFunc, w http.ResponseWriter, r *http.Request) (broken bool) {
	defer func() {
		if p := recover(); p == http.ErrAbortHandler {
			broken = true
		} else if p != nil {
			panic(p)
		}
	}()
	answer(w, r)
	return false
}

// respondList answers with the union of lists.
func (f *Forwarder) respondList(w http.ResponseWriter, r *http.Request, answers []*listAnswer, limit int) {
	var data []json.RawMessage
	var warnings, infos []string
	failed := -1
	for i, l := range answers {
		remote := f.Remotes[i]
		if l.recorded.refused != nil {
			l.respond(w, remote.Name)
			return
		}
		if l.Status == "success" {
			data = append(data, l.Data)
			warnings, infos = append(warnings, l.Warnings...), append(infos, l.Infos...)
			continue
		}
		warnings = append(warnings, fmt.Sprintf("partial answer, without anything of the upstream %s: %s", remote.Name, l.Error))
		if failed < 0 || !remote.Optional {
			failed = i
		}
		if !remote.Optional {
			data = nil
			break
		}
	}
	if len(data) == 0 {
		answers[failed].respond(w, f.Remotes[failed].Name)
		return
	}
	all, err := unite(r.Context(), r.URL.Path, data)
	if ended := r.Context().Err(); ended != nil {
		promapi.Failed(w, fmt.Errorf("putting the upstreams' answers together: %w", ended))
		return
	}
	if err != nil {
		promapi.Error(w, http.StatusBadGateway, promapi.Unavailable, fmt.Sprintf("the upstreams' answers to %s cannot be put together: %v", r.URL.Path, err))
		return
	}
	if list, ok := all.([]any); ok && limit > 0 && len(list) > limit {
		all = list[:limit]
		warnings = append(warnings, "results truncated due to limit")
	}
	promapi.Warned(w, all, distinct(warnings), distinct(infos))
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

func distinct(s []string) []string {
	slices.Sort(s)
	return slices.Compact(s)
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
