package remoteread

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/remoteread/answer"
	"github.com/promwarp/promwarp/selection"
)

// labelledStore is a Prometheus whose external labels can be changed. It implements
// External for a client that has a look at its configuration.
type labelledStore struct {
	*teststorage.TestStorage
	external  atomic.Pointer[labels.Labels]
	known     atomic.Pointer[labels.Labels] // as a client read them last
	url       string
	requests  *atomic.Int64
	confirmed atomic.Int64 // how often Confirm was called
	around    func()       // called before and after each request is answered; may be nil
}

func newLabelledStore(t testing.TB, frame int, external labels.Labels) *labelledStore {
	s := &labelledStore{TestStorage: teststorage.New(t)}
	s.external.Store(&external)
	h := remote.NewReadHandler(promslog.NewNopLogger(), nil, s.TestStorage, func() config.Config {
		var c config.Config
		c.GlobalConfig.ExternalLabels = *s.external.Load()
		return c
	}, 0, 10, frame)
	s.url, s.requests = server(t, func(w http.ResponseWriter, r *http.Request, _ int64) {
		if s.around != nil {
			s.around()
			defer s.around()
		}
		h.ServeHTTP(w, r)
	})
	return s
}

func (s *labelledStore) Labels(context.Context) (labels.Labels, error) {
	if l := s.known.Load(); l != nil {
		return *l, nil
	}
	return s.Confirm(context.Background())
}

func (s *labelledStore) MayChange() bool { return true }

func (s *labelledStore) Confirm(context.Context) (labels.Labels, error) {
	s.confirmed.Add(1)
	l := s.external.Load()
	s.known.Store(l)
	return *l, nil
}

// fillAtRandom adds series, up to now, of which some have labels that may be external of
// their own.
func (s *labelledStore) fillAtRandom(t testing.TB, r *rand.Rand) (maxt int64) {
	app := s.Appender(context.Background())
	start := time.Now().UnixMilli() - 29*15_000
	for i := range 40 {
		b := labels.NewScratchBuilder(4)
		b.Add(model.MetricNameLabel, fmt.Sprintf("m%d", r.IntN(3)))
		b.Add("i", fmt.Sprint(i))
		for _, name := range []string{"cluster", "room", "zz"} {
			if r.IntN(4) == 0 {
				b.Add(name, []string{"eu", "us", "a.b", "e\nu"}[r.IntN(4)])
			}
		}
		b.Sort()
		l := b.Labels()
		for k := range 30 {
			maxt = start + int64(k)*15_000
			_, err := app.Append(0, l, maxt, float64(r.IntN(100)))
			require.NoError(t, err)
		}
	}
	_, err := app.Append(0, labels.FromStrings(model.MetricNameLabel, "up", "instance", "i", "job", "j"), maxt, 1)
	require.NoError(t, err)
	require.NoError(t, app.Commit())
	return maxt
}

var externalSets = []labels.Labels{
	labels.EmptyLabels(),
	labels.FromStrings("cluster", "eu"),
	labels.FromStrings("cluster", "a.b", "room", "us"),
	labels.FromStrings("cluster", "e\nu"),
	labels.FromStrings("cluster", "eu", "room", "us", "zz", "eu"),
	labels.FromStrings("aa", "first", "zzz", "last"),
}

func randomMatchers(r *rand.Rand) []*labels.Matcher {
	ms := []*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, "m"+[]string{".", "[01]", "2"}[r.IntN(3)])}
	values := []string{"", "eu", "us", "a.b", "e\nu", "none"}
	patterns := []string{"", "eu", ".*", ".+", "eu|us", "e.u", "a.b", "(eu)?"}
	for range r.IntN(3) {
		name := []string{"cluster", "room", "zz", "aa", "i"}[r.IntN(5)]
		if typ := labels.MatchType(r.IntN(4)); typ == labels.MatchEqual || typ == labels.MatchNotEqual {
			ms = append(ms, labels.MustNewMatcher(typ, name, values[r.IntN(len(values))]))
		} else {
			ms = append(ms, labels.MustNewMatcher(typ, name, patterns[r.IntN(len(patterns))]))
		}
	}
	return ms
}

