//go:build unix

package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/promwarp/promwarp/api/guard"
	"github.com/promwarp/promwarp/api/leaf"
	"github.com/promwarp/promwarp/engine"
	"github.com/promwarp/promwarp/internal/leafpb"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/queue"
	"github.com/promwarp/promwarp/internal/testlog"
	"github.com/promwarp/promwarp/selection"
)

// wire is how messages of gogo/protobuf, and bytes as they are, go over gRPC.
type wire struct{ leafpb.Codec }

func (c wire) Marshal(v any) ([]byte, error) {
	if b, ok := v.([]byte); ok {
		return b, nil
	}
	return c.Codec.Marshal(v)
}

// calls counts the calls under way.
type calls struct{ n atomic.Int64 }

func (c *calls) Hold() bool { c.n.Add(1); return true }
func (c *calls) Release()   { c.n.Add(-1) }

// ended waits until no call is under way.
func (c *calls) ended(t *testing.T, within time.Duration) {
	t.Helper()
	require.Eventually(t, func() bool { return c.n.Load() == 0 }, within, time.Millisecond, "a call goes on")
}

// testLeaf is a leaf that listens, and a connection to it.
type testLeaf struct {
	*calls
	a    *API
	conn *grpc.ClientConn
}

// newTestLeaf serves an API as a leaf.
func newTestLeaf(t testing.TB, change func(*Options), sources ...leaf.Source) *testLeaf {
	t.Helper()
	l := &testLeaf{calls: &calls{}, a: newTestAPI(t, change)}
	answer, stop := l.a.Leaf(func() []leaf.Source { return sources }, l.calls)
	server := httptest.NewUnstartedServer(answer)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	var err error
	l.conn, err = grpc.NewClient("passthrough:///"+server.Listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(wire{}), grpc.MaxCallRecvMsgSize(64<<20)))
	require.NoError(t, err)
	t.Cleanup(func() {
		l.conn.Close()
		server.CloseClientConnections()
		server.Close()
		stop()
	})
	return l
}

// collected is what a query's answer said.
type collected struct {
	series   []prompb.TimeSeries
	warnings []string
	stats    *leafpb.QueryStats
	messages int
	batches  []int
}

