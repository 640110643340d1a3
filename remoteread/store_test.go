package remoteread

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gogo/protobuf/proto"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	commonconfig "github.com/prometheus/common/config"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/promwarp/promwarp/internal/leafpb"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/remoteread/stores"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/selectiontest"
)

// fakeStore is a store that answers as a test says.
type fakeStore struct {
	series func(n int64, r *leafpb.SeriesRequest, send func(any) error) error
	info   leafpb.InfoResponse
	calls  atomic.Int64
	asked  atomic.Pointer[leafpb.SeriesRequest]
	header atomic.Pointer[metadata.MD]
}

func (f *fakeStore) Info(context.Context, *leafpb.InfoRequest) (*leafpb.InfoResponse, error) {
	return &f.info, nil
}

func (f *fakeStore) Series(r *leafpb.SeriesRequest, s leafpb.Store_SeriesServer) error {
	f.asked.Store(r)
	if md, ok := metadata.FromIncomingContext(s.Context()); ok {
		f.header.Store(&md)
	}
	return f.series(f.calls.Add(1), r, func(m any) error { return s.SendMsg(m) })
}

func (f *fakeStore) LabelNames(_ context.Context, r *leafpb.LabelNamesRequest) (*leafpb.LabelNamesResponse, error) {
	return &leafpb.LabelNamesResponse{Names: []string{"job", "a", "job"}, Warnings: []string{fmt.Sprint(r.Start, r.End, len(r.Matchers), r.Limit)}}, nil
}

func (f *fakeStore) LabelValues(_ context.Context, r *leafpb.LabelValuesRequest) (*leafpb.LabelValuesResponse, error) {
	if r.Label == "bad" {
		return nil, grpcstatus.Error(codes.Aborted, "no such luck")
	}
	return &leafpb.LabelValuesResponse{Values: []string{r.Label}}, nil
}

// testCodec sends messages of leafpb, and bytes as they are.
type testCodec struct{ leafpb.Codec }

func (c testCodec) Marshal(v any) ([]byte, error) {
	if b, ok := v.([]byte); ok {
		return b, nil
	}
	return c.Codec.Marshal(v)
}

var _ encoding.Codec = testCodec{}

// serveStore serves f, whose address it returns, and a function that kills it.
func serveStore(t *testing.T, f *fakeStore) (address string, kill func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := grpc.NewServer(grpc.WaitForHandlers(true), grpc.ForceServerCodec(testCodec{}))
	leafpb.RegisterStoreServer(s, f)
	leafpb.RegisterInfoServer(s, f)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return l.Addr().String(), s.Stop
}

// storeOf is a client of f.
func storeOf(t *testing.T, f *fakeStore, cfg stores.Config, o Options) *Store {
	t.Helper()
	cfg.Address, _ = serveStore(t, f)
	s, err := NewStore(cfg, quickly(o))
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// quickly waits little between retries.
func quickly(o Options) Options {
	o.MinBackoff = time.Millisecond
	return o
}

// pairs are labels in the order given.
func pairs(text ...string) (out []prompb.Label) {
	for i := 0; i < len(text); i += 2 {
		out = append(out, prompb.Label{Name: text[i], Value: text[i+1]})
	}
	return out
}

// aggrChunk is an XOR chunk of rising samples at times, 1 s apart.
func aggrChunk(t *testing.T, from, to int64) leafpb.AggrChunk {
	data := selectiontest.Encode(t, chunkenc.EncXOR, selectiontest.TimesBetween(from, to, 1000), selectiontest.Rising)
	return leafpb.AggrChunk{MinTime: from, MaxTime: to, Raw: &leafpb.Chunk{Type: leafpb.Chunk_XOR, Data: data}}
}

func seriesOf(ls []prompb.Label, cs ...leafpb.AggrChunk) *leafpb.SeriesResponse {
	return &leafpb.SeriesResponse{Result: &leafpb.SeriesResponse_Series{Series: &leafpb.Series{Labels: ls, Chunks: cs}}}
}

func warningOf(text string) *leafpb.SeriesResponse {
	return &leafpb.SeriesResponse{Result: &leafpb.SeriesResponse_Warning{Warning: text}}
}

// batchOf puts the series of messages into one.
func batchOf(of ...*leafpb.SeriesResponse) []byte {
	var batch []byte
	for _, m := range of {
		text, _ := proto.Marshal(m.GetSeries())
		batch = protowire.AppendBytes(protowire.AppendTag(batch, 1, protowire.BytesType), text)
	}
	return protowire.AppendBytes(protowire.AppendTag(nil, 4, protowire.BytesType), batch)
}

// sends sends messages and ends.
func sends(messages ...any) func(int64, *leafpb.SeriesRequest, func(any) error) error {
	return func(_ int64, _ *leafpb.SeriesRequest, send func(any) error) error {
		for _, m := range messages {
			if err := send(m); err != nil {
				return err
			}
		}
		return nil
	}
}

var upAny = []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "__name__", "up")}

