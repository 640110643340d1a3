package forward

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/api/promapi"
	"github.com/promwarp/promwarp/engine/compare"
	"github.com/promwarp/promwarp/internal/memory"
)

// Where the external labels of an upstream are kept, queries match them as if they were
// stored, and so must the lists of labels and series that the upstream answers, which are
// without them.

// keptLabels returns what has next, which forwards to remote, answer lists as if its series
// had the labels remote.Kept where they lack them.
func (f *Forwarder) keptLabels(remote *Remote, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		l := &keptList{ext: remote.Kept(), next: next, parser: f.Parser, limit: f.MaxListBytes, lease: f.Memory.Lease(memory.Answers)}
		defer l.lease.Release()
		kind, name := listKind(r.URL.Path)
		if l.ext.IsEmpty() || kind == "" {
			next(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			promapi.FormError(w, err)
			return
		}
		form := r.Clone(r.Context())
		form.Body = io.NopCloser(bytes.NewReader(body))
		if err := form.ParseForm(); err != nil {
			promapi.FormError(w, err)
			return
		}
		answer, list, err := l.answer(r, kind, name, form.Form)
		switch {
		case err != nil:
			// The server says what is wrong with it.
			r.Body = io.NopCloser(bytes.NewReader(body))
			next(w, r)
		case answer.recorded.refused != nil, answer.Status != "success" && answer.recorded.code < http.StatusBadRequest:
			answer.respond(w, remote.Name) // it is too large, or not whole
		case answer.Status != "success":
			maps.Copy(w.Header(), answer.recorded.header)
			w.WriteHeader(answer.recorded.code)
			_, _ = w.Write(answer.recorded.body.Bytes())
		default:
			promapi.Warned(w, list, answer.Warnings, answer.Infos)
		}
	}
}

// listKind says which of the three lists of labels and series a path is: labels, values,
// of the label name, or series.
func listKind(path string) (kind, name string) {
	switch {
	case path == Prefix+"/labels":
		return "labels", ""
	case path == Prefix+"/series":
		return "series", ""
	case strings.HasPrefix(path, Prefix+"/label/") && strings.HasSuffix(path, "/values"):
		name = strings.TrimSuffix(strings.TrimPrefix(path, Prefix+"/label/"), "/values")
		if strings.HasPrefix(name, "U__") {
			name = model.UnescapeName(name, model.ValueEncodingEscaping)
		}
		return "values", name
	}
	return "", ""
}

// keptList answers one request for a list.
type keptList struct {
	ext    labels.Labels
	next   http.HandlerFunc
	parser parser.Parser
	limit  int64 // of bytes of an answer
	lease  *memory.Lease
}

func (l *keptList) answer(r *http.Request, kind, name string, form url.Values) (*listAnswer, any, error) {
	stored, err := l.stored(form["match[]"])
	if err != nil {
		return nil, nil, err
	}
	a := l.ask(r, form, stored)
	if a.Status != "success" {
		return a, nil, nil
	}
	if kind == "series" {
		var all []map[string]string
		if err := json.Unmarshal(a.Data, &all); err != nil {
			return nil, nil, err
		}
		for _, s := range all {
			l.ext.Range(func(e labels.Label) {
				if s[e.Name] == "" {
					s[e.Name] = e.Value
				}
			})
		}
		return a, all, nil
	}
	var all []string
	if err := json.Unmarshal(a.Data, &all); err != nil {
		return nil, nil, err
	}
	switch {
	case kind == "labels" && len(all) > 0:
		l.ext.Range(func(e labels.Label) { all = append(all, e.Name) })
	case kind == "values" && l.ext.Has(name):
		lacking := l.lacking(r, form, name)
		if lacking.Status != "success" {
			return lacking, nil, nil
		}
		// One series is enough: that there are more is no warning of this answer.
		a.Warnings = append(a.Warnings, slices.DeleteFunc(lacking.Warnings, func(text string) bool { return text == truncated })...)
		if len(lacking.Data) > len("[]") {
			all = append(all, l.ext.Get(name))
		}
	}
	slices.Sort(all)
	return a, slices.Compact(all), nil
}