// collect receives all of a query's answer.
func collect(stream interface {
	Recv() (*leafpb.QueryResponse, error)
}, err error) (*collected, error) {
	c := &collected{}
	for err == nil {
		var m *leafpb.QueryResponse
		if m, err = stream.Recv(); err != nil {
			break
		}
		c.messages++
		switch {
		case m.GetWarnings() != "":
			c.warnings = append(c.warnings, m.GetWarnings())
		case m.GetTimeseries() != nil:
			c.series = append(c.series, *m.GetTimeseries())
		case m.GetTimeseriesBatch() != nil:
			c.series = append(c.series, m.GetTimeseriesBatch().Series...)
			c.batches = append(c.batches, len(m.GetTimeseriesBatch().Series))
		default:
			c.stats = m.GetStats()
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return c, err
}

func (l *testLeaf) query(ctx context.Context, r *leafpb.QueryRequest) (*collected, error) {
	return collect(leafpb.NewQueryClient(l.conn).Query(ctx, r))
}

func (l *testLeaf) queryRange(ctx context.Context, r *leafpb.QueryRangeRequest) (*collected, error) {
	return collect(leafpb.NewQueryClient(l.conn).QueryRange(ctx, r))
}

func (l *testLeaf) series(ctx context.Context, r *leafpb.SeriesRequest) (all []*leafpb.Series, err error) {
	stream, err := leafpb.NewStoreClient(l.conn).Series(ctx, r)
	for err == nil {
		var m *leafpb.SeriesResponse
		if m, err = stream.Recv(); err == nil {
			all = append(all, m.GetSeries())
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return all, err
}

func ofMetric(name string) []prompb.LabelMatcher {
	return []prompb.LabelMatcher{{Type: prompb.LabelMatcher_EQ, Name: "__name__", Value: name}}
}

const leafSeries = `
load 1m
	m{i="0"} 0+1x120
	m{i="1"} 0+2x120
	m{i="2"} _ _ 5x10
	h{i="0"} {{schema:0 sum:1 count:2 buckets:[1 1]}}x120
`

// TestLeafAnswers: all kinds of values come as Prometheus's engine has them, in batches of any size, with
// statistics at the end.
func TestLeafAnswers(t *testing.T) {
	l := newTestLeaf(t, func(o *Options) { o.Queryable = newStorage(t, leafSeries) })
	for _, batch := range []int64{0, 1, 2, -5, math.MaxInt64} {
		got, err := l.query(t.Context(), &leafpb.QueryRequest{Query: "m", TimeSeconds: 600, ResponseBatchSize: batch})
		require.NoError(t, err)
		require.Len(t, got.series, 3)
		require.Equal(t, []prompb.Sample{{Timestamp: 600_000, Value: 20}}, got.series[1].Samples)
		require.NotNil(t, got.stats)
		switch {
		case batch == 2:
			require.Equal(t, []int{2, 1}, got.batches)
		case batch > 2:
			require.Equal(t, []int{3}, got.batches)
		default:
			require.Equal(t, 4, got.messages)
		}
		got, err = l.queryRange(t.Context(), &leafpb.QueryRangeRequest{Query: "rate(m[2m])", StartTimeSeconds: 600, EndTimeSeconds: 1200, IntervalSeconds: 60, ResponseBatchSize: batch})
		require.NoError(t, err)
		require.Len(t, got.series, 3)
		require.Len(t, got.series[0].Samples, 11)
		require.Len(t, got.series[2].Samples, 3)
		require.Equal(t, []string{`PromQL info: metric might not be a counter, name does not end in _total/_sum/_count/_bucket: "m"`}, got.warnings)
	}
	got, err := l.query(t.Context(), &leafpb.QueryRequest{Query: "h", TimeSeconds: 600})
	require.NoError(t, err)
	require.Len(t, got.series, 1)
	require.Empty(t, got.series[0].Samples)
	require.Equal(t, 2.0, got.series[0].Histograms[0].GetCountFloat())
	got, err = l.query(t.Context(), &leafpb.QueryRequest{Query: "scalar(m{i=\"0\"})", TimeSeconds: 600})
	require.NoError(t, err)
	require.Equal(t, []prompb.TimeSeries{{Samples: []prompb.Sample{{Timestamp: 600_000, Value: 10}}}}, got.series)
	got, err = l.queryRange(t.Context(), &leafpb.QueryRangeRequest{Query: "h", StartTimeSeconds: 0, EndTimeSeconds: 600, IntervalSeconds: 300})
	require.NoError(t, err)
	require.Len(t, got.series[0].Histograms, 3)

	// A Querier that has a subquery evaluated here asks for more steps than clients may.
	got, err = l.queryRange(t.Context(), &leafpb.QueryRangeRequest{Query: "sum(m)", StartTimeSeconds: 0, EndTimeSeconds: 40_000, IntervalSeconds: 1})
	require.NoError(t, err)
	require.Greater(t, len(got.series[0].Samples), 7200)
}

// TestLeafRefuses: what is wrong with a call is a clear error.
func TestLeafRefuses(t *testing.T) {
	region := leaf.Source{Labels: labels.FromStrings("region", "eu", "replica", "a"), Shown: true}
	l := newTestLeaf(t, nil, region)
	instant := func(r leafpb.QueryRequest) error {
		_, err := l.query(t.Context(), &r)
		return err
	}
	ranged := func(start, end, step int64) error {
		_, err := l.queryRange(t.Context(), &leafpb.QueryRangeRequest{Query: "m", StartTimeSeconds: start, EndTimeSeconds: end, IntervalSeconds: step})
		return err
	}
	series := func(r leafpb.SeriesRequest) error {
		_, err := l.series(t.Context(), &r)
		return err
	}
	raw := func(method string, message []byte) error {
		stream, err := l.conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, method)
		require.NoError(t, err)
		require.NoError(t, errors.Join(stream.SendMsg(message), stream.CloseSend()))
		return stream.RecvMsg(&leafpb.QueryResponse{})
	}
	for name, c := range map[string]struct {
		err  error
		code codes.Code
		text string
	}{
		"no PromQL":             {instant(leafpb.QueryRequest{Query: "sum("}), codes.InvalidArgument, "parse error"},
		"an error of the query": {instant(leafpb.QueryRequest{Query: "m * on() m", TimeSeconds: 600}), codes.Aborted, "found duplicate series for the match group {}"},
		"a time after all":      {instant(leafpb.QueryRequest{Query: "m", TimeSeconds: math.MaxInt64}), codes.InvalidArgument, "a time is before"},
		"a time before all":     {instant(leafpb.QueryRequest{Query: "m", TimeSeconds: math.MinInt64}), codes.InvalidArgument, "a time is before"},
		"a negative timeout":    {instant(leafpb.QueryRequest{Query: "m", TimeoutSeconds: -1}), codes.InvalidArgument, "negative"},
		"stores to choose from": {instant(leafpb.QueryRequest{Query: "m", StoreMatchers: make([]leafpb.StoreMatchers, 1)}), codes.Unimplemented, "one store"},
		"a shard":               {instant(leafpb.QueryRequest{Query: "m", ShardInfo: &leafpb.ShardInfo{TotalShards: 2}}), codes.Unimplemented, "a shard"},
		"a replica label":       {instant(leafpb.QueryRequest{Query: "m", EnableDedup: true, ReplicaLabels: []string{"replica"}}), codes.InvalidArgument, "upstream.replica_labels"},
		"no step":               {ranged(0, 600, 0), codes.InvalidArgument, "the step is not at least a second"},
		"backwards":             {ranged(600, 0, 60), codes.InvalidArgument, "the end is before the start"},
		"all times":             {ranged(math.MinInt64, math.MaxInt64, 1), codes.InvalidArgument, "a time is before"},
		"all steps":             {ranged(0, 1e10, 1), codes.InvalidArgument, "more than 1048576 steps"},
		"series of all":         {series(leafpb.SeriesRequest{MaxTime: 1}), codes.InvalidArgument, "no matchers"},
		"an empty matcher":      {series(leafpb.SeriesRequest{MaxTime: 1, Matchers: []prompb.LabelMatcher{{Name: "i", Type: 77}}}), codes.InvalidArgument, "matcher"},
		"no regular expression": {series(leafpb.SeriesRequest{MaxTime: 1, Matchers: []prompb.LabelMatcher{{Name: "i", Type: prompb.LabelMatcher_RE, Value: "("}}}), codes.InvalidArgument, "missing closing )"},
		"series backwards":      {series(leafpb.SeriesRequest{MinTime: 2, MaxTime: 1, Matchers: ofMetric("m")}), codes.InvalidArgument, "no range"},
		"no protobuf":           {raw("/thanos.Query/Query", []byte("\xff\xff\xffnot a message")), codes.Internal, "unmarshal"},
		"too long a message":    {raw("/thanos.Query/Query", append([]byte("\x0a\xff\xff\xff\x07"), make([]byte, 17<<20)...)), codes.ResourceExhausted, "larger than max"},
		"no such call":          {raw("/thanos.Query/Nothing", nil), codes.Unimplemented, "unknown method"},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, c.err, c.text)
			require.Equal(t, c.code, status.Code(c.err))
		})
	}
	require.NoError(t, instant(leafpb.QueryRequest{Query: "m", EnableDedup: true, ReplicaLabels: []string{"other"}}))
	// With partial response an error of the query is a warning, as of Thanos's own leaves.
	got, err := l.query(t.Context(), &leafpb.QueryRequest{Query: "m * on() m", TimeSeconds: 600, EnablePartialResponse: true})
	require.NoError(t, err)
	require.Len(t, got.warnings, 1)
	l.ended(t, time.Second)
}