// What a fetch brings is what the store has stored, whatever labels it adds on the way
// and whatever labels its series have of their own.
func TestExternalLabelsAreTakenOff(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	clashes, rounds := 0, 150 // clashes are selectors of which some series have an external label of their own
	if testing.Short() {
		rounds = 30
	}
	for range 4 {
		s := newLabelledStore(t, []int{200, 1 << 20}[r.IntN(2)], externalSets[0])
		maxt := s.fillAtRandom(t, r)
		mint := maxt - 29*15_000
		c := newClient(t, readConfig(t, s.url), Options{External: s, Piece: 200 * time.Second})
		for range rounds {
			ext := externalSets[r.IntN(len(externalSets))]
			s.external.Store(&ext)
			ms := randomMatchers(r)
			want := query(t, s, mint, maxt, ms...)
			var f selection.Fetch
			if r.IntN(2) == 0 {
				sel, _, err := c.Fetch(t.Context(), mint, maxt, ms, selection.Fetch{})
				require.NoError(t, err, "seed %d, external labels %s, matchers %s", seed, ext, ms)
				view, err := answer.NewView(ext, labels.EmptyLabels(), ms)
				require.NoError(t, err)
				if view.Clashing(sel.Series()) != "" {
					clashes++
				}
				f.Expected = selection.Expectation{Series: sel.Series(), Samples: r.IntN(12), Signed: func(int) bool { return false }}
			}
			sel, _, err := c.Fetch(t.Context(), mint, maxt, ms, f)
			require.NoError(t, err, "seed %d, external labels %s, matchers %s", seed, ext, ms)
			require.Equal(t, want, samplesOf(t, sel, mint, maxt), "seed %d, external labels %s, matchers %s", seed, ext, ms)
			require.True(t, slices.IsSortedFunc(sel.Series(), labels.Compare))
		}
	}
	require.Positive(t, clashes, "no series had an external label of its own")
}

// TestClashIsKnown: of what series are known no request is made only to find out that some have an
// external label of their own.
func TestClashIsKnown(t *testing.T) {
	const at = 1_700_000_000_000
	s := newLabelledStore(t, 1<<20, labels.FromStrings("cluster", "a"))
	app := s.Appender(t.Context())
	for _, l := range []labels.Labels{labels.FromStrings("__name__", "m", "i", "1"), labels.FromStrings("__name__", "m", "cluster", "b")} {
		_, err := app.Append(0, l, at, 1)
		require.NoError(t, err)
	}
	require.NoError(t, app.Commit())
	for _, keep := range []bool{false, true} {
		c := newClient(t, readConfig(t, s.url), Options{External: s, KeepExternal: keep})
		before := s.requests.Load()
		first, _, err := c.Fetch(t.Context(), at, at, anything, selection.Fetch{})
		require.NoError(t, err)
		require.Equal(t, 2, first.NumSeries())
		require.EqualValues(t, 3, s.requests.Load()-before)
		again, _, err := c.Fetch(t.Context(), at, at, anything, selection.Fetch{Expected: selection.Expectation{Series: first.Series()}})
		require.NoError(t, err)
		require.Equal(t, first.Series(), again.Series())
		require.EqualValues(t, 5, s.requests.Load()-before)
	}
}

// Labels that are kept are as if they were stored.
func TestExternalLabelsAreKept(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 1))
	s := newLabelledStore(t, 1<<20, externalSets[0])
	maxt := s.fillAtRandom(t, r)
	mint := maxt - 29*15_000
	c := newClient(t, readConfig(t, s.url), Options{External: s, KeepExternal: true})
	for range 200 {
		ext := externalSets[r.IntN(len(externalSets))]
		s.external.Store(&ext)
		ms := randomMatchers(r)
		want := map[string][]sample{}
		for series, samples := range query(t, s, mint, maxt, anything...) {
			l, err := parser.NewParser(parser.Options{}).ParseMetric(series)
			require.NoError(t, err)
			b := labels.NewBuilder(l)
			ext.Range(func(e labels.Label) {
				if !l.Has(e.Name) {
					b.Set(e.Name, e.Value)
				}
			})
			l = b.Labels()
			if !slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return !m.Matches(l.Get(m.Name)) }) {
				want[l.String()] = samples
			}
		}
		sel, _, err := c.Fetch(context.Background(), mint, maxt, ms, selection.Fetch{})
		require.NoError(t, err, "seed %d, external labels %s, matchers %s", seed, ext, ms)
		require.Equal(t, want, samplesOf(t, sel, mint, maxt), "seed %d, external labels %s, matchers %s", seed, ext, ms)
	}
}