func fetchStore(ctx context.Context, s *Store) (*selection.Selection, []string, error) {
	sel, ws, err := s.Fetch(ctx, 0, 100_000, upAny, selection.Fetch{})
	warnings, _ := ws.AsStrings("", 0, 0)
	return sel, warnings, err
}

// Series come in any order, in parts and in batches, chunks in any order and more than once: the
// selection has each sample once.
func TestStoreSeries(t *testing.T) {
	a, b := pairs("__name__", "up", "replica", "a"), pairs("__name__", "up", "replica", "b")
	f := &fakeStore{series: sends(
		seriesOf(b, aggrChunk(t, 30_000, 50_000), aggrChunk(t, 0, 20_000)),
		seriesOf(a, aggrChunk(t, 0, 20_000)),
		seriesOf(a, aggrChunk(t, 21_000, 40_000)),
		warningOf("one store is away"),
		batchOf(seriesOf(b, aggrChunk(t, 30_000, 50_000)), seriesOf(a, aggrChunk(t, 35_000, 60_000))),
		warningOf("one store is away"),
	)}
	reg := prometheus.NewRegistry()
	s := storeOf(t, f, stores.Config{Headers: map[string]string{"thanos-tenant": "team"}, Name: "one"}, Options{Registerer: reg})
	sel, ws, err := fetchStore(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, []string{"one store is away"}, ws)
	require.Equal(t, []string{
		`{__name__="up", replica="a"} 0-60000`,
		`{__name__="up", replica="b"} 0-20000 30000-50000`,
	}, spansOf(t, sel))
	require.EqualValues(t, 61-0+21+21, sel.NumSamples())
	require.Equal(t, []string{"team"}, f.header.Load().Get("thanos-tenant"))
	require.EqualValues(t, 100_000, f.asked.Load().MaxTime)
	require.Equal(t, []prompb.LabelMatcher{{Name: "__name__", Value: "up"}}, f.asked.Load().Matchers)
	require.Equal(t, 1.0, testutil.ToFloat64(s.metrics.requests.WithLabelValues("ok")))
	read, since, why := s.Reach()
	require.True(t, read)
	require.Zero(t, since)
	require.NoError(t, why)
}

// spansOf says which times chunks that follow each other at once have.
func spansOf(t *testing.T, sel *selection.Selection) (out []string) {
	for i, l := range sel.Series() {
		text := l.String()
		it := sel.Decode(i, sel.Chunks(i), math.MinInt64, math.MaxInt64, nil)
		ts := selectiontest.Drain(t, it)
		for k, s := range ts {
			if k == 0 || s.T-ts[k-1].T > 1000 {
				text += fmt.Sprintf(" %d", s.T)
			}
			if k == len(ts)-1 || ts[k+1].T-s.T > 1000 {
				text += fmt.Sprintf("-%d", s.T)
			}
		}
		out = append(out, text)
	}
	return out
}

