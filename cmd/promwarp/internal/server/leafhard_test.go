package server

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gogo/protobuf/proto"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/internal/leafpb"
	"github.com/promwarp/promwarp/internal/testlog"
	"github.com/promwarp/promwarp/selection"
)

// wide is an upstream with a number of series, of one sample each.
type wide int

func (n wide) Fetch(context.Context, int64, int64, []*labels.Matcher, selection.Fetch) (*selection.Selection, annotations.Annotations, error) {
	b := selection.NewBuilder(0)
	for i := range int(n) {
		b.Series(labels.FromStrings("__name__", "up", "i", fmt.Sprintf("%07d", i)))
		if err := b.Floats([]int64{1000}, []float64{1}); err != nil {
			return nil, nil, err
		}
	}
	s, err := b.Finish()
	return s, nil, err
}

const (
	leafReads  = time.Second            // web.read_timeout
	leafWrites = 500 * time.Millisecond // web.write_timeout
	leafGrace  = 20 * time.Second       // until what is beyond both is cut off, on a busy machine
)

// hardLeaf runs a leaf that has little patience, and returns its address for gRPC.
func hardLeaf(t *testing.T, cfg Config) (s *Server, address string) {
	t.Helper()
	set := quickSettings()
	set.GRPC.ListenAddress = "127.0.0.1:0"
	set.Web.ReadTimeout, set.Web.WriteTimeout = model.Duration(leafReads), model.Duration(leafWrites)
	set.TSDB = cfg.Settings.TSDB
	cfg.Settings = set
	s, _ = runServer(t, cfg)
	return s, s.listeners[len(s.listeners)-1].Addr().String()
}

// spent is the most goroutines and bytes of the heap that were beyond those at the start.
type spent struct{ goroutines, bytes atomic.Int64 }

// watch watches what f spends, and requires that the goroutines end.
func watch(t *testing.T, f func()) *spent {
	t.Helper()
	s, stop, stopped := &spent{}, make(chan struct{}), make(chan struct{})
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	heap, before := int64(m.HeapAlloc), runtime.NumGoroutine()
	go func() {
		defer close(stopped)
		for {
			runtime.ReadMemStats(&m)
			s.bytes.Store(max(s.bytes.Load(), int64(m.HeapAlloc)-heap))
			s.goroutines.Store(max(s.goroutines.Load(), int64(runtime.NumGoroutine()-before)))
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	f()
	close(stop)
	<-stopped
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+5 }, leafGrace, 10*time.Millisecond, "goroutines end")
	return s
}

// frames is a client that writes frames of HTTP/2 as it likes.
type frames struct {
	net.Conn
	*http2.Framer
	header  bytes.Buffer
	encoder *hpack.Encoder
}

// dialFrames connects to a leaf. A window of its streams is as large as given.
func dialFrames(t *testing.T, address string, window uint32) *frames {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	_, err = io.WriteString(conn, http2.ClientPreface)
	require.NoError(t, err)
	f := &frames{Conn: conn, Framer: http2.NewFramer(conn, conn)}
	f.encoder = hpack.NewEncoder(&f.header)
	require.NoError(t, f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}))
	return f
}

// begin writes the header of a call.
func (f *frames) begin(stream int, path string, end bool, more ...[2]string) error {
	f.header.Reset()
	for _, field := range append([][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", path}, {":authority", "leaf"}, {"content-type", "application/grpc"}, {"te", "trailers"}}, more...) {
		if err := f.encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}); err != nil {
			return err
		}
	}
	return f.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(stream), BlockFragment: f.header.Bytes(), EndHeaders: true, EndStream: end})
}

// call writes a call.
func (f *frames) call(stream int, path string, message proto.Message) error {
	b, err := proto.Marshal(message)
	if err == nil {
		err = f.begin(stream, path, false)
	}
	if err == nil {
		err = f.WriteData(uint32(stream), true, append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(b))), b...))
	}
	return err
}

// ended waits until a number of streams have ended, by a reset or whole.
func (f *frames) ended(n int) error {
	_ = f.SetReadDeadline(time.Now().Add(leafGrace))
	for n > 0 {
		frame, err := f.ReadFrame()
		if err != nil {
			return err
		}
		if _, reset := frame.(*http2.RSTStreamFrame); reset || frame.Header().StreamID != 0 && frame.Header().Flags.Has(http2.FlagHeadersEndStream) {
			n--
		}
	}
	return nil
}

