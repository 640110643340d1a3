package remoteread

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/util/annotations"
	"golang.org/x/sync/errgroup"

	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/remoteread/answer"
	"github.com/promwarp/promwarp/selection"
)

// Fetch returns what matchers select from mint to maxt (ms since the epoch,
// both included), as the external labels of the store are to be seen. Chunks are whole, so samples
// outside the range may come along. On an error there is no selection; it is an *Error wherever the
// store is involved. Remote read carries no warnings; those of a store of Thanos are annotations.
func (c *Client) Fetch(ctx context.Context, mint, maxt int64, matchers []*labels.Matcher, f selection.Fetch) (*selection.Selection, annotations.Annotations, error) {
	if mint > maxt || len(matchers) == 0 || !c.Answers(matchers) { // without matchers of others those of ours would send all
		return selection.Empty(), nil, nil
	}
	if ctx.Err() != nil {
		return nil, nil, c.canceled(ctx)
	}
	unlike := 0
	for n := range maxRelabelled {
		q, ext, err := c.pieceFor(ctx, matchers)
		if err != nil {
			return nil, nil, err
		}
		q.span, q.fetch, q.warnings = span{mint, maxt}, f, &warnings{}
		sel, err := c.fetchApart(ctx, q)
		var unasked *answer.UnaskedError
		foreign := errors.As(err, &unasked) && unasked.External
		if c.external == nil || !foreign && !errors.Is(err, answer.ErrRelabelled) {
			return sel, q.warnings.all, err
		}
		now, confirmErr := c.external.Confirm(ctx)
		if confirmErr != nil {
			return nil, nil, c.content(&unconfirmedError{confirmErr})
		}
		if same := labels.Equal(now, ext); same && foreign {
			return nil, nil, err
		} else if same {
			unlike++
		}
		if unlike > maxUnlike {
			break
		}
		select {
		case <-time.After(time.Duration(n*n) * time.Millisecond):
		case <-ctx.Done():
			return nil, nil, c.canceled(ctx)
		}
	}
	return nil, nil, c.fail(outcomeRelabelled, false, answer.ErrRelabelled,
		"check that the store's /api/v1/status/config is that of the server that answers remote read, or set --"+FlagExternalLabels)
}

