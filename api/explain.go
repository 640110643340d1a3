package api

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/promwarp/promwarp/api/promapi"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/resample"
	"github.com/promwarp/promwarp/selection"
)

// explain says how a query is, or with analyze=true was, evaluated. It takes
// the parameters of /query. The answer is a plan.Explanation as JSON, under
// data; with format=text, or an Accept header of text/plain, it is a tree.
func (a *API) explain(w http.ResponseWriter, r *http.Request, t *turn) {
	var p promapi.Evaluation
	var err error
	resampled := resample.Asked(r.Form)
	if !resampled {
		p, err = promapi.Parse(r, time.Now())
	}
	analyze, wrong := promapi.Bool(r, "analyze")
	if err = cmp.Or(err, wrong); err != nil {
		promapi.Error(w, http.StatusBadRequest, promapi.BadData, err.Error())
		return
	}
	if resampled {
		a.resampled.Explain(w, r, t.request.Storage, t.evaluated, analyze)
		return
	}
	text := strings.Contains(r.Header.Get("Accept"), "text/plain") && !strings.Contains(r.Header.Get("Accept"), "application/json")
	switch f := r.FormValue("format"); f {
	case "":
	case "json":
		text = false
	case "text":
		text = true
	default:
		promapi.Invalid(w, "format", errors.New("use json or text"))
		return
	}

	e, err := a.o.Engine.Explain(r.Context(), t.of(p, false), analyze)
	t.Turn.Evaluated(nil)
	if err = promapi.Plain(err); err != nil {
		a.guard.NotePanic(err)
		code, typ := promapi.Classify(err)
		if typ == promapi.BadData || (typ == promapi.Execution && !analyze) {
			promapi.Invalid(w, "query", err)
			return
		}
		promapi.Error(w, code, typ, err.Error())
		return
	}
	t.complete(e)
	if text {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, e.Tree())
		return
	}
	promapi.Data(w, e)
}

// complete adds to the explanation of a query what getting its samples took.
func (t *turn) complete(e *plan.Explanation) {
	if e.Cache = cacheWork(&t.Stats); e.Cache != nil {
		e.Cache.Timeline.Add(e.Ahead)
	}
	if e.Analyzed {
		e.Waited += t.Waited.Microseconds()
		for _, u := range t.Stats.Upstreams() {
			w := plan.UpstreamWork{Name: u.Name(), Cache: cacheWork(u)}
			if err := u.Err(); err != nil {
				w.Failure = err.Error()
			}
			e.Upstreams = append(e.Upstreams, w)
		}
	}
	e.Settings = t.api.o.Known()
}

// cacheWork is what the cache did for a query, or nil if it was not asked.
func cacheWork(s *selection.Stats) *plan.CacheWork {
	w := plan.CacheWork{
		TilesKept:     s.TilesHit.Load(),
		TilesSubsumed: s.TilesSubsumed.Load(),
		TilesFetched:  s.TilesFetched.Load(),
		TilesRead:     s.TilesRead.Load(),
		Fetches:       s.Fetches.Load(),
		SharedFetches: s.SharedFetches.Load(),
		FetchedBytes:  s.FetchedBytes.Load(),
		WaitMicros:    s.FetchNanos.Load() / 1000,
		Timeline:      timeline(s),
	}
	if w == (plan.CacheWork{}) {
		return nil
	}
	return &w
}

// timeline is the requests to the upstream, or nil if there were none.
func timeline(s *selection.Stats) *plan.Timeline {
	all, more := s.Exchanges()
	if len(all) == 0 {
		return nil
	}
	all = slices.SortedStableFunc(slices.Values(all), func(a, b selection.Exchange) int { return a.Sent.Compare(b.Sent) })
	t := &plan.Timeline{Began: all[0].Sent, Unlisted: more}
	for _, r := range all {
		first := r.FirstByte
		if first.IsZero() {
			first = r.Ended
		}
		t.Requests = append(t.Requests, plan.Request{
			From: r.MinT, To: r.MaxT, Sent: t.Since(r.Sent), FirstByte: t.Since(first), Ended: t.Since(r.Ended),
			Bytes: r.Bytes, Series: r.Series, Samples: r.Samples, Outcome: r.Outcome,
		})
		at := 0
		for _, before := range all {
			if !before.Sent.After(r.Sent) && before.Ended.After(r.Sent) {
				at++
			}
		}
		t.AtOnce = max(t.AtOnce, at)
	}
	return t
}