// TestLeafInfo: a leaf tells the external labels that its answers have, and is none where they lack some.
func TestLeafInfo(t *testing.T) {
	eu := leaf.Source{Labels: labels.FromStrings("region", "eu"), Shown: true, Retention: time.Hour}
	us := leaf.Source{Labels: labels.FromStrings("region", "us"), Shown: true}
	info := func(sources ...leaf.Source) (*leafpb.InfoResponse, error) {
		return leafpb.NewInfoClient(newTestLeaf(t, nil, sources...).conn).Info(t.Context(), &leafpb.InfoRequest{})
	}
	got, err := info(eu, us)
	require.NoError(t, err)
	require.Equal(t, "query", got.ComponentType)
	require.NotNil(t, got.Query)
	require.Len(t, got.LabelSets, 2)
	require.Len(t, got.Store.TsdbInfos, 2)
	require.InDelta(t, time.Now().Add(-time.Hour).UnixMilli(), got.Store.TsdbInfos[0].MinTime, 60_000)
	require.Zero(t, got.Store.MinTime)
	eu.Shown = false
	_, err = info(eu)
	require.Equal(t, codes.FailedPrecondition, status.Code(err))
	require.ErrorContains(t, err, "upstream.external_labels to keep")
	require.Len(t, leaf.Unlike([]leaf.Source{us, us, eu, {}}), 3)
}

