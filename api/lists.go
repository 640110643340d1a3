package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gorilla/mux"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/timestamp"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/api/compress"
	"github.com/promwarp/promwarp/api/encode"
	"github.com/promwarp/promwarp/api/federate"
	"github.com/promwarp/promwarp/api/forward"
	"github.com/promwarp/promwarp/api/promapi"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/selection"
)

// said answers a request as Prometheus does: with data, or an error, which is a *promapi.ParameterError if
// the request is wrong.
type said func(r *http.Request) (data any, warnings annotations.Annotations, err error)

// says has f answer.
func (a *API) says(f said) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		data, warnings, err := f(r)
		switch {
		case errors.As(err, new(*promapi.ParameterError)):
			promapi.Error(w, http.StatusBadRequest, promapi.BadData, err.Error())
		case err != nil:
			a.failed(w, err)
		default:
			warned, infos := warnings.AsStrings(r.FormValue("query"), mostAnnotations, mostAnnotations)
			promapi.Warned(w, data, warned, infos)
		}
	}
}

// local is what a running Prometheus lists and remote read cannot answer, by path below prefix, with its
// methods and how it is answered where samples come from a data directory: names and series from that,
// and of scraping, rules and exemplars that there are none, whatever is asked of them.
func (a *API) local() map[string]local {
	return map[string]local{
		"/labels":              {getPost, a.labelNames},
		"/label/{name}/values": {get, a.labelValues},
		"/series":              {getPost, a.series},
		"/query_exemplars":     {getPost, constant([]string{})},
		"/metadata":            {get, constant(map[string]string{})},
		"/targets":             {get, constant(json.RawMessage(`{"activeTargets":[],"droppedTargets":[],"droppedTargetCounts":{}}`))},
		"/targets/metadata":    {get, constant([]string{})},
		"/scrape_pools":        {get, constant(map[string][]string{"scrapePools": {}})},
		"/rules":               {get, constant(map[string][]string{"groups": {}})},
		"/alerts":              {get, constant(map[string][]string{"alerts": {}})},
		"/alertmanagers":       {get, constant(map[string][]string{"activeAlertmanagers": {}, "droppedAlertmanagers": {}})},
	}
}

type local struct {
	methods []string
	answer  said
}

// constant says the same to all.
func constant(data any) said { return state(func() any { return data }) }

// state says what is at present.
func state[T any](of func() T) said {
	return func(*http.Request) (any, annotations.Annotations, error) { return of(), nil, nil }
}

// listed is what a request for names or series asks for.
type listing struct {
	querier  storage.Querier // to be closed
	hints    storage.SelectHints
	limit    int
	matchers [][]*labels.Matcher
}

// newListing reads the parameters of a request for names or series.
func (a *API) newListing(r *http.Request) (*listing, error) {
	limit, err := promapi.Limit(r.FormValue("limit"))
	if err != nil {
		return nil, err
	}
	start, err := promapi.TimeOr(r, "start", promapi.MinTime)
	if err != nil {
		return nil, err
	}
	end, err := promapi.TimeOr(r, "end", promapi.MaxTime)
	if err != nil {
		return nil, err
	}
	l := &listing{limit: limit, hints: storage.SelectHints{Start: timestamp.FromTime(start), End: timestamp.FromTime(end), Func: "series", Limit: limit}}
	if limit > 0 && limit < math.MaxInt {
		l.hints.Limit++ // shows that there are more
	}
	if l.matchers, err = a.selectors(r); err != nil {
		return nil, &promapi.ParameterError{Err: err}
	}
	l.querier, err = a.o.Queryable.Querier(l.hints.Start, l.hints.End)
	return l, err
}

// selectors are the request's match[], none of which may match all series.
func (a *API) selectors(r *http.Request) ([][]*labels.Matcher, error) {
	all, err := a.o.Parser.ParseMetricSelectors(r.Form["match[]"])
	for _, matchers := range all {
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return m != nil && !m.Matches("") }) {
			return nil, errors.New("match[] must contain at least one non-empty matcher")
		}
	}
	return all, err
}

// labelNames lists the names of labels.
func (a *API) labelNames(r *http.Request) (any, annotations.Annotations, error) {
	return a.names(r, func(q storage.Querier, hints *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
		return q.LabelNames(r.Context(), hints, matchers...)
	})
}

// labelValues lists the values of a label, whose name may be escaped in Prometheus's own way.
func (a *API) labelValues(r *http.Request) (any, annotations.Annotations, error) {
	name, err := url.PathUnescape(mux.Vars(r)["name"])
	if strings.HasPrefix(name, "U__") {
		name = model.UnescapeName(name, model.ValueEncodingEscaping)
	}
	if err != nil || !model.UTF8Validation.IsValidLabelName(name) {
		return nil, nil, &promapi.ParameterError{Err: fmt.Errorf("invalid label name: %q", name)}
	}
	return a.names(r, func(q storage.Querier, hints *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
		return q.LabelValues(r.Context(), name, hints, matchers...)
	})
}