// A request asks for raw samples alone, and for all or an error unless a part will do.
func TestStoreRequest(t *testing.T) {
	ask := func(cfg stores.Config, whole bool) map[protowire.Number][]string {
		var raw []byte
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		server := grpc.NewServer(grpc.WaitForHandlers(true), grpc.ForceServerCodec(rawCodec{&raw}), grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
			var m []byte
			return s.RecvMsg(&m)
		}))
		go func() { _ = server.Serve(l) }()
		defer server.Stop()
		cfg.Address = l.Addr().String()
		s, err := NewStore(cfg, quickly(Options{}))
		require.NoError(t, err)
		defer s.Close()
		_, _, err = s.Fetch(t.Context(), 1, 2, upAny, selection.Fetch{Request: selection.Request{Whole: whole}})
		require.NoError(t, err)
		fields := map[protowire.Number][]string{}
		for b := raw; len(b) > 0; {
			num, typ, n := protowire.ConsumeTag(b)
			size := protowire.ConsumeFieldValue(num, typ, b[n:])
			fields[num] = append(fields[num], fmt.Sprintf("%x", b[n:n+size]))
			b = b[n+size:]
		}
		return fields
	}
	whole := ask(stores.Config{}, false)
	require.Equal(t, []string{"0100"}, whole[5], "raw samples")
	require.Empty(t, whole[4], "no lower resolution")
	require.Equal(t, []string{"01"}, whole[6])
	require.Equal(t, []string{"01"}, whole[7])
	partial := ask(stores.Config{Partial: true}, false)
	require.Empty(t, partial[6])
	require.Empty(t, partial[7])
	require.Equal(t, whole, ask(stores.Config{Partial: true}, true))
}

// rawCodec keeps what came.
type rawCodec struct{ to *[]byte }

func (rawCodec) Name() string                      { return "proto" }
func (rawCodec) Marshal(any) ([]byte, error)       { return nil, nil }
func (c rawCodec) Unmarshal(b []byte, _ any) error { *c.to = append([]byte{}, b...); return nil }