// TestLeafStore: series with chunks and without, names and values.
func TestLeafStore(t *testing.T) {
	l := newTestLeaf(t, func(o *Options) { o.Queryable = newStorage(t, leafSeries) })
	store := leafpb.NewStoreClient(l.conn)
	all := leafpb.SeriesRequest{MinTime: math.MinInt64, MaxTime: math.MaxInt64, Matchers: ofMetric("m")}
	for _, skip := range []bool{false, true} {
		for limit := range int64(5) {
			r := all
			r.SkipChunks, r.Limit, r.ShardInfo = skip, limit, &leafpb.ShardInfo{TotalShards: 3}
			got, err := l.series(t.Context(), &r)
			require.NoError(t, err)
			names := map[string]int{}
			for _, s := range got {
				if s == nil {
					require.True(t, skip && limit > 0 && limit < 3, "a warning that the list was cut")
					continue
				}
				names[fmt.Sprint(s.Labels)] += len(s.Chunks)
				require.Equal(t, skip, len(s.Chunks) == 0)
			}
			require.Len(t, names, map[int64]int{0: 3, 1: 1, 2: 2, 3: 3, 4: 3}[limit], "limit %d, without chunks: %t", limit, skip)
		}
	}
	r := all
	r.Matchers = ofMetric("h")
	got, err := l.series(t.Context(), &r)
	require.NoError(t, err)
	c := got[0].Chunks[0]
	chunk, err := chunkenc.FromData(chunkenc.Encoding(c.Raw.Type+1), c.Raw.Data)
	require.NoError(t, err)
	require.Equal(t, chunkenc.ValFloatHistogram, chunk.Iterator(nil).Next())

	names, err := store.LabelNames(t.Context(), &leafpb.LabelNamesRequest{Start: math.MinInt64, End: math.MaxInt64, WithoutReplicaLabels: []string{"replica"}})
	require.NoError(t, err)
	require.Equal(t, []string{"__name__", "i"}, names.Names)
	values, err := store.LabelValues(t.Context(), &leafpb.LabelValuesRequest{Label: "i", End: math.MaxInt64, Matchers: ofMetric("m")})
	require.NoError(t, err)
	require.Equal(t, []string{"0", "1", "2"}, values.Values)
	values, err = store.LabelValues(t.Context(), &leafpb.LabelValuesRequest{Label: "i", WithoutReplicaLabels: []string{"i"}})
	require.NoError(t, err)
	require.Empty(t, values.Values)
}

