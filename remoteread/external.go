package remoteread

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage/remote"

	"github.com/promwarp/promwarp/selection"
)

// A Prometheus adds its external labels to every series that it sends by remote read
// and that lacks them. It matches series before that, by the labels that it has stored,
// with one exception: a matcher that sets an external label equal to the value that it
// has is made to match series that lack it. Nobody who asks that Prometheus for a query
// sees any of this, so a client with an External undoes it:
//
//   - An equality matcher on an external label becomes a regular expression, which is
//     matched as it is.
//   - Each request asks for the series that have none of the external labels of their
//     own; these are taken off. The same request asks for series that do have one, of
//     which there are nearly always none:
//
//     query 0  {x, cluster="", room=""}   series to take cluster and room off
//     query 1  {x, cluster!=""}           must be empty
//     query 2  {x, room!=""}              must be empty
//     query 3  {witness}                  see witness.go
//
//   - Where one is not empty, series that have that label and those that lack it are
//     fetched by requests of their own, so that each is known to be one or the other.
//   - Every series of query 0 must have all of the labels with the values that they are
//     known to have. Where the witness does not testify to that, the labels are read again
//     after the store has begun to answer. If they have changed, the fetch starts anew.

// External tells which labels the store adds to the series that it sends.
type External interface {
	// Labels returns the labels as they were known last, and finds them out if they
	// were not yet.
	Labels(ctx context.Context) (labels.Labels, error)
	// Confirm returns what the labels are at some time after the call.
	Confirm(ctx context.Context) (labels.Labels, error)
	// MayChange reports whether Confirm may return others than Labels.
	MayChange() bool
}

const (
	// maxRelabelled is how often a fetch starts anew because the store's external labels
	// have changed.
	maxRelabelled = 10
	// maxUnlike is how often it does though they are said to be the same.
	maxUnlike = 2
)

// errRelabelled is for an answer that was made with other external labels than known.
var errRelabelled = errors.New("the store's external labels are not those that were known")

// clashError is for an answer with series that have an external label of their own.
type clashError struct{ label string }

func (e *clashError) Error() string {
	return fmt.Sprintf("some series have a label %q of their own", e.label)
}

// view is how the series of one fetch are asked for and what becomes of their labels.
type view struct {
	all    labels.Labels          // the external labels when the fetch began
	keep   bool                   // whether series keep them
	asked  []*labels.Matcher      // what all series must match as they are shown
	ms     []*prompb.LabelMatcher // what all series must match by the labels that are stored
	absent []string               // external labels that the series are known to lack
	open   []string               // external labels of which that is to be found out
	// own are matchers that series with an open label of their own must match beside.
	own map[string][]*prompb.LabelMatcher
	// witness is asked for in each request; nil for none.
	witness *labels.Labels
}

// newView is the view on what ms match in a store with external labels ext. Where they
// are kept ms match series with them, otherwise without.
func newView(ext labels.Labels, keep bool, ms []*labels.Matcher) (*view, error) {
	v := &view{all: ext, keep: keep, asked: ms, own: map[string][]*prompb.LabelMatcher{}}
	wire, err := remote.ToLabelMatchers(ms)
	if err != nil {
		return nil, err
	}
	literal(wire, ext)
	only := map[string]bool{} // labels that series must have of their own
	for _, m := range ms {
		seen := "" // the value that a series without the label shows
		if keep {
			seen = ext.Get(m.Name)
		}
		if ext.Has(m.Name) && !m.Matches(seen) {
			only[m.Name] = true
		}
	}
	ext.Range(func(l labels.Label) {
		if !only[l.Name] {
			v.open = append(v.open, l.Name)
		} else if keep {
			wire = with(wire, prompb.LabelMatcher_NEQ, l.Name, "")
		}
	})
	for _, m := range wire {
		if keep && slices.Contains(v.open, m.Name) {
			v.own[m.Name] = append(v.own[m.Name], m)
		} else {
			v.ms = append(v.ms, m)
		}
	}
	return v, nil
}

// literal changes ms such that the store matches each by the labels that it has stored.
func literal(ms []*prompb.LabelMatcher, ext labels.Labels) {
	for i, m := range ms {
		if m.Type == prompb.LabelMatcher_EQ && m.Value != "" && ext.Has(m.Name) {
			ms[i] = &prompb.LabelMatcher{Type: prompb.LabelMatcher_RE, Name: m.Name, Value: regexp.QuoteMeta(m.Value)}
		}
	}
}

// with returns ms and one matcher more.
func with(ms []*prompb.LabelMatcher, typ prompb.LabelMatcher_Type, name, value string) []*prompb.LabelMatcher {
	return append(slices.Clip(ms), &prompb.LabelMatcher{Type: typ, Name: name, Value: value})
}

// queries returns the queries of a request for what matches ms, which are the view's and
// perhaps more: the first for the series, the others for series that have one of the
// open labels of their own, in the order of those. A nil view has one query.
func (v *view) queries(ms []*prompb.LabelMatcher) [][]*prompb.LabelMatcher {
	if !v.adds() {
		return [][]*prompb.LabelMatcher{ms}
	}
	first := ms
	for _, names := range [][]string{v.absent, v.open} {
		for _, name := range names {
			first = with(first, prompb.LabelMatcher_EQ, name, "")
		}
	}
	out := [][]*prompb.LabelMatcher{first}
	for _, name := range v.open {
		out = append(out, v.having(name, ms))
	}
	return out
}