// What a broken store sends is an error that names the store and says what to do, and nothing of it stays.
func TestBrokenStores(t *testing.T) {
	up := pairs("__name__", "up")
	good := seriesOf(up, aggrChunk(t, 0, 20_000))
	corrupt := aggrChunk(t, 0, 20_000)
	corrupt.Raw.Data = corrupt.Raw.Data[:3]
	early := aggrChunk(t, 10_000, 20_000)
	early.MinTime = 15_000
	backwards := aggrChunk(t, 0, 20_000)
	backwards.MinTime, backwards.MaxTime = 20_000, 0
	empty := leafpb.AggrChunk{MinTime: 0, MaxTime: 20_000, Raw: &leafpb.Chunk{}}
	garbage := aggrChunk(t, 0, 20_000)
	for i := range garbage.Raw.Data[2:] {
		garbage.Raw.Data[2+i] ^= byte(37 * i)
	}
	unknown := aggrChunk(t, 0, 20_000)
	unknown.Raw.Type = 7
	for name, one := range map[string]struct {
		series func(int64, *leafpb.SeriesRequest, func(any) error) error
		want   string
		calls  int64 // one, where it is 0
	}{
		"dies in mid-stream": {func(_ int64, _ *leafpb.SeriesRequest, send func(any) error) error {
			return errors.Join(send(good), grpcstatus.Error(codes.Unavailable, "shutting down"))
		}, "the answer was cut off", 4},
		"fails": {func(int64, *leafpb.SeriesRequest, func(any) error) error {
			return grpcstatus.Error(codes.Aborted, "block missing")
		}, "gRPC status Aborted: block missing (after 4 attempts); see the store's log", 4},
		"refuses": {func(int64, *leafpb.SeriesRequest, func(any) error) error {
			return grpcstatus.Error(codes.ResourceExhausted, "exceeded series limit")
		}, "exceeded series limit; see the store's log and its limits", 0},
		"labels not in order":         {sends(seriesOf(pairs("job", "x", "__name__", "up"), aggrChunk(t, 0, 20_000))), "labels are not sorted", 0},
		"a label twice":               {sends(seriesOf(pairs("__name__", "up", "a", "1", "a", "2"), aggrChunk(t, 0, 20_000))), `label "a" appears twice`, 0},
		"another series":              {sends(seriesOf(pairs("__name__", "down"), aggrChunk(t, 0, 20_000))), "which was asked for", 0},
		"a series without a name":     {sends(seriesOf(pairs("job", "x"), aggrChunk(t, 0, 20_000))), "which was asked for", 0},
		"a truncated chunk":           {sends(seriesOf(up, corrupt)), "corrupt chunk", 0},
		"a chunk that is too early":   {sends(seriesOf(up, early)), "lies outside its stated time range", 0},
		"a chunk from back to front":  {sends(seriesOf(up, backwards)), "its start is after its end", 0},
		"a chunk without bytes":       {sends(seriesOf(up, empty)), "corrupt chunk", 0},
		"overlapping garbage":         {sends(seriesOf(up, aggrChunk(t, 5_000, 30_000), garbage)), "corrupt chunk", 0},
		"a label value of 17 MiB":     {sends(seriesOf(pairs("__name__", "up", "a", strings.Repeat("x", 17<<20)), aggrChunk(t, 0, 20_000))), "raise --upstream.max-frame-bytes", 0},
		"an unknown encoding":         {sends(seriesOf(up, unknown)), "unknown chunk encoding 7", 0},
		"lower resolution":            {sends(seriesOf(up, leafpb.AggrChunk{MinTime: 0, MaxTime: 1})), "of a lower resolution", 0},
		"no protobuf":                 {sends([]byte("\x0a\xff\xff")), "not valid protobuf", 0},
		"another kind of field":       {sends([]byte("\x08\x01")), "field 1 of a message has wire type 0", 0},
		"a message that is too large": {sends(seriesOf(up, leafpb.AggrChunk{Raw: &leafpb.Chunk{Data: make([]byte, 2<<20)}})), "raise --upstream.max-frame-bytes", 0},
		"series without end": {func(_ int64, _ *leafpb.SeriesRequest, send func(any) error) error {
			for i := 0; ; i++ {
				if err := send(seriesOf(pairs("__name__", "up", "i", fmt.Sprint(i)), aggrChunk(t, 0, 20_000))); err != nil {
					return err
				}
			}
		}, "raise --upstream.max-bytes", 0},
		"empty messages without end": {func(_ int64, _ *leafpb.SeriesRequest, send func(any) error) error {
			for {
				if err := send([]byte{}); err != nil {
					return err
				}
			}
		}, "raise --upstream.max-bytes", 0},
		"the same series without end": {func(_ int64, _ *leafpb.SeriesRequest, send func(any) error) error {
			for {
				if err := send(seriesOf(up)); err != nil {
					return err
				}
			}
		}, "raise --upstream.max-bytes", 0},
		"stalls": {func(_ int64, _ *leafpb.SeriesRequest, send func(any) error) error {
			err := send(good)
			time.Sleep(time.Second)
			return err
		}, "nothing came in time: context deadline exceeded; raise remote_timeout", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fakeStore{series: one.series}
			progress := &selection.Progress{}
			timeout := time.Minute
			if name == "stalls" {
				timeout = 100 * time.Millisecond
			}
			s := storeOf(t, f, stores.Config{Timeout: timeout}, Options{MaxFrameBytes: 1 << 20, MaxBytes: 4 << 20})
			sel, _, err := s.Fetch(t.Context(), 0, 100_000, upAny, selection.Fetch{Request: selection.Request{Progress: progress}})
			require.Nil(t, sel)
			require.ErrorContains(t, err, one.want)
			require.True(t, strings.HasPrefix(err.Error(), "the store "+s.upstream+": "), err)
			require.Contains(t, err.Error(), "; ", "what to do")
			require.Equal(t, max(one.calls, 1), f.calls.Load())
			require.Zero(t, progress.Arrived(), "nothing stays counted")
		})
	}
}