// warned is a storage that warns of what chunks it finds.
type warned struct {
	storage.SampleAndChunkQueryable
}

type warnedQuerier struct{ storage.ChunkQuerier }

type warnedSet struct{ storage.ChunkSeriesSet }

func (w warned) ChunkQuerier(mint, maxt int64) (storage.ChunkQuerier, error) {
	q, err := w.SampleAndChunkQueryable.ChunkQuerier(mint, maxt)
	return warnedQuerier{q}, err
}

func (q warnedQuerier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.ChunkSeriesSet {
	return warnedSet{q.ChunkQuerier.Select(ctx, sorted, hints, ms...)}
}

func (warnedSet) Warnings() annotations.Annotations {
	return annotations.New().Add(errors.New("one of two upstreams is down"))
}

// TestLeafSeriesWarns: what the storage warns of comes behind the series, also where these are limited.
func TestLeafSeriesWarns(t *testing.T) {
	l := newTestLeaf(t, func(o *Options) { o.Queryable = warned{newStorage(t, leafSeries)} })
	for limit, series := range []int{3, 1} {
		stream, err := leafpb.NewStoreClient(l.conn).Series(t.Context(), &leafpb.SeriesRequest{MaxTime: math.MaxInt64, Matchers: ofMetric("m"), Limit: int64(limit)})
		require.NoError(t, err)
		var warnings []string
		for {
			m, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			if m.GetSeries() == nil {
				warnings = append(warnings, m.GetWarning())
			} else {
				series--
			}
		}
		require.Zero(t, series)
		require.Equal(t, []string{"one of two upstreams is down"}, warnings)
	}
}

// TestLeafCancelled: the query of a caller that has gone ends at once.
func TestLeafCancelled(t *testing.T) {
	e := &watched{Engine: newEngine(t, nil), began: make(chan struct{}, 1), ended: make(chan error, 1)}
	l := newTestLeaf(t, func(o *Options) {
		o.Engine = e
		o.Queryable = chunkStorage{sel: oneLongSeries(t)}
	})
	fastest := time.Hour
	for range 3 {
		ctx, leave := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() {
			_, err := l.queryRange(ctx, &leafpb.QueryRangeRequest{Query: "quantile_over_time(0.9, m[12h])", EndTimeSeconds: 180_000, IntervalSeconds: 17})
			gone <- err
		}()
		<-e.began
		time.Sleep(30 * time.Millisecond)
		left, busy := time.Now(), processorTime(t)
		leave()
		require.Equal(t, codes.Canceled, status.Code(<-gone))
		require.ErrorAs(t, <-e.ended, new(promql.ErrQueryCanceled))
		l.ended(t, time.Second)
		fastest = min(fastest, time.Since(left))
		require.Less(t, processorTime(t)-busy, 500*time.Millisecond)
	}
	require.Less(t, fastest, 100*time.Millisecond)
}

// TestLeafStalls: a caller that reads nothing of a long answer is cut off, and so is its query.
func TestLeafStalls(t *testing.T) {
	l := newTestLeaf(t, func(o *Options) {
		o.Queryable = streams(t, 50_000)
		o.WriteTimeout = 300 * time.Millisecond
	})
	stream, err := leafpb.NewStoreClient(l.conn).Series(t.Context(), &leafpb.SeriesRequest{MaxTime: math.MaxInt64, Matchers: ofMetric("m")})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return l.n.Load() == 1 }, 10*time.Second, time.Millisecond)
	l.ended(t, 10*time.Second)
	for err == nil {
		_, err = stream.Recv()
	}
	require.NotErrorIs(t, err, io.EOF, "an answer that was cut off is no whole one")
}