// fetchApart fetches the series of a piece of any length, apart where some have an external label of
// their own.
func (c *Client) fetchApart(ctx context.Context, q piece) (*selection.Selection, error) {
	name := q.view.Clashing(q.fetch.Expected.Series)
	if name == "" {
		sel, err := c.fetchSpans(ctx, q)
		var clash *answer.ClashError
		if !errors.As(err, &clash) {
			return sel, err
		}
		name = clash.Label
	}
	lack, have := q.view.Split(name)
	q.view, q.ms = lack, lack.Matchers
	a, err := c.fetchApart(ctx, q)
	if err != nil {
		return nil, err
	}
	q.view, q.ms = have, have.Matchers
	b, err := c.fetchApart(ctx, q)
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

// fetchSpans fetches a piece of any length, in several requests at once: in pieces that are short
// enough, or, within one such piece, divided where many series are expected. A nil view leaves series
// as they come.
func (c *Client) fetchSpans(ctx context.Context, whole piece) (*selection.Selection, error) {
	var pieces []piece
	spans := split(whole.mint, whole.maxt, c.pieceOf(whole.span))
	if len(spans) > 1 {
		whole.fetch.Expected.Samples = 0 // of as many none is asked for as samples
		for _, s := range spans {
			p := whole
			p.span = s
			pieces = append(pieces, p)
		}
	} else {
		for _, ms := range divide(whole.fetch.Expected).matchers(whole.ms) {
			p := whole
			p.ms, p.fetch.Came = ms, nil
			pieces = append(pieces, p)
		}
	}
	all := c.tally(ctx, whole.fetch.Progress)
	if len(pieces) == 1 {
		return c.fetchPiece(ctx, pieces[0], all)
	}
	parts := make([]*selection.Selection, len(pieces))
	// The group's limit keeps the number of goroutines small; the number of
	// requests is limited for the client as a whole.
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(max(c.concurrency, maxParts))
	for i, p := range pieces {
		if gctx.Err() != nil {
			break
		}
		g.Go(func() error {
			return parallel.Rescue(func() (err error) {
				if parts[i], err = c.fetchPiece(gctx, p, all); err == nil && p.fetch.Came != nil {
					p.fetch.Came(selection.Part{Sel: parts[i], MinT: p.mint, MaxT: p.maxt})
				}
				return err
			})
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, c.canceled(ctx)
	}
	return c.join(ctx, parts...)
}

// join joins what the parts of a fetch brought.
func (c *Client) join(ctx context.Context, parts ...*selection.Selection) (*selection.Selection, error) {
	sel, err := selection.Join(ctx, parts...)
	if err == nil {
		return sel, nil
	}
	if ctx.Err() != nil {
		return nil, c.canceled(ctx)
	}
	return nil, c.malformed(err)
}

// Answers reports whether the selector contains the required matchers. As in
// Prometheus, one that does not selects nothing here.
func (c *Client) Answers(matchers []*labels.Matcher) bool {
	for name, value := range c.required {
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool {
			return m.Type == labels.MatchEqual && m.Name == string(name) && m.Value == string(value)
		}) {
			return false
		}
	}
	return true
}

// span is a time range in ms since the epoch, both ends included.
type span struct{ mint, maxt int64 }

// length is the span's length in ms, less one.
func (s span) length() uint64 { return uint64(s.maxt) - uint64(s.mint) }

const (
	// leastPieces is how many pieces, for each request that may be in flight, a range must be
	// longer than for its pieces to be longer than Options.Piece.
	leastPieces = 2
	// growPiece is how many times as long pieces become at once, and growths how often. So they are
	// of 6, 18 or 54 h. A Prometheus compacts its blocks to the same lengths, and reads all that a
	// block's index says of a series for each request that the block has a part of.
	growPiece, growths = 3, 2
)

// pieceOf returns how long the pieces of s are, in ms.
func (c *Client) pieceOf(s span) int64 {
	length := c.piece
	for range growths {
		if s.length() < uint64(length)*growPiece*leastPieces*uint64(c.concurrency) {
			break
		}
		length *= growPiece
	}
	return length
}

// maxPieces is about how many pieces a range is split into at most. Ranges such
// as "everything" come as far-off ends, and would make pieces without end.
const maxPieces = 256

// split cuts mint to maxt at the multiples of length (ms).
func split(mint, maxt, length int64) []span {
	pieceAt := func(t int64) int64 { // the number of the piece that t is in
		if t%length < 0 {
			return t/length - 1
		}
		return t / length
	}
	// Differences as unsigned numbers do not overflow.
	n := uint64(pieceAt(maxt)) - uint64(pieceAt(mint))
	if n >= maxPieces {
		if k := n/maxPieces + 1; k > uint64(math.MaxInt64/length) {
			length = math.MaxInt64
		} else {
			length *= int64(k)
		}
	}
	spans := make([]span, 0, min(n, maxPieces)+1)
	for {
		left := uint64(length - 1 - (mint - pieceAt(mint)*length))
		if uint64(maxt)-uint64(mint) <= left {
			return append(spans, span{mint, maxt})
		}
		end := mint + int64(left)
		spans = append(spans, span{mint, end})
		mint = end + 1
	}
}

// Probe asks the store for the newest samples of up, once, to see whether it has remote read; see
// NoRemoteRead. One of the series becomes the witness of the external labels, if they may change.
func (c *Client) Probe(ctx context.Context) error {
	var ext labels.Labels
	if c.external != nil {
		var err error
		if ext, err = c.external.Labels(ctx); err != nil {
			return err
		}
	}
	up := []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, "up")}
	v, err := answer.NewView(ext, labels.EmptyLabels(), up)
	if err != nil {
		return err
	}
	for _, name := range v.Open {
		v, _ = v.Split(name) // none with external labels of their own
	}
	now := time.Now().UnixMilli()
	q := piece{span: span{now - answer.WitnessRange/2, now}, ms: v.Matchers, matchers: up}
	if c.external != nil {
		q.view = v
	}
	r := &ride{ctx: ctx, q: q, of: c.tally(ctx, nil)}
	c.inTurn(ctx, r)
	if r.err != nil {
		return r.err
	}
	for _, l := range r.sel.Series() {
		if answer.FitsWitness(l) {
			l = l.Copy()
			c.witness.Store(&l)
			break
		}
	}
	return nil
}