// A store that comes back within the retries is of no consequence, and what came before it died is not
// in the answer twice.
func TestStoreRetries(t *testing.T) {
	good := seriesOf(pairs("__name__", "up"), aggrChunk(t, 0, 20_000))
	f := &fakeStore{series: func(n int64, _ *leafpb.SeriesRequest, send func(any) error) error {
		if err := send(good); n > 2 || err != nil {
			return err
		}
		return errors.Join(send(warningOf("of an attempt that failed")), grpcstatus.Error(codes.Unavailable, "away"))
	}}
	sel, ws, err := fetchStore(t.Context(), storeOf(t, f, stores.Config{}, Options{}))
	require.NoError(t, err)
	require.Empty(t, ws)
	require.Equal(t, []string{`{__name__="up"} 0-20000`}, spansOf(t, sel))
	require.EqualValues(t, 3, f.calls.Load())
}

// A cancelled fetch cancels the call at the store, and is the context's error.
func TestStoreCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	f := &fakeStore{series: func(_ int64, _ *leafpb.SeriesRequest, send func(any) error) error {
		cancel()
		for {
			if err := send(warningOf("x")); err != nil {
				gone <- err
				return err
			}
			time.Sleep(time.Millisecond)
		}
	}}
	_, _, err := fetchStore(ctx, storeOf(t, f, stores.Config{}, Options{}))
	require.ErrorIs(t, err, context.Canceled)
	select {
	case <-gone:
	case <-time.After(10 * time.Second):
		t.Fatal("the store goes on")
	}
}

// Memory that the process lacks is no fault of the store.
func TestStoreMemory(t *testing.T) {
	f := &fakeStore{series: func(_ int64, _ *leafpb.SeriesRequest, send func(any) error) error {
		for i := 0; ; i++ {
			if err := send(seriesOf(pairs("__name__", "up", "i", fmt.Sprint(i)), aggrChunk(t, 0, 100_000))); err != nil {
				return err
			}
		}
	}}
	pool := memory.New(memory.Options{Limit: 64 << 20, Wait: time.Millisecond})
	pool.Count(memory.Fetched, 65<<20)
	_, _, err := fetchStore(t.Context(), storeOf(t, f, stores.Config{}, Options{Memory: pool}))
	require.True(t, memory.Exhausted(err), err)
}

func TestStoreLists(t *testing.T) {
	s := storeOf(t, &fakeStore{}, stores.Config{}, Options{})
	names, ws, err := s.LabelNames(t.Context(), math.MinInt64, math.MaxInt64, &storage.LabelHints{Limit: 3}, upAny...)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "job"}, names)
	said, _ := ws.AsStrings("", 0, 0)
	require.Equal(t, []string{"-62135596800000 253402300800000 1 3"}, said)
	values, _, err := s.LabelValues(t.Context(), 0, 1, "job", nil)
	require.NoError(t, err)
	require.Equal(t, []string{"job"}, values)
	_, _, err = s.LabelValues(t.Context(), 0, 1, "bad", nil)
	require.ErrorContains(t, err, "gRPC status Aborted: no such luck; see the store's log")
}