// closed waits until the server closes a connection, and returns what it said.
func closed(conn net.Conn) (said string, err error) {
	_ = conn.SetReadDeadline(time.Now().Add(leafGrace))
	b, err := io.ReadAll(conn)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return string(b), fmt.Errorf("the connection is open, with %q on it", b)
	}
	return string(b), nil
}

// TestLeafGarbage: what is no gRPC, begins slowly, or ends in the middle is refused or closed in time.
func TestLeafGarbage(t *testing.T) {
	var log testlog.Log
	_, address := hardLeaf(t, Config{Upstream: counting{}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	t.Cleanup(func() { require.NotZero(t, log.Count("http2: server connection error"), "net/http tells the log") })
	settings := "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	for name, sent := range map[string]string{
		"nothing":                "",
		"half a preface":         http2.ClientPreface[:9],
		"no settings":            http2.ClientPreface,
		"settings alone":         http2.ClientPreface + settings,
		"half a frame":           http2.ClientPreface + settings + "\x00\x10\x00\x01\x04\x00\x00\x00\x01half",
		"a frame of 16 MB":       http2.ClientPreface + settings + "\xff\xff\xff\x00\x00\x00\x00\x00\x01",
		"data of no stream":      http2.ClientPreface + settings + "\x00\x00\x01\x00\x00\x00\x00\x00\x00x",
		"zeros":                  strings.Repeat("\x00", 1<<16),
		"TLS":                    "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("x", 500),
		"a request of HTTP/1.1":  "GET /api/v1/query?query=up HTTP/1.1\r\nHost: leaf\r\n\r\n",
		"a call by HTTP/1.1":     "POST /thanos.Query/Query HTTP/1.1\r\nHost: leaf\r\nContent-Type: application/grpc\r\nContent-Length: 5\r\n\r\n\x00\x00\x00\x00\x00",
		"an upgrade to HTTP/2":   "GET / HTTP/1.1\r\nHost: leaf\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n\r\n",
		"an endless line":        "GET /" + strings.Repeat("a", 1<<20),
		"what Redis is asked by": "*1\r\n$4\r\nPING\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", address)
			require.NoError(t, err)
			defer conn.Close()
			_, _ = io.WriteString(conn, sent)
			said, err := closed(conn)
			require.NoError(t, err)
			require.NotContains(t, said, "HTTP/1.1 2")
		})
	}
}

// TestLeafFloods: a client that opens streams, resets, pings or sends settings or headers without end, and reads
// nothing, takes few goroutines and little memory; another is answered meanwhile.
func TestLeafFloods(t *testing.T) {
	const many = 100_000
	s, address := hardLeaf(t, Config{Upstream: counting{}})
	require.NoError(t, askLeaf(t, s, insecure.NewCredentials()))
	for name, flood := range map[string]func(f *frames, i int) error{
		"streams": func(f *frames, i int) error { return f.begin(2*i+1, "/thanos.Query/Query", false) },
		"resets": func(f *frames, i int) error {
			return errors.Join(f.begin(2*i+1, "/thanos.Query/Query", false), f.WriteRSTStream(uint32(2*i+1), http2.ErrCodeCancel))
		},
		"calls without a message": func(f *frames, i int) error { return f.begin(2*i+1, "/thanos.Store/Series", true) },
		"unknown calls":           func(f *frames, i int) error { return f.begin(2*i+1, "/thanos.Query/Nothing", true) },
		"pings":                   func(f *frames, i int) error { return f.WritePing(false, [8]byte{1}) },
		"settings":                func(f *frames, i int) error { return f.WriteSettings() },
		"a header without end": func(f *frames, i int) error {
			part := bytes.Repeat([]byte("\x40\x01a\x01b"), 1000)
			if i == 0 {
				return errors.Join(f.begin(1, "/thanos.Query/Query", false), f.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: part}))
			}
			return f.WriteContinuation(3, false, part)
		},
		"data without bytes": func(f *frames, i int) error {
			if i == 0 {
				return f.begin(1, "/thanos.Query/Query", false)
			}
			return f.WriteData(1, false, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			used := watch(t, func() {
				f := dialFrames(t, address, 1<<16)
				_ = f.SetWriteDeadline(time.Now().Add(leafGrace))
				i := 0
				for i < many && flood(f, i) == nil {
					i++
				}
				require.NoError(t, askLeaf(t, s, insecure.NewCredentials()), "another client")
				f.Close()
			})
			t.Logf("%d goroutines, %.1f MB", used.goroutines.Load(), float64(used.bytes.Load())/1e6)
			require.Less(t, used.goroutines.Load(), int64(1500))
			require.Less(t, used.bytes.Load(), int64(100<<20))
		})
	}
}

