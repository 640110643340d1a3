package engine

import (
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	config_util "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/cache/disk"
	"github.com/promwarp/promwarp/remoteread"
)

const (
	minute     = int64(60_000)
	hour       = 60 * minute
	movedStart = 1000 * hour
)

// moving is a Prometheus that is scraped into, late at times, and whose past
// changes, behind remote read and a cache.
type moving struct {
	t     *testing.T
	r     *rand.Rand
	db    *teststorage.TestStorage
	up    *remoteread.Client
	cache *cache.Cache
	limit int64 // bytes of the cache
	// starts says that some samples have start timestamps.
	starts bool
	path   string
	clock  atomic.Int64 // now in ms

	now    int64
	series []labels.Labels
	last   []int64 // time of each series' last sample in ms
	value  []float64
}

func newMoving(t *testing.T, r *rand.Rand) *moving {
	w := &moving{t: t, r: r, now: movedStart}
	w.db = teststorage.New(t, func(o *tsdb.Options) {
		o.OutOfOrderTimeWindow = 1000 * hour
		if r.IntN(2) == 0 {
			o.FloatChunkEncoding, o.EnableSTStorage = chunkenc.EncXOR2, true
			w.starts = r.IntN(3) > 0
		}
	})
	for job := range 3 {
		at := []string{"job", fmt.Sprint("j", job)}
		for inst := range 4 {
			at := append(at[:2:2], "instance", fmt.Sprint("i", inst))
			for _, name := range []string{"reqs_total", "errs_total", "temp", "odd"} {
				w.add(append([]string{"__name__", name}, at...)...)
			}
		}
		for _, le := range [][]string{{"0.1", "1", "2.5", "+Inf"}, {"0.1", "1", "1.0", "1e0", "+Inf"}, {"1", "10", "x", "+Inf"}}[job] {
			w.add(append([]string{"__name__", "lat_bucket", "le", le}, at...)...)
		}
	}
	h := remote.NewReadHandler(slog.New(slog.DiscardHandler), nil, w.db, func() config.Config { return config.Config{} }, 0, 100, 1<<20)
	srv := httptest.NewUnstartedServer(h)
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	srv.Start()
	t.Cleanup(srv.Close)
	u, err := url.Parse(srv.URL)
	require.NoError(t, err)
	w.up, err = remoteread.NewClient(&config.RemoteReadConfig{URL: &config_util.URL{URL: u}, RemoteTimeout: model.Duration(time.Minute)}, remoteread.Options{})
	require.NoError(t, err)
	t.Cleanup(w.up.CloseIdle)
	w.limit, w.path = []int64{1 << 28, 1 << 28, 400_000}[r.IntN(3)], t.TempDir()
	w.open(r.IntN(2) == 0)
	t.Cleanup(func() { require.NoError(t, w.cache.Close()) })
	return w
}

// open opens the cache, with files or without.
func (w *moving) open(files bool) {
	o := cache.Options{
		HostBytes: w.limit, Tile: 20 * time.Minute, MaxAge: []time.Duration{0, 24 * time.Hour, 40 * time.Minute}[w.r.IntN(3)],
		Retention: []time.Duration{0, 0, 3 * time.Hour}[w.r.IntN(3)],
		Now:       func() time.Time { return time.UnixMilli(w.clock.Load()) },
	}
	if files {
		var err error
		o.Disk, err = disk.Open(disk.Options{Path: w.path, Limit: 1 << 30})
		require.NoError(w.t, err)
	}
	w.cache = cache.New(w.up, o)
}

// add begins a series.
func (w *moving) add(ls ...string) {
	w.series, w.value = append(w.series, labels.FromStrings(ls...)), append(w.value, 0)
	w.last = append(w.last, w.now+w.r.Int64N(2))
}