// A store misses nothing until the end of the blocks of the label set that is furthest behind. Sets that
// have ended do not count.
func TestStoreInfo(t *testing.T) {
	now := time.Now().UnixMilli()
	const hour = 3_600_000
	set := func(name string) leafpb.LabelSet { return leafpb.LabelSet{Labels: pairs("cluster", name)} }
	one := func(name string, end int64) leafpb.TSDBInfo { return leafpb.TSDBInfo{Labels: set(name), MaxTime: end} }
	f := &fakeStore{info: leafpb.InfoResponse{ComponentType: "store", LabelSets: []leafpb.LabelSet{set("b"), set("a")}, Store: &leafpb.StoreInfo{
		MaxTime: now - hour, TsdbInfos: []leafpb.TSDBInfo{one("a", now-30*hour), one("a", now-hour), one("b", now-3*hour), one("gone", now-20*hour)},
	}}}
	s := storeOf(t, f, stores.Config{}, Options{})
	require.EqualValues(t, math.MinInt64, s.Complete())
	require.NoError(t, s.Probe(t.Context()))
	require.EqualValues(t, now-3*hour, s.Complete())
	facts, ok := s.Facts()
	require.True(t, ok)
	require.Contains(t, facts.String(), `Thanos store, external labels {cluster="a"}, {cluster="b"}, samples until `)
	relabelled := 0
	s.OnRelabelled(func() { relabelled++ })
	f.info.LabelSets = []leafpb.LabelSet{set("a")}
	f.info.Store = &leafpb.StoreInfo{MaxTime: math.MaxInt64}
	require.NoError(t, s.Probe(t.Context()))
	require.Zero(t, relabelled)
	f.info.LabelSets = []leafpb.LabelSet{set("c")}
	require.NoError(t, s.Probe(t.Context()))
	require.Equal(t, 1, relabelled)
	require.EqualValues(t, math.MaxInt64, s.Complete())
}

// What is no store at all is told from one that is away.
func TestNoStore(t *testing.T) {
	probe := func(address string, tlsConfig *commonconfig.TLSConfig) error {
		s, err := NewStore(stores.Config{Address: address, TLS: tlsConfig}, Options{})
		require.NoError(t, err)
		defer s.Close()
		err = s.Probe(t.Context())
		require.Error(t, err)
		return err
	}
	empty := grpc.NewServer(grpc.WaitForHandlers(true))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = empty.Serve(l) }()
	defer empty.Stop()
	err = probe(l.Addr().String(), nil)
	require.True(t, NoStore(err))
	require.ErrorContains(t, err, "--grpc-address")

	err = probe(l.Addr().String(), &commonconfig.TLSConfig{InsecureSkipVerify: true})
	require.False(t, NoStore(err))
	require.ErrorContains(t, err, "check tls_config")

	web, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = http.Serve(web, http.NotFoundHandler()) }()
	defer web.Close()
	require.ErrorContains(t, probe(web.Addr().String(), nil), "--grpc-address")

	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, free.Close())
	err = probe(free.Addr().String(), nil)
	require.ErrorContains(t, err, "check that the store is running and its log")
	for _, address := range []string{"", "sidecar", "http://sidecar:10901", ":10901", "a b:1"} {
		_, err := NewStore(stores.Config{Address: address}, Options{})
		require.ErrorContains(t, err, "such as sidecar:10901", address)
	}
}

// lowerChunk is a chunk of lower resolution with aggregates, by their fields.
func lowerChunk(t *testing.T, from, to int64, fields map[protowire.Number]func(int64) float64) []byte {
	b := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(from))
	b = protowire.AppendVarint(protowire.AppendTag(b, 2, protowire.VarintType), uint64(to))
	for field := range protowire.Number(9) {
		if value := fields[field]; value != nil {
			c := chunkenc.NewXORChunk()
			app, err := c.Appender()
			require.NoError(t, err)
			for at := from; at <= to; at += 300_000 {
				app.Append(0, at, value(at))
			}
			if field == 8 {
				app.Append(0, to, value(to)) // the last raw value
			}
			data := protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), c.Bytes())
			b = protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), data)
		}
	}
	return b
}

// ofChunks is a message with one series of chunks as they lie on the wire.
func ofChunks(chunks ...[]byte) []byte {
	label, _ := (&prompb.Label{Name: "__name__", Value: "up"}).Marshal()
	series := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), label)
	for _, c := range chunks {
		series = protowire.AppendBytes(protowire.AppendTag(series, 2, protowire.BytesType), c)
	}
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), series)
}