// TestLeafReadsNothing: a client that opens no window for what it asked, or sends its question by a byte now and
// then, is cut off in time: slots, memory and goroutines are free.
func TestLeafReadsNothing(t *testing.T) {
	s, address := hardLeaf(t, Config{Upstream: wide(2000)})
	free := func() bool { return s.queues.queries.Running()+s.queues.reads.Running()+s.queues.lists.Running() == 0 }
	const streams = 40
	for path, message := range map[string]proto.Message{
		"/thanos.info.Info/Info":     &leafpb.InfoRequest{},
		"/thanos.Query/Query":        &leafpb.QueryRequest{Query: "up", TimeSeconds: 1, ResponseBatchSize: 1 << 40},
		"/thanos.Query/QueryRange":   &leafpb.QueryRangeRequest{Query: "up", StartTimeSeconds: 1, EndTimeSeconds: 60, IntervalSeconds: 1},
		"/thanos.Store/Series":       &leafpb.SeriesRequest{MaxTime: 2000, Matchers: []prompb.LabelMatcher{{Name: "__name__", Value: "up"}}},
		"/thanos.Store/LabelNames":   &leafpb.LabelNamesRequest{},
		"/thanos.Query/Query slowly": nil,
	} {
		t.Run(path, func(t *testing.T) {
			watch(t, func() {
				f := dialFrames(t, address, 0)
				for i := range streams {
					if message != nil {
						require.NoError(t, f.call(2*i+1, path, message))
						continue
					}
					require.NoError(t, f.begin(2*i+1, strings.Fields(path)[0], false))
					require.NoError(t, f.WriteData(uint32(2*i+1), false, []byte("\x00\x00\x00\x10\x00")))
				}
				ended := make(chan error, 1)
				go func() { ended <- f.ended(streams) }()
				for waiting := true; waiting; {
					select {
					case err := <-ended:
						require.NoError(t, err)
						waiting = false
					case <-time.After(100 * time.Millisecond):
						for i := range streams {
							if message == nil {
								_ = f.WriteData(uint32(2*i+1), false, []byte("x"))
							}
						}
					}
				}
				f.Close()
			})
			require.Eventually(t, free, leafGrace, time.Millisecond, "slots are free")
			require.NoError(t, askLeaf(t, s, insecure.NewCredentials()))
		})
	}
}

// dialLeaf connects to a leaf, with messages of any size.
func dialLeaf(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{}), grpc.MaxCallSendMsgSize(math.MaxInt32)))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// raw is a codec for which bytes are a message, too.
type raw struct{ gogo }

func (r raw) Marshal(v any) ([]byte, error) {
	if b, ok := v.([]byte); ok {
		return b, nil
	}
	return r.gogo.Marshal(v)
}

// lastOf makes a call, and returns the error that ends it.
func lastOf(ctx context.Context, conn *grpc.ClientConn, path string, message any, options ...grpc.CallOption) error {
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, path, options...)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(message); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	_ = stream.CloseSend()
	for err == nil {
		err = stream.RecvMsg(&leafpb.InfoRequest{})
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// repeated is a message with a field of bytes that comes a number of times.
func repeated(before proto.Message, field protowire.Number, value []byte, times int) []byte {
	b, _ := proto.Marshal(before)
	one := protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), value)
	return append(b, bytes.Repeat(one, times)...)
}