// Witnessed reports whether a witness of the external labels is known or of no use.
func (c *Client) Witnessed() bool {
	return c.external == nil || !c.external.MayChange() || c.witness.Load() != nil
}

// NoRemoteRead reports whether err, of a fetch or a probe, says that what answers at the
// URL is not remote read.
func NoRemoteRead(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.StatusCode {
	case http.StatusOK:
		return e.outcome == outcomeContentType
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone, http.StatusNotImplemented:
		return true
	}
	return false
}

// A store that streams chunks can also send times and values. With few samples of each
// series that is less work for it, and a third to a fifth of the bytes, as labels are
// compressed there; with more of them chunks are smaller and faster.
const (
	// samplesFirst is the most samples of a series, about, with which samples are asked
	// for before chunks. A Prometheus took, with 1408 series of samples 15 s apart, 6.8 ms
	// and 54 kB for 4 of each as samples, 12 ms and 249 kB as chunks; for 12 of each 12 ms
	// and 132 kB, 11 ms and 262 kB; for 20 of each 14 ms and 218 kB, 10 ms and 274 kB.
	samplesFirst = 12
	// samplesFirstInAll is the most samples of all series, a fiftieth of what a
	// Prometheus allows in its default configuration (5e7). It puts all of them into one
	// message before it sends the first.
	samplesFirstInAll = 1_000_000
	// noSamplesFor is for how long no samples are asked for once they were of no use.
	noSamplesFor = 10 * time.Minute
	// sampleBytes is about how many bytes a sample takes in such an answer.
	sampleBytes = 18
)

// piece is what one request asks for.
type piece struct {
	span
	samples  bool                   // whether samples are preferred to chunks
	ms       []*prompb.LabelMatcher // that the store is to match
	matchers []*labels.Matcher      // that the series match which are to come out of it
	view     *answer.View           // or nil
	fetch    selection.Fetch        // that it is a part of
	warnings *warnings              // of the whole fetch; nil where none can come
}

// prefersSamples reports whether what is expected had better come as samples, if that is certain to be
// the same.
func (c *Client) prefersSamples(e selection.Expectation) bool {
	if e.NoSamples != nil && time.Now().UnixNano() < e.NoSamples.Load() {
		return false
	}
	if c.chunksAlone.Load() || e.Samples <= 0 || e.Samples > samplesFirst || len(e.Series) == 0 || len(e.Series) > samplesFirstInAll/e.Samples {
		return false
	}
	size := int64(len(e.Series)) * int64(e.Samples) * sampleBytes
	for _, l := range e.Series {
		size += 2 * int64(l.ByteSize()) // there is more around labels than here
	}
	return size <= c.answers.MaxAnswer/2
}

// chunksMayDo reports whether err, of a question that preferred samples, may not be that
// of one that prefers chunks: the store refuses it, as it does where there are too many
// samples, or its answer is not usable.
func chunksMayDo(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.outcome {
	case outcomeUnfit, outcomeTooLarge, outcomeMalformed:
		return true
	case outcomeStatus4xx:
		switch e.StatusCode {
		case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone:
			return false
		}
		return e.StatusCode >= 400
	}
	return false
}

// tally counts what the pieces of one fetch bring, all together.
type tally struct {
	limit int64        // bytes
	room  func() error // waits for the process to have memory for more
	told  *selection.Progress
	bytes atomic.Int64 // of chunks and labels so far
	came  atomic.Pointer[size]
}

// size is that of the piece that came last.
type size struct {
	length        uint64 // ms, less one
	chunks, bytes float64
}

// tally returns one for a fetch.
func (c *Client) tally(ctx context.Context, told *selection.Progress) *tally {
	room := func() error { return c.memory.Room(ctx, memory.Fetched) }
	return &tally{limit: c.answers.MaxBytes, room: room, told: told}
}