// having returns ms and matchers for series that have an open label of their own.
func (v *view) having(name string, ms []*prompb.LabelMatcher) []*prompb.LabelMatcher {
	return with(append(slices.Clip(ms), v.own[name]...), prompb.LabelMatcher_NEQ, name, "")
}

// split returns the views on the series that lack an open label and on those that have
// it.
func (v *view) split(name string) (lack, have *view) {
	rest := slices.DeleteFunc(slices.Clone(v.open), func(n string) bool { return n == name })
	l, h := *v, *v
	l.absent, l.open = append(slices.Clip(v.absent), name), rest
	h.ms, h.open = v.having(name, v.ms), rest
	return &l, &h
}

// clash is the error for series in the answer to query i of the view's queries.
func (v *view) clash(i int64) error {
	if i < 1 || i > int64(len(v.open)) {
		return fmt.Errorf("the answer is for query %d of a request with %d", i, 1+len(v.open))
	}
	return &clashError{v.open[i-1]}
}

// adds reports whether the store adds labels to the series.
func (v *view) adds() bool { return v != nil && len(v.absent)+len(v.open) > 0 }

// strip takes the labels off that the store has added to a series, or leaves them if they
// are to be kept. It may change ls. It fails if they are not there.
func (v *view) strip(ls []wireLabel) ([]wireLabel, error) {
	found := 0
	out := ls[:0]
	for _, l := range ls {
		if !slices.Contains(v.absent, str(l.name)) && !slices.Contains(v.open, str(l.name)) {
			out = append(out, l)
			continue
		}
		if v.all.Get(str(l.name)) != str(l.value) {
			return nil, errRelabelled
		}
		found++
		if v.keep {
			out = append(out, l)
		}
	}
	if found != len(v.absent)+len(v.open) {
		return nil, errRelabelled
	}
	return out, nil
}

// fetchViewed fetches what matchers select, as the external labels of the store are to be
// seen.
func (c *Client) fetchViewed(ctx context.Context, mint, maxt int64, matchers []*labels.Matcher) (*selection.Selection, error) {
	if len(matchers) == 0 {
		return selection.Empty(), nil // as a Prometheus answers; with matchers of ours it would send all
	}
	unlike := 0
	for n := range maxRelabelled {
		ext, err := c.external.Labels(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil, c.canceled(ctx)
			}
			return nil, c.content(&unconfirmedError{err})
		}
		v, err := newView(ext, c.keepExternal, matchers)
		if err != nil {
			return nil, fmt.Errorf("remote read from %s: %w", c.upstream, err)
		}
		if c.external.MayChange() {
			v.witness = c.witness.of(ext)
		}
		sel, err := c.fetchView(ctx, mint, maxt, v)
		if err == nil && c.external.MayChange() {
			c.seekWitness()
		}
		var unasked *unaskedError
		foreign := errors.As(err, &unasked) && unasked.external
		if !foreign && !errors.Is(err, errRelabelled) {
			return sel, err
		}
		now, confirmErr := c.external.Confirm(ctx)
		if confirmErr != nil {
			return nil, c.content(&unconfirmedError{confirmErr})
		}
		if foreign && labels.Equal(now, ext) {
			return nil, err
		}
		if labels.Equal(now, ext) {
			unlike++
		}
		if unlike > maxUnlike {
			break
		}
		select {
		case <-time.After(time.Duration(n*n) * time.Millisecond):
		case <-ctx.Done():
			return nil, c.canceled(ctx)
		}
	}
	return nil, c.fail(outcomeRelabelled, false, errRelabelled,
		"check that the store's /api/v1/status/config is that of the server that answers remote read, or set --"+FlagExternalLabels)
}

// fetchView fetches the series of a view, apart where some have an external label of
// their own.
func (c *Client) fetchView(ctx context.Context, mint, maxt int64, v *view) (*selection.Selection, error) {
	key := selectorKey(v.ms)
	name, known := c.clashes.get(key)
	if !known || !slices.Contains(v.open, name) {
		sel, err := c.fetchSpans(ctx, piece{span: span{mint, maxt}, ms: v.ms, matchers: v.asked, view: v})
		var clash *clashError
		if !errors.As(err, &clash) {
			return sel, err
		}
		name = clash.label
		c.clashes.add(key, name)
	}
	lack, have := v.split(name)
	a, err := c.fetchView(ctx, mint, maxt, lack)
	if err != nil {
		return nil, err
	}
	b, err := c.fetchView(ctx, mint, maxt, have)
	if err != nil {
		return nil, err
	}
	sel, err := c.join(ctx, a, b)
	if err != nil {
		return nil, err
	}
	if sel.NumSeries() < a.NumSeries()+b.NumSeries() {
		return nil, c.fail(outcomeMalformed, false,
			fmt.Errorf("series that differ only in having the external label %q of their own become one when it is kept", name),
			"have external labels taken off: --"+FlagExternalLabels+"=auto")
	}
	return sel, nil
}