// names returns in order the names that ask lists for the request's selectors, each once.
func (a *API) names(r *http.Request, ask func(storage.Querier, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error)) (any, annotations.Annotations, error) {
	l, err := a.newListing(r)
	if err != nil {
		return nil, nil, err
	}
	defer l.querier.Close()
	if len(l.matchers) == 0 {
		l.matchers = [][]*labels.Matcher{nil}
	}
	all, warnings, watch := map[string]bool{}, annotations.New(), parallel.Watch{Ctx: r.Context()}
	defer watch.Leave()
	for _, matchers := range l.matchers {
		names, w, err := ask(l.querier, &storage.LabelHints{Limit: l.hints.Limit}, matchers...)
		if err != nil {
			return nil, nil, err
		}
		warnings.Merge(w)
		for _, name := range names {
			if err := watch.Err(); err != nil {
				return nil, nil, err
			}
			all[name] = true
		}
	}
	sorted := slices.SortedFunc(maps.Keys(all), parallel.Comparing(&watch, strings.Compare))
	if err := watch.Now(); err != nil {
		return nil, nil, err
	}
	names, truncated := truncate(append([]string{}, sorted...), l.limit)
	if truncated {
		warnings.Add(errTruncated)
	}
	return names, *warnings, nil
}

// series lists the labels of series.
func (a *API) series(r *http.Request) (any, annotations.Annotations, error) {
	if err := r.ParseForm(); err != nil {
		return nil, nil, &promapi.ParameterError{Err: fmt.Errorf("error parsing form values: %w", err)}
	}
	if len(r.Form["match[]"]) == 0 {
		return nil, nil, &promapi.ParameterError{Err: errors.New("no match[] parameter provided")}
	}
	l, err := a.newListing(r)
	if err != nil {
		if wrong, ok := errors.AsType[*promapi.ParameterError](err); ok && wrong.Parameter == "" {
			wrong.Parameter = "match[]"
		}
		return nil, nil, err
	}
	defer l.querier.Close()
	var sets []storage.SeriesSet
	for _, matchers := range l.matchers {
		sets = append(sets, l.querier.Select(r.Context(), len(l.matchers) > 1, &l.hints, matchers...))
	}
	set := sets[0]
	if len(sets) > 1 {
		set = storage.NewMergeSeriesSet(sets, 0, storage.ChainedSeriesMerge)
	}
	warnings := set.Warnings()
	text := []byte("[")
	for n := 0; set.Next(); n++ {
		if err := r.Context().Err(); err != nil {
			return nil, nil, err
		}
		if l.limit > 0 && n == l.limit {
			warnings.Add(errTruncated)
			break
		}
		if n > 0 {
			text = append(text, ',')
		}
		text = encode.AppendLabels(text, set.At().Labels())
	}
	return json.RawMessage(append(text, ']')), warnings, set.Err()
}

// listings routes the lists that remote read cannot answer, and the paths that only a running
// Prometheus answers.
func (a *API) listings(m *mux.Router, f *forward.Forwarder) {
	list, around := a.says, open
	only := promapi.Always(http.StatusNotFound, promapi.NotFound, "promwarp reads a data directory or stores of Thanos; only a running Prometheus answers this")
	switch len(a.o.Remotes) {
	case 0:
	case 1:
		around = shared // as the upstream compresses them
		only = f.Lists()
		list = func(said) http.HandlerFunc { return only }
	default:
		all := f.Lists()
		list = func(said) http.HandlerFunc { return all }
		only = promapi.Always(http.StatusNotFound, promapi.NotFound, "promwarp reads from several servers, each of which answers this for itself; ask them")
	}
	for path, l := range a.local() {
		a.door(m, prefix+path, l.methods, around, a.gate.List(list(l.answer), promapi.Failed))
	}
	for path, methods := range upstreamOnly {
		a.door(m, prefix+path, methods, shared, a.gate.List(only, promapi.Failed))
	}
}

// federation returns what answers /federate. Where one server is read from, that
// answers, which knows its external labels and the head of its data best; where it
// has no such door, or there are several servers or a data directory, the answer is
// made here from the samples, as Prometheus makes it.
func (a *API) federation(f *forward.Forwarder) http.HandlerFunc {
	d := &federate.Door{
		Queryable:      a.wholly(),
		Parser:         a.o.Parser,
		LookbackDelta:  a.o.LookbackDelta,
		ExternalLabels: a.o.ExternalLabels,
		Logger:         a.logger,
		NotePanic:      a.guard.NotePanic,
	}
	here := compress.Handler(func(w http.ResponseWriter, r *http.Request) {
		t, r, err := a.gate.Query(w, r, "")
		if err != nil {
			d.Failed(w, err)
			return
		}
		defer t.End()
		d.Answer(w, r, t)
	}, a.o.Memory)
	if len(a.o.Remotes) != 1 || a.o.Remotes[0].Base == nil {
		return here
	}
	return a.gate.List(f.To(a.o.Remotes[0], here), d.Failed)
}

// wholly is what is read for answers that cannot carry the warning that an upstream is missing, so that
// a client would keep a part as the whole.
func (a *API) wholly() storage.SampleAndChunkQueryable {
	return selection.For(a.o.Queryable, selection.Request{Whole: true})
}