// Two series that external labels make one are an error where those are kept.
func TestKeptExternalLabelsJoinSeries(t *testing.T) {
	s := newLabelledStore(t, 1<<20, labels.FromStrings("room", "5"))
	app := s.Appender(context.Background())
	for _, l := range []labels.Labels{labels.FromStrings(model.MetricNameLabel, "x"), labels.FromStrings(model.MetricNameLabel, "x", "room", "5")} {
		_, err := app.Append(0, l, 1000, 1)
		require.NoError(t, err)
	}
	require.NoError(t, app.Commit())
	c := newClient(t, readConfig(t, s.url), Options{External: s, KeepExternal: true})
	_, _, err := c.Fetch(context.Background(), 0, 2000, anything, selection.Fetch{})
	require.ErrorContains(t, err, `"room"`)
	c = newClient(t, readConfig(t, s.url), Options{External: s})
	sel, _, err := c.Fetch(context.Background(), 0, 2000, anything, selection.Fetch{})
	require.NoError(t, err)
	require.Equal(t, 2, sel.NumSeries())
}

// No matchers match nothing, with external labels as without.
func TestNoMatchers(t *testing.T) {
	s := newLabelledStore(t, 1<<20, labels.FromStrings("cluster", "eu"))
	maxt := fill(t, s.TestStorage)
	for _, e := range []External{nil, s} {
		c := newClient(t, readConfig(t, s.url), Options{External: e})
		sel, _, err := c.Fetch(context.Background(), 0, maxt, nil, selection.Fetch{})
		require.NoError(t, err)
		require.Zero(t, sel.NumSeries())
	}
}

// A series that is known to be there spares asking for the labels again and again, and
// tells when they change.
func TestWitness(t *testing.T) {
	s := newLabelledStore(t, 1<<20, labels.FromStrings("aa", "first"))
	maxt := s.fillAtRandom(t, rand.New(rand.NewPCG(1, 1)))
	c := newClient(t, readConfig(t, s.url), Options{External: s, Piece: 1 << 62})
	require.False(t, c.Witnessed())
	require.NoError(t, c.Probe(t.Context()))
	require.True(t, c.Witnessed())
	for _, samples := range []int{0, 4} {
		for _, ext := range []labels.Labels{labels.FromStrings("aa", "first"), labels.FromStrings("aa", "second"), labels.EmptyLabels(), labels.FromStrings("aa", "x", "zzz", "y")} {
			s.external.Store(&ext)
			for k := range 5 {
				before := s.confirmed.Load()
				f := selection.Fetch{Expected: selection.Expectation{Series: []labels.Labels{labels.FromStrings("a", "b")}, Samples: samples}}
				sel, _, err := c.Fetch(t.Context(), maxt-60_000, maxt, anything, f)
				require.NoError(t, err)
				require.Equal(t, query(t, s, maxt-60_000, maxt, anything...), samplesOf(t, sel, maxt-60_000, maxt))
				if k > 2 {
					require.Equal(t, before, s.confirmed.Load(), "nothing has changed")
				}
			}
		}
	}
}

// One request does where no series has an external label of its own.
func TestExternalLabelsTakeOneRequest(t *testing.T) {
	ext := labels.FromStrings("cluster", "eu", "replica", "a")
	s := newLabelledStore(t, 1<<20, ext)
	maxt := fill(t, s.TestStorage)
	c := newClient(t, readConfig(t, s.url), Options{External: &givenExternal{ext}, Piece: 1 << 62})
	sel, _, err := c.Fetch(context.Background(), 0, maxt, anything, selection.Fetch{})
	require.NoError(t, err)
	require.Equal(t, query(t, s, 0, maxt, anything...), samplesOf(t, sel, 0, maxt))
	require.EqualValues(t, 1, s.requests.Load())
}