// Which aggregate is asked for and read depends on the function. Raw samples of other times go with them.
func TestStoreAggregates(t *testing.T) {
	const end, window = 299_999, 300_000
	constant := func(v float64) func(int64) float64 { return func(int64) float64 { return v } }
	all := map[protowire.Number]func(int64) float64{
		4: constant(5), 5: constant(20), 6: constant(1), 7: constant(9), 8: func(at int64) float64 { return float64(at) },
	}
	rawChunk := aggrChunk(t, end+window-100_000, end+window+3000)
	raw, err := rawChunk.Marshal()
	require.NoError(t, err)
	beside := aggrChunk(t, end+window+1000, end+window+3000)
	after, err := beside.Marshal()
	require.NoError(t, err)
	f := &fakeStore{series: sends(ofChunks(lowerChunk(t, end, end+window, all), after))}
	s := storeOf(t, f, stores.Config{MaxResolution: time.Hour}, Options{})
	for _, one := range []struct {
		function   string
		window     time.Duration
		aggregates []leafpb.Aggr
		resolution time.Duration
		first      float64 // value
	}{
		{"", 0, []leafpb.Aggr{leafpb.Aggr_COUNT, leafpb.Aggr_SUM}, time.Hour, 4},
		{"sum", 0, []leafpb.Aggr{leafpb.Aggr_COUNT, leafpb.Aggr_SUM}, time.Hour, 4},
		{"sum_over_time", time.Hour, []leafpb.Aggr{leafpb.Aggr_SUM}, time.Hour, 20},
		{"count", 0, []leafpb.Aggr{leafpb.Aggr_COUNT}, time.Hour, 5},
		{"min_over_time", time.Minute, []leafpb.Aggr{leafpb.Aggr_MIN}, time.Hour, 1},
		{"max", 0, []leafpb.Aggr{leafpb.Aggr_MAX}, time.Hour, 9},
		{"rate", 2 * time.Hour, []leafpb.Aggr{leafpb.Aggr_COUNTER}, time.Hour, end},
		{"increase", time.Hour, []leafpb.Aggr{leafpb.Aggr_COUNTER}, 5 * time.Minute, end},
	} {
		m := stores.Aggregate(one.function, one.window, time.Hour)
		sel, _, err := s.Fetch(t.Context(), 0, 2*window, append(upAny, m), selection.Fetch{})
		require.NoError(t, err, one.function)
		require.Equal(t, one.aggregates, f.asked.Load().Aggregates, one.function)
		require.Equal(t, one.resolution.Milliseconds(), f.asked.Load().MaxResolutionWindow, one.function)
		require.Len(t, f.asked.Load().Matchers, 1)
		got := selectiontest.Drain(t, sel.Decode(0, sel.Chunks(0), math.MinInt64, math.MaxInt64, nil))
		require.Len(t, got, 2+3, one.function)
		require.Equal(t, one.first, math.Float64frombits(got[0].V), one.function)
	}
	require.Equal(t, "raw", stores.Aggregate("rate", 5*time.Minute, time.Hour).Value, "too short a range")

	for name, one := range map[string]struct {
		chunk []byte
		want  string
	}{
		"raw samples of the same times": {raw, "read the store gateway"},
		"another aggregate":             {lowerChunk(t, end, end, map[protowire.Number]func(int64) float64{6: constant(1)}), "lacks the aggregate"},
		"garbage":                       {append(lowerChunk(t, end, end, nil), 0x42, 4, 0x12, 2, 0, 9), "corrupt chunk"},
		"no bytes":                      {append(lowerChunk(t, end, end, nil), 0x42, 2, 0x12, 0), "it has no samples"},
		"no samples":                    {append(lowerChunk(t, end, end, nil), 0x42, 4, 0x12, 2, 0, 0), "it has no samples"},
	} {
		f.series = sends(ofChunks(one.chunk, lowerChunk(t, end, end+window, all)))
		_, _, err := s.Fetch(t.Context(), 0, 2*window, append(upAny, stores.Aggregate("rate", 0, time.Hour)), selection.Fetch{})
		require.ErrorContains(t, err, one.want, name)
	}
}