// TestLeafHostile: calls with too much of anything are a clear error, or are answered, in little memory and time.
func TestLeafHostile(t *testing.T) {
	s, address := hardLeaf(t, Config{Upstream: counting{}})
	conn := dialLeaf(t, address)
	const query, ranged, series, names, values = "/thanos.Query/Query", "/thanos.Query/QueryRange", "/thanos.Store/Series", "/thanos.Store/LabelNames", "/thanos.Store/LabelValues"
	up := &leafpb.QueryRequest{Query: "up", TimeSeconds: 1}
	pattern := func(text string, times int) []prompb.LabelMatcher {
		all := make([]prompb.LabelMatcher, times)
		for i := range all {
			all[i] = prompb.LabelMatcher{Type: prompb.LabelMatcher_RE, Name: "job", Value: text}
		}
		return all
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, err := z.Write(make([]byte, 256<<20))
	require.NoError(t, errors.Join(err, z.Close()))
	for name, c := range map[string]struct {
		path    string
		message any
		code    codes.Code
		text    string
	}{
		"a plan of 3 MB":                   {query, repeated(up, 14, make([]byte, 3<<20), 1), codes.OK, ""},
		"a plan of 20 MB":                  {query, repeated(up, 14, make([]byte, 20<<20), 1), codes.ResourceExhausted, "larger than max"},
		"500 replica labels":               {query, repeated(up, 5, []byte("replica"), 500), codes.OK, ""},
		"100 000 replica labels":           {query, repeated(up, 5, []byte("replica"), 100_000), codes.Internal, "more than 16384 values"},
		"3 million empty replica labels":   {query, repeated(up, 5, nil, 3_000_000), codes.Internal, "more than 16384 values"},
		"3 million empty matchers":         {series, repeated(&leafpb.SeriesRequest{}, 3, nil, 3_000_000), codes.Internal, "more than 16384 values"},
		"3 million matchers of stores":     {ranged, repeated(&leafpb.QueryRangeRequest{Query: "up"}, 8, bytes.Repeat([]byte{0x0a, 0}, 3_000_000), 1), codes.Internal, "more than 16384 values"},
		"matchers of stores":               {query, repeated(up, 6, []byte("\x0a\x04\x12\x02up"), 2), codes.Unimplemented, "one store"},
		"300 matchers":                     {series, &leafpb.SeriesRequest{MaxTime: 1, Matchers: pattern("a", 300)}, codes.InvalidArgument, "query.max-items"},
		"a query of 2 MB":                  {query, &leafpb.QueryRequest{Query: "up" + strings.Repeat("+up", 700_000)}, codes.InvalidArgument, "query.max-length"},
		"a deep query":                     {ranged, &leafpb.QueryRangeRequest{Query: strings.Repeat("abs(", 100_000), IntervalSeconds: 1}, codes.InvalidArgument, "query.max-depth"},
		"a pattern of 2 MB":                {series, &leafpb.SeriesRequest{MaxTime: 1, Matchers: pattern(strings.Repeat("a.", 1<<20), 1)}, codes.InvalidArgument, "query.max-regexp-size"},
		"patterns of a series":             {series, &leafpb.SeriesRequest{MaxTime: 1, Matchers: pattern(strings.Repeat("x{1000}", 600), 100)}, codes.InvalidArgument, "query.max-regexp-size"},
		"patterns of series, no chunks":    {series, &leafpb.SeriesRequest{MaxTime: 1, SkipChunks: true, Matchers: pattern(strings.Repeat("x{1000}", 600), 100)}, codes.InvalidArgument, "query.max-regexp-size"},
		"patterns of names":                {names, &leafpb.LabelNamesRequest{Matchers: pattern(strings.Repeat("x{1000}", 600), 100)}, codes.InvalidArgument, "query.max-regexp-size"},
		"patterns of values":               {values, &leafpb.LabelValuesRequest{Label: "job", Matchers: pattern(strings.Repeat("x{1000}", 600), 100)}, codes.InvalidArgument, "query.max-regexp-size"},
		"no pattern":                       {names, &leafpb.LabelNamesRequest{Matchers: pattern("(", 1)}, codes.InvalidArgument, "missing closing )"},
		"a matcher of a kind that none is": {names, &leafpb.LabelNamesRequest{Matchers: []prompb.LabelMatcher{{Type: -1, Name: "job"}}}, codes.InvalidArgument, "matcher"},
		"ms for seconds":                   {query, &leafpb.QueryRequest{Query: "up", TimeSeconds: 1_700_000_000_000}, codes.InvalidArgument, "after 9999"},
		"a range in ms":                    {ranged, &leafpb.QueryRangeRequest{Query: "up", StartTimeSeconds: 1_700_000_000_000, EndTimeSeconds: 1_700_000_600_000, IntervalSeconds: 15_000}, codes.InvalidArgument, "after 9999"},
		"a step of all times":              {ranged, &leafpb.QueryRangeRequest{Query: "up", EndTimeSeconds: 60, IntervalSeconds: math.MaxInt64}, codes.OK, ""},
		"a step backwards":                 {ranged, &leafpb.QueryRangeRequest{Query: "up", EndTimeSeconds: 60, IntervalSeconds: math.MinInt64}, codes.InvalidArgument, "step"},
		"a timeout of all times":           {query, &leafpb.QueryRequest{Query: "up", TimeSeconds: 1, TimeoutSeconds: math.MaxInt64, LookbackDeltaSeconds: math.MaxInt64}, codes.OK, ""},
		"a negative batch":                 {query, &leafpb.QueryRequest{Query: "up", TimeSeconds: 1, ResponseBatchSize: math.MinInt64}, codes.OK, ""},
		"a batch of 1<<40":                 {query, &leafpb.QueryRequest{Query: "up", TimeSeconds: 1, ResponseBatchSize: 1 << 40}, codes.OK, ""},
		"a shard of less than none":        {query, &leafpb.QueryRequest{Query: "up", TimeSeconds: 1, ShardInfo: &leafpb.ShardInfo{ShardIndex: -1, TotalShards: math.MinInt64}}, codes.OK, ""},
		"a negative limit":                 {series, &leafpb.SeriesRequest{MaxTime: 2000, Limit: math.MinInt64, Matchers: []prompb.LabelMatcher{{Name: "__name__", Value: "up"}}}, codes.OK, ""},
		"a path for a label":               {values, &leafpb.LabelValuesRequest{Label: "../../../-/quit"}, codes.Aborted, "listing label names"},
		"no label":                         {values, &leafpb.LabelValuesRequest{}, codes.InvalidArgument, "invalid label name"},
		"a label that is no text":          {values, repeated(&leafpb.LabelValuesRequest{}, 1, []byte("\xff"), 1), codes.InvalidArgument, "invalid label name"},
		"a field that ends in the middle":  {query, []byte("\x0a\x7fup"), codes.Internal, "unmarshal"},
		"a group":                          {query, bytes.Repeat([]byte{0x0b}, 1<<20), codes.Internal, "unmarshal"},
		"a number without end":             {query, bytes.Repeat([]byte{0x80}, 1<<20), codes.Internal, "unmarshal"},
		"text that is none":                {query, repeated(&leafpb.QueryRequest{}, 1, []byte("up{a=\"\xff\"}"), 1), codes.InvalidArgument, "parse error"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, leave := context.WithTimeout(t.Context(), leafGrace)
			defer leave()
			began := time.Now()
			var err error
			used := watch(t, func() { err = lastOf(ctx, conn, c.path, c.message) })
			require.Equal(t, c.code, status.Code(err), err)
			if err != nil {
				require.ErrorContains(t, err, c.text)
				require.Less(t, len(err.Error()), 64<<10)
			}
			require.Less(t, time.Since(began), leafGrace/5)
			require.Less(t, used.bytes.Load(), int64(200<<20))
		})
	}
	t.Run("a message that is zeros, compressed", func(t *testing.T) {
		used := watch(t, func() {
			f := dialFrames(t, address, 1<<16)
			require.NoError(t, f.begin(1, query, false, [2]string{"grpc-encoding", "gzip"}))
			body := append(binary.BigEndian.AppendUint32([]byte{1}, uint32(zipped.Len())), zipped.Bytes()...)
			for len(body) > 0 {
				n := min(len(body), 1<<14)
				require.NoError(t, f.WriteData(1, n == len(body), body[:n]))
				body = body[n:]
			}
			require.NoError(t, f.ended(1))
			f.Close()
		})
		require.Less(t, used.bytes.Load(), int64(100<<20))
	})
	t.Run("metadata", func(t *testing.T) {
		for n, size := range map[int]int{2000: 10, 10: 100_000} {
			pairs := metadata.MD{}
			for i := range n {
				pairs.Set(fmt.Sprint("x", i), strings.Repeat("a", size))
			}
			err := lastOf(metadata.NewOutgoingContext(t.Context(), pairs), conn, query, up)
			require.Error(t, err, "%d of %d bytes", n, size)
		}
	})
	require.NoError(t, askLeaf(t, s, insecure.NewCredentials()))
	_, metrics := fetch(t, "GET", s.URL()+"/metrics")
	assert.Contains(t, metrics, "promwarp_http_panics_total 0")
}

// TestLeafLabelNames: values of labels come whatever the name is.
func TestLeafLabelNames(t *testing.T) {
	dir := t.TempDir()
	db, err := tsdb.Open(dir, nil, nil, tsdb.DefaultOptions(), nil)
	require.NoError(t, err)
	app := db.Appender(t.Context())
	all := []string{"größe", "a/b", "a b", "50%", "service.name", "?x=y", "../../../-/quit"}
	for _, name := range all {
		_, err := app.Append(0, labels.FromStrings("__name__", "m", name, "value of "+name), 60_000, 1)
		require.NoError(t, err)
	}
	require.NoError(t, errors.Join(app.Commit(), db.Close()))
	var set config.Settings
	set.TSDB.Path = dir
	_, address := hardLeaf(t, Config{Settings: set})
	store := leafpb.NewStoreClient(dialLeaf(t, address))
	for _, name := range all {
		got, err := store.LabelValues(t.Context(), &leafpb.LabelValuesRequest{Label: name, End: 3600_000})
		require.NoError(t, err, name)
		require.Equal(t, []string{"value of " + name}, got.Values, name)
	}
}