// Whatever the store's labels change to while fetches run, no fetch brings one of them.
func TestExternalLabelsChange(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long under the race detector; make unit runs it")
	}
	r := rand.New(rand.NewPCG(1, 2))
	s := newLabelledStore(t, 200, externalSets[0])
	maxt := s.fillAtRandom(t, r)
	mint := maxt - 29*15_000
	c := newClient(t, readConfig(t, s.url), Options{External: s, Piece: 200 * time.Second, Concurrency: 4})
	var changing sync.Mutex
	changes, moments := 0, rand.New(rand.NewPCG(3, 4))
	s.around = func() {
		changing.Lock()
		defer changing.Unlock()
		if moments.IntN(20) > 0 {
			return
		}
		// None comes again, as a fetch cannot tell a change and back again.
		changes++
		b := labels.NewBuilder(externalSets[changes%len(externalSets)])
		ext := b.Set("change", fmt.Sprint(changes)).Labels()
		s.external.Store(&ext)
	}
	fetched, busy := 0, 0
	testified := 0
	for range 200 {
		_ = c.Probe(t.Context()) // fails where the labels change meanwhile
		if c.Witnessed() {
			testified++
		}
		ms := randomMatchers(r)
		sel, _, err := c.Fetch(context.Background(), mint, maxt, ms, selection.Fetch{})
		if err != nil {
			require.ErrorIs(t, err, answer.ErrRelabelled)
			busy++
			continue
		}
		fetched++
		want, got := query(t, s, mint, maxt, ms...), samplesOf(t, sel, mint, maxt)
		require.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)), "matchers %s", ms)
		require.Equal(t, want, got, "matchers %s", ms)
	}
	t.Logf("%d fetches, %d gave up, %d changes, confirmed %d times", fetched, busy, changes, s.confirmed.Load())
	require.Greater(t, changes, 50)
	require.Greater(t, testified, 50, "fetches that began with a witness")
	require.Greater(t, fetched, busy)
}

// failingExternal cannot be read for some time.
type failingExternal struct {
	*labelledStore
	labels, confirm error
}

func (f *failingExternal) Labels(ctx context.Context) (labels.Labels, error) {
	if f.labels != nil {
		return labels.EmptyLabels(), f.labels
	}
	return f.labelledStore.Labels(ctx)
}

func (f *failingExternal) Confirm(ctx context.Context) (labels.Labels, error) {
	if f.confirm != nil {
		return labels.EmptyLabels(), f.confirm
	}
	return f.labelledStore.Confirm(ctx)
}

// An answer whose labels are not certain is an error that says what to do.
func TestExternalLabelsUnknown(t *testing.T) {
	s := newLabelledStore(t, 1<<20, labels.FromStrings("cluster", "eu"))
	maxt := fill(t, s.TestStorage)
	for name, f := range map[string]*failingExternal{
		"never read":    {labels: fmt.Errorf("no answer")},
		"not confirmed": {confirm: fmt.Errorf("no answer")},
	} {
		t.Run(name, func(t *testing.T) {
			f.labelledStore = s
			_, _ = s.Confirm(context.Background())
			o := quick()
			o.External = f
			c := newClient(t, readConfig(t, s.url), o)
			sel, _, err := c.Fetch(context.Background(), 0, maxt, anything, selection.Fetch{})
			require.Nil(t, sel)
			require.ErrorContains(t, err, "external labels")
			require.ErrorContains(t, err, "no answer")
			require.ErrorContains(t, err, "--"+FlagExternalLabels)
		})
	}
}

// Labels that the store does not add, though it is said to, are an error: what would be
// taken off might be a series' own.
func TestExternalLabelsAreNotThere(t *testing.T) {
	s := newLabelledStore(t, 1<<20, labels.FromStrings("cluster", "eu"))
	maxt := fill(t, s.TestStorage)
	wrong := &givenExternal{labels.FromStrings("cluster", "us")}
	c := newClient(t, readConfig(t, s.url), Options{External: wrong})
	_, _, err := c.Fetch(context.Background(), 0, maxt, anything, selection.Fetch{})
	require.ErrorIs(t, err, answer.ErrRelabelled)
	require.ErrorContains(t, err, "--"+FlagExternalLabels)
}

// givenExternal are labels that the operator has given.
type givenExternal struct{ l labels.Labels }

func (e *givenExternal) Labels(context.Context) (labels.Labels, error)  { return e.l, nil }
func (e *givenExternal) MayChange() bool                                { return false }
func (e *givenExternal) Confirm(context.Context) (labels.Labels, error) { return e.l, nil }