// lacking asks the upstream for a series that matches and lacks a label of its own. The answer
// is empty where none can.
func (l *keptList) lacking(r *http.Request, form url.Values, name string) *listAnswer {
	none := &listAnswer{Reply: compare.Reply{Status: "success"}}
	selectors := form["match[]"]
	if len(selectors) == 0 {
		selectors = []string{`{__name__!=""}`}
	}
	var lacking []string
	for _, s := range selectors {
		ms, err := l.parser.ParseMetricSelector(s)
		if err != nil {
			return none
		}
		if slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return m.Name == name && !m.Matches(l.ext.Get(name)) }) {
			continue
		}
		ms = slices.DeleteFunc(ms, func(m *labels.Matcher) bool { return m.Name == name })
		for _, ms := range l.split(append(ms, labels.MustNewMatcher(labels.MatchEqual, name, "")), name) {
			lacking = append(lacking, selectorText(ms))
		}
	}
	if len(lacking) == 0 {
		return none
	}
	form = url.Values{"start": form["start"], "end": form["end"], "limit": {"1"}}
	r = r.Clone(r.Context())
	r.URL.Path, r.URL.RawPath = Prefix+"/series", ""
	return l.ask(r, form, lacking)
}

// ask asks the upstream with other selectors.
func (l *keptList) ask(r *http.Request, form url.Values, selectors []string) *listAnswer {
	values := url.Values{}
	for k, v := range form {
		if k != "match[]" && len(v) > 0 {
			values[k] = v
		}
	}
	if len(selectors) > 0 {
		values["match[]"] = selectors
	}
	r = r.Clone(r.Context())
	r.Method, r.ContentLength = http.MethodGet, 0
	r.Header.Del("Content-Type")
	r.Header.Del("Content-Length")
	r.URL.RawQuery = values.Encode()
	return ask(l.next, r, nil, l.lease, l.limit)
}

// stored returns selectors that match by the labels that are stored what the given ones
// match with external labels.
func (l *keptList) stored(selectors []string) (out []string, err error) {
	for _, s := range selectors {
		ms, err := l.parser.ParseMetricSelector(s)
		if err != nil || !slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return !m.Matches("") }) {
			return nil, errors.New("not a selector") // which the server refuses, in its own words
		}
		for _, ms := range l.split(ms, "") {
			out = append(out, selectorText(ms))
		}
	}
	return out, nil
}

// split divides what ms match by which of the external labels that they name, all but one,
// series have of their own.
func (l *keptList) split(ms []*labels.Matcher, but string) [][]*labels.Matcher {
	out := [][]*labels.Matcher{nil}
	l.ext.Range(func(e labels.Label) {
		var on []*labels.Matcher
		for _, m := range ms {
			if m.Name == e.Name && e.Name != but {
				on = append(on, m)
			}
		}
		if len(on) == 0 {
			return
		}
		var next [][]*labels.Matcher
		for _, o := range out {
			own := append(slices.Clone(o), on...)
			next = append(next, append(own, labels.MustNewMatcher(labels.MatchNotEqual, e.Name, "")))
			if !slices.ContainsFunc(on, func(m *labels.Matcher) bool { return !m.Matches(e.Value) }) {
				next = append(next, append(slices.Clone(o), labels.MustNewMatcher(labels.MatchEqual, e.Name, "")))
			}
		}
		out = next
	})
	for i, o := range out {
		for _, m := range ms {
			if m.Name == but || !l.ext.Has(m.Name) {
				o = append(o, m)
			}
		}
		out[i] = o
	}
	return out
}

// selectorText is a selector as the API takes it, which wants a matcher that does not
// match everything.
func selectorText(ms []*labels.Matcher) string {
	if !slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return !m.Matches("") }) {
		ms = append(slices.Clip(ms), labels.MustNewMatcher(labels.MatchNotEqual, model.MetricNameLabel, ""))
	}
	texts := make([]string, len(ms))
	for i, m := range ms {
		texts[i] = m.String()
	}
	return "{" + strings.Join(texts, ",") + "}"
}