// TestLeafGivesWay: a caller that reads nothing of a long answer holds no memory that another request waits for,
// whether it comes in many messages or in few.
func TestLeafGivesWay(t *testing.T) {
	for _, batch := range []int64{0, 1000} {
		pool := memory.New(memory.Options{Limit: 1000 << 20, Wait: 300 * time.Millisecond})
		l := newTestLeaf(t, func(o *Options) {
			o.Memory, o.WriteTimeout = pool, time.Hour
			o.Engine = holding{newEngine(t, nil), pool}
		})
		stream, err := leafpb.NewQueryClient(l.conn).Query(t.Context(), &leafpb.QueryRequest{Query: "1", LookbackDeltaSeconds: 750, ResponseBatchSize: batch})
		require.NoError(t, err)
		_, err = stream.Recv()
		require.NoError(t, err)
		time.Sleep(3 * time.Second) // longer than it may be behind while others wait
		require.EqualValues(t, 750<<20, pool.Used(), "no request waits yet")
		code, got := getJSON(t, l.a, "/api/v1/query?query=1&lookback_delta=300")
		require.Equal(t, http.StatusOK, code, "batches of %d: %s", batch, got.Error)
		for err == nil {
			_, err = stream.Recv()
		}
		require.NotErrorIs(t, err, io.EOF, "an answer that was cut off is no whole one")
		l.ended(t, 10*time.Second)
	}
}

// manyStreams is a storage that every selector matches the same series in.
type manyStreams struct {
	failing
	sel *selection.Selection
}

func (m manyStreams) ChunkQuerier(int64, int64) (storage.ChunkQuerier, error) {
	return manyStreamsQuerier{storage.NoopChunkedQuerier(), m.sel}, nil
}

type manyStreamsQuerier struct {
	storage.ChunkQuerier
	sel *selection.Selection
}

func (q manyStreamsQuerier) SelectChunks(context.Context, *storage.SelectHints, ...*labels.Matcher) (*selection.Selection, annotations.Annotations, error) {
	return q.sel, nil, nil
}

// streams makes a number of series of one chunk each.
func streams(t *testing.T, n int) manyStreams {
	t.Helper()
	c := chunkenc.NewXORChunk()
	app, err := c.Appender()
	require.NoError(t, err)
	for i := range int64(120) {
		app.Append(0, i*15_000, math.Sqrt(float64(i)))
	}
	b := selection.NewBuilder(0)
	for i := range n {
		b.Series(labels.FromStrings("__name__", "m", "i", fmt.Sprintf("%07d", i)))
		require.NoError(t, b.Chunk(chunkenc.EncXOR, 0, 119*15_000, c.Bytes()))
	}
	sel, err := b.Finish()
	require.NoError(t, err)
	return manyStreams{sel: sel}
}

// TestLeafStreams: very many series are sent in little memory beside what holds them: no more than their
// order takes. Of a million: PROMWARP_STREAMS=1000000 go test ./api -run TestLeafStreams -v
func TestLeafStreams(t *testing.T) {
	most := 200_000
	if text := os.Getenv("PROMWARP_STREAMS"); text != "" {
		var err error
		most, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	for _, n := range []int{10_000, most} {
		l := newTestLeaf(t, func(o *Options) { o.Queryable, o.Timeout = streams(t, n), time.Hour })
		sent := 0
		peak := heapOf(func() {
			stream, err := leafpb.NewStoreClient(l.conn).Series(t.Context(), &leafpb.SeriesRequest{MaxTime: math.MaxInt64, Matchers: ofMetric("m")})
			require.NoError(t, err)
			series := 0
			for {
				m, err := stream.Recv()
				if errors.Is(err, io.EOF) {
					break
				}
				require.NoError(t, err)
				series++
				sent += m.Size()
			}
			require.Equal(t, n, series)
		})
		t.Logf("%d series, %d MB, at a peak of %.1f MB", n, sent>>20, float64(peak)/1e6)
		require.Less(t, peak, int64(8<<20+128*n))
	}
}

// heapOf is the most by which what is alive on the heap grows while f runs, as it is looked at now and then.
func heapOf(f func()) (most int64) {
	alive := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	read := func() int64 {
		runtime.GC()
		metrics.Read(alive)
		return int64(alive[0].Value.Uint64())
	}
	before := read()
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			began := time.Now()
			most = max(most, read()-before)
			select {
			case <-stop:
				return
			case <-time.After(max(50*time.Millisecond, 4*time.Since(began))): // most of the time is f's
			}
		}
	}()
	f()
	close(stop)
	<-done
	return most
}

