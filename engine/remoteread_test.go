package engine

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	config_util "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/remoteread"
	"github.com/promwarp/promwarp/selection"
)

// overHTTP is a storage whose writes go to a TSDB and whose reads go through a
// real HTTP remote-read server, the client and the cache. Each commit starts a
// new cache, as the suite writes into the past.
type overHTTP struct {
	storage.Storage
	client *remoteread.Client
	*cache.Cache
	fetches *int
}

func newOverHTTP(t testing.TB, fetches *int) storage.Storage {
	st := teststorage.New(t, func(o *tsdb.Options) {
		o.EnableSTStorage = true
		o.FloatChunkEncoding = chunkenc.EncXOR2
		o.EnableHistogramSTEncoding = true
	})
	h := remote.NewReadHandler(nil, nil, st, func() config.Config { return config.Config{} }, 0, 100, 1<<20)
	srv := httptest.NewUnstartedServer(h)
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0) // of statuses that Prometheus's handler writes in the middle
	srv.Start()
	t.Cleanup(srv.Close)
	u, err := url.Parse(srv.URL)
	require.NoError(t, err)
	c, err := remoteread.NewClient(&config.RemoteReadConfig{
		URL: &config_util.URL{URL: u}, RemoteTimeout: model.Duration(time.Minute), ChunkedReadLimit: 1 << 26,
	}, remoteread.Options{})
	require.NoError(t, err)
	t.Cleanup(c.CloseIdle)
	o := &overHTTP{Storage: st, client: c, fetches: fetches}
	o.fresh()
	return o
}

func (o *overHTTP) fresh() {
	o.Cache = cache.New(counting{o}, cache.Options{HostBytes: 1 << 28, Tile: 2 * time.Hour})
}

// counting counts what reaches the upstream.
type counting struct{ *overHTTP }

func (c counting) Fetch(ctx context.Context, mint, maxt int64, ms []*labels.Matcher) (*selection.Selection, annotations.Annotations, error) {
	*c.fetches++
	return c.client.Fetch(ctx, mint, maxt, ms)
}

func (o *overHTTP) Appender(ctx context.Context) storage.Appender {
	o.fresh()
	return o.Storage.Appender(ctx)
}

func (o *overHTTP) AppenderV2(ctx context.Context) storage.AppenderV2 {
	o.fresh()
	return o.Storage.AppenderV2(ctx)
}

func (o *overHTTP) Querier(mint, maxt int64) (storage.Querier, error) {
	return o.Cache.Querier(mint, maxt)
}

func (o *overHTTP) ChunkQuerier(mint, maxt int64) (storage.ChunkQuerier, error) {
	return o.Cache.ChunkQuerier(mint, maxt)
}

func (o *overHTTP) Close() error { return o.Storage.Close() }

// TestPrometheusSuiteOverRemoteRead runs Prometheus's own acceptance suite on the cores, with
// every sample read over HTTP.
func TestPrometheusSuiteOverRemoteRead(t *testing.T) {
	e := New(Options{Prometheus: suiteOpts(), Workers: 2})
	defer e.Close()
	fetches := 0
	promqltest.RunBuiltinTestsWithStorage(t, inMode{e, CPU}, func(t testing.TB) storage.Storage {
		return newOverHTTP(t, &fetches)
	})
	requireOnCPU(t, e)
	t.Logf("%d fetches", fetches)
	require.Greater(t, fetches, 500)
	on := func(how string) float64 { return testutil.ToFloat64(e.metrics.queries.WithLabelValues(how)) }
	require.Less(t, float64(fetches), (on("whole")+on("part"))/8, "the cache must answer most")
}