// A store answers a request on one core, and nearly all it does for few samples it does
// for each series. So a fetch that is likely to bring many series is divided by the
// values of a label into requests of about as many series each:
//
//	{instance=~"a|b"}, {instance=~"c|d"}, {instance!~"a|b|c|d"}
//
// Whatever the series are by now, each matches exactly one of them.

const (
	// partSeries is the fewest series that are likely in a part. A Prometheus takes 4 to
	// 7 us for each, and less than 0.5 ms for a further request.
	partSeries = 800
	// maxParts is the most parts of a fetch. By default a client may always have as many in
	// flight.
	maxParts = leastConcurrency
	// maxDivideBytes is the most bytes of the values in the requests of a fetch.
	maxDivideBytes = 16 << 10
	// maxDivideValues is the most values of a label that a fetch is divided by.
	maxDivideValues = 256
	// divideSample is of how many series about the labels are looked at, where there are
	// more.
	divideSample = 1024
)

// targetLabels say together what was scraped, in each Prometheus. A fetch is divided by
// one of them if that is possible, the last first, so that what came with one scrape comes
// with one answer.
var targetLabels = []string{"job", "instance"}

// division is how fetches of a selector are divided: the regular expressions that match
// the values of a label in all parts but the last.
type division struct {
	label  string
	values []string
}

// matchers returns ms with those of each part.
func (d division) matchers(ms []*prompb.LabelMatcher) [][]*prompb.LabelMatcher {
	if len(d.values) == 0 {
		return [][]*prompb.LabelMatcher{ms}
	}
	var out [][]*prompb.LabelMatcher
	for _, v := range d.values {
		out = append(out, answer.With(ms, prompb.LabelMatcher_RE, d.label, v))
	}
	return append(out, answer.With(ms, prompb.LabelMatcher_NRE, d.label, strings.Join(d.values, "|")))
}

// divide returns how to divide a fetch by what it is expected to bring.
func divide(e selection.Expectation) division {
	series := e.Series
	n := min(len(series)/partSeries, maxParts)
	if e.Ahead || n < 2 {
		return division{}
	}
	counts := map[string]map[string]int{}
	looked := 0
	// Steps of one length might meet the same values of a label again and again.
	steps := rand.New(rand.NewPCG(1, 2))
	apart := max(1, len(series)/divideSample)
	for i := 0; i < len(series); i += 1 + steps.IntN(2*apart-1) {
		looked++
		series[i].Range(func(l labels.Label) {
			if counts[l.Name] == nil {
				counts[l.Name] = map[string]int{}
			}
			counts[l.Name][l.Value]++
		})
	}
	// Those of few values make the shortest requests.
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(
			cmp.Compare(slices.Index(targetLabels, b), slices.Index(targetLabels, a)),
			cmp.Compare(len(counts[a]), len(counts[b])),
			cmp.Compare(a, b),
		)
	})
	for _, name := range names {
		if values := partition(counts[name], looked, n); values != nil {
			return division{name, values}
		}
	}
	return division{}
}

// partition divides values that occur as often as counted, all times together, into n
// parts that occur about as often, and returns regular expressions for all but the
// last; or nil if there is no such division. What has no value is of the last part.
func partition(counts map[string]int, all, n int) []string {
	if len(counts) < n || len(counts) > maxDivideValues {
		return nil
	}
	values := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	parts, loads := make([][]string, n), make([]int, n)
	loads[n-1] = all
	for _, c := range counts {
		loads[n-1] -= c
	}
	for _, v := range values {
		least := slices.Index(loads, slices.Min(loads))
		parts[least] = append(parts[least], regexp.QuoteMeta(v))
		loads[least] += counts[v]
	}
	// A part of half as much again takes as long as one fewer part would.
	if slices.Max(loads)*2*n > all*3 {
		return nil
	}
	var out []string
	size := 0
	for _, p := range parts[:n-1] {
		out = append(out, strings.Join(p, "|"))
		size += 2 * len(out[len(out)-1])
	}
	if size > maxDivideBytes {
		return nil
	}
	return out
}