// TestLeafLimits: queues, memory, timeouts, metrics, logs and the list of queries hold for calls as for
// requests over HTTP, and /explain says how a query that a Querier sends is evaluated.
func TestLeafLimits(t *testing.T) {
	var log testlog.Log
	registry := prometheus.NewRegistry()
	e := &slow{Engine: newEngine(t, nil), block: make(chan struct{})}
	pool := memory.New(memory.Options{Limit: 64 << 20})
	l := newTestLeaf(t, func(o *Options) {
		o.Engine, o.Metrics, o.Memory = e, guard.NewMetrics(registry), pool
		o.Logger, o.LogQueries = slog.New(slog.NewTextHandler(&log, nil)), true
		o.Queue = queue.New(queue.Limits{Slots: 1, MaxWaiting: 0, MaxWait: time.Second}, nil)
	})
	ask := func(ctx context.Context, timeout int64) error {
		_, err := l.query(ctx, &leafpb.QueryRequest{Query: "sum(m)", TimeSeconds: 600, TimeoutSeconds: timeout})
		return err
	}
	first := make(chan error, 1)
	go func() { first <- ask(t.Context(), 0) }()
	require.Eventually(t, func() bool { return e.running.Load() == 1 }, 10*time.Second, time.Millisecond)
	code, got := getJSON(t, l.a, "/api/v1/status/queries")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, string(got.Data), `"/thanos.Query/Query"`)
	require.Contains(t, string(got.Data), "sum(m)")

	err := ask(t.Context(), 0)
	require.Equal(t, codes.Unavailable, status.Code(err), err)
	code, got = getJSON(t, l.a, "/api/v1/query?query=m")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.ErrorContains(t, err, got.Error, "the same words as over HTTP")

	close(e.block)
	require.NoError(t, <-first)
	require.Contains(t, log.String(), `door=/thanos.Query/Query query=sum(m)`)
	families, err := registry.Gather()
	require.NoError(t, err)
	require.Contains(t, fmt.Sprint(families), `value:"/thanos.Query/Query"`)

	code, got = getJSON(t, l.a, "/explain?query="+url.QueryEscape("sum(m)")+"&time=600")
	require.Equal(t, http.StatusOK, code, got.Error)

	e.takes, e.block = 1500*time.Millisecond, nil
	err = ask(t.Context(), 1)
	require.Equal(t, codes.Unavailable, status.Code(err), err)
	require.ErrorContains(t, err, "timed out")

	_, err = l.series(t.Context(), &leafpb.SeriesRequest{MaxTime: math.MaxInt64, Matchers: ofMetric("m"), SkipChunks: true})
	require.NoError(t, err)
	l.ended(t, time.Second)
	require.Eventually(t, func() bool { return pool.Parts()[string(memory.Answers)]+pool.Parts()[string(memory.Requests)] == 0 }, time.Second, time.Millisecond, "memory is given back")
}

// TestLeafPanics: a panic of a call is its error, and counted.
func TestLeafPanics(t *testing.T) {
	registry := prometheus.NewRegistry()
	l := newTestLeaf(t, func(o *Options) { o.Engine, o.Metrics = panickingQuery{}, guard.NewMetrics(registry) })
	_, err := l.query(t.Context(), &leafpb.QueryRequest{Query: "m"})
	require.Equal(t, codes.Internal, status.Code(err))
	require.ErrorContains(t, err, "promwarp panicked")
	l.ended(t, time.Second)
	n, err := testutil.GatherAndCount(registry, "promwarp_http_panics_total")
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

type panickingQuery struct{ Engine }

func (panickingQuery) NewQuery(context.Context, engine.Request) (promql.Query, error) {
	panic("a bug")
}