// advance lets d ms pass.
func (w *moving) advance(d int64) {
	app := w.db.AppenderV2(w.t.Context())
	w.now += d
	for i, l := range w.series {
		for w.last[i]+15_000 <= w.now {
			w.last[i] += 15_000
			name := l.Get("__name__")
			switch {
			case w.r.IntN(100) == 0:
				w.last[i] += w.r.Int64N(hour) // it is gone for a while
				if w.r.IntN(2) == 0 {
					w.write(app, i, w.last[i], math.Float64frombits(value.StaleNaN))
				}
				continue
			case name == "odd" && w.r.IntN(12) > 0:
				continue
			case strings.HasSuffix(name, "_total"):
				if w.value[i] += float64(w.r.IntN(50)) * []float64{1, 0.1}[i%2]; w.r.IntN(60) == 0 {
					w.value[i] = 0
				}
			case strings.HasSuffix(name, "_bucket"):
				w.value[i] += float64(w.r.IntN(20))
			case w.r.IntN(50) == 0:
				w.value[i] = []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.MaxFloat64, math.Copysign(0, -1)}[w.r.IntN(6)]
			default:
				w.value[i] = w.r.NormFloat64() * math.Pow(10, float64(w.r.IntN(6)))
			}
			w.write(app, i, w.last[i], w.value[i])
		}
	}
	for range w.r.IntN(20) { // late
		i := w.r.IntN(len(w.series))
		w.write(app, i, w.now-w.r.Int64N(10*minute), w.value[i]+1)
	}
	require.NoError(w.t, app.Commit())
	w.clock.Store(w.now)
}

func (w *moving) write(app storage.AppenderV2, i int, ts int64, v float64) {
	start := int64(0)
	switch {
	case !w.starts || value.IsStaleNaN(v):
	case i%4 == 1: // of a counter that begins anew every half an hour
		start = ts - ts%(30*minute)
	case i%4 == 2 && w.r.IntN(20) > 0: // of deltas, most of the time
		start = ts - 15_000
	}
	if ts <= w.now {
		_, _ = app.Append(0, w.series[i], start, ts, v, nil, nil, storage.AppendV2Options{}) // may be there already, with another value
	}
}

// happen makes something happen that remembered results must not survive, or that
// they may.
func (w *moving) happen() {
	mint := movedStart + w.r.Int64N(w.now-movedStart)
	maxt := mint + w.r.Int64N(2*hour)
	match := [][]*labels.Matcher{
		{labels.MustNewMatcher(labels.MatchRegexp, "__name__", ".*_total")},
		{labels.MustNewMatcher(labels.MatchEqual, "job", "j1")},
		{labels.MustNewMatcher(labels.MatchEqual, "__name__", "temp")},
	}[w.r.IntN(3)]
	drop := func() {
		_, err := w.cache.Drop(mint, maxt, match)
		require.NoError(w.t, err)
	}
	switch w.r.IntN(12) {
	case 0: // deleted, and noticed at once or later
		require.NoError(w.t, w.db.Compact(w.t.Context()))
		if to := min(maxt, w.db.Head().MinTime()-1); mint <= to {
			require.NoError(w.t, w.db.Delete(w.t.Context(), mint, to, match...))
		}
		require.NoError(w.t, w.db.CleanTombstones())
		if w.r.IntN(2) == 0 {
			drop()
		}
	case 1: // backfilled
		app := w.db.AppenderV2(w.t.Context())
		for range 50 {
			i := w.r.IntN(len(w.series))
			w.write(app, i, min(mint+w.r.Int64N(2*hour), w.now), w.value[i]+2)
		}
		require.NoError(w.t, app.Commit())
		if w.r.IntN(2) == 0 {
			drop()
		}
	case 2:
		drop()
	case 3: // a series that sorts before others, or among them
		w.add("__name__", []string{"reqs_total", "temp", "a_total"}[w.r.IntN(3)], "job", []string{"j0", "j1", "a"}[w.r.IntN(3)], "instance", fmt.Sprint("h", len(w.series)))
	case 4:
		require.NoError(w.t, w.cache.Close())
		w.open(w.r.IntN(2) == 0)
	case 5:
		w.cache.Clear()
	}
}
