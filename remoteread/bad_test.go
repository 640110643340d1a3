package remoteread

import (
	"context"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/golang/snappy"
	commonconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/selection"
)

func status(code int, text string) func(http.ResponseWriter, *http.Request, int64) {
	return func(w http.ResponseWriter, _ *http.Request, _ int64) { http.Error(w, text, code) }
}

func answerStream(b []byte) func(http.ResponseWriter, *http.Request, int64) {
	return func(w http.ResponseWriter, _ *http.Request, _ int64) { streamed(w, b) }
}

func answerSamples(ts ...*prompb.TimeSeries) func(http.ResponseWriter, *http.Request, int64) {
	return func(w http.ResponseWriter, _ *http.Request, _ int64) { sampled(w, ts...) }
}

func answerBytes(typ string, b []byte) func(http.ResponseWriter, *http.Request, int64) {
	return func(w http.ResponseWriter, _ *http.Request, _ int64) {
		w.Header().Set("Content-Type", typ)
		_, _ = w.Write(b)
	}
}

// cutOff sends b and then drops the connection before the body's end.
func cutOff(b []byte) func(http.ResponseWriter, *http.Request, int64) {
	return func(w http.ResponseWriter, _ *http.Request, _ int64) {
		streamed(w, b)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

var update = flag.Bool("update", false, "write testdata/errors.txt anew")

// TestBadAnswers: what is done about each kind of failure, and what the message advises, is what
// testdata/errors.txt says. TestBrokenStores has many more ways to fail.
func TestBadAnswers(t *testing.T) {
	good := wireSeries(0, 100, "__name__", "up", "job", "j")
	goodFrame := frames(good)
	headerless := wireSeries(0, 100, "__name__", "up", "job", "j")
	headerless.Chunks[0] = prompb.Chunk{Type: prompb.Chunk_HISTOGRAM, MaxTimeMs: math.MaxInt64, Data: []byte{0, 1}}
	stall := func(w http.ResponseWriter, r *http.Request, b []byte) {
		if b != nil {
			streamed(w, b)
			w.(http.Flusher).Flush()
		}
		_, _ = io.ReadAll(r.Body) // or else the server does not see the connection close
		<-r.Context().Done()
	}
	badHistogram := floats("h")
	badHistogram.Histograms = []prompb.Histogram{prompb.FromIntHistogram(5, &histogram.Histogram{
		Count: 7, PositiveSpans: []histogram.Span{{Offset: 0, Length: 3}}, PositiveBuckets: []int64{1},
	})}
	unknownSchema := floats("h")
	unknownSchema.Histograms = []prompb.Histogram{prompb.FromIntHistogram(5, &histogram.Histogram{Schema: 77})}

	stalls := func(b []byte) func(http.ResponseWriter, *http.Request, int64) {
		return func(w http.ResponseWriter, r *http.Request, _ int64) { stall(w, r, b) }
	}
	impatient := func(c *config.RemoteReadConfig) { c.RemoteTimeout = model.Duration(100 * time.Millisecond) }
	var got strings.Builder
	for _, c := range []struct {
		name    string
		handler func(w http.ResponseWriter, r *http.Request, n int64)
		config  func(*config.RemoteReadConfig)
		options func(*Options)
		is      error
	}{
		{name: "page of HTML", handler: answerBytes("text/html; charset=utf-8", []byte("<!DOCTYPE html>\n<html>x</html>"))},
		{name: "404", handler: status(404, "404 page not found")},
		{
			name: "redirect", handler: func(w http.ResponseWriter, r *http.Request, _ int64) {
				http.Redirect(w, r, "https://u:hidden@elsewhere/read?token=hidden", http.StatusPermanentRedirect)
			}, config: func(c *config.RemoteReadConfig) { c.HTTPClientConfig.FollowRedirects = false },
		},
		{
			name: "401", handler: func(w http.ResponseWriter, r *http.Request, _ int64) {
				user, pass, _ := r.BasicAuth()
				http.Error(w, fmt.Sprintf("wrong password %s for %s (%s)\nsecond line", pass, user, r.Header.Get("Authorization")), http.StatusUnauthorized)
			}, config: func(c *config.RemoteReadConfig) {
				c.HTTPClientConfig.BasicAuth = &commonconfig.BasicAuth{Username: "ann", Password: "hidden word"}
			},
		},
		{
			name: "403", handler: func(w http.ResponseWriter, r *http.Request, _ int64) {
				http.Error(w, r.URL.RawQuery+" "+r.Header.Get("Authorization"), http.StatusForbidden)
			}, config: func(c *config.RemoteReadConfig) {
				c.URL.RawQuery = "token=hidden1"
				c.HTTPClientConfig.BearerToken = "hidden2"
			},
		},
		{
			name: "403 with headers", handler: func(w http.ResponseWriter, r *http.Request, _ int64) {
				http.Error(w, r.Header.Get("X-Api-Key")+" of "+r.Header.Get("X-Scope-OrgID"), http.StatusForbidden)
			}, config: func(c *config.RemoteReadConfig) {
				c.Headers = map[string]string{"X-Api-Key": "hidden", "X-Scope-OrgID": "tenant"}
			},
		},
		{name: "413", handler: status(413, "too many series")},
		{name: "422", handler: status(422, "no such tenant")},
		{name: "500 forever", handler: status(500, "\n disk\x00on\tfire "+strings.Repeat("ü", 4000)+"\nsecond")},
		{name: "500 without retries", handler: status(500, ""), options: func(o *Options) { o.Retries = -1 }},
		{name: "429 forever", handler: status(429, "slow down")},
		{
			name: "429 for very long", handler: func(w http.ResponseWriter, _ *http.Request, _ int64) {
				w.Header().Set("Retry-After", "86400")
				http.Error(w, "", http.StatusTooManyRequests)
			},
		},
		{
			name: "500 with a body that stalls", handler: func(w http.ResponseWriter, r *http.Request, _ int64) {
				w.WriteHeader(500)
				_, _ = w.Write([]byte("some text"))
				w.(http.Flusher).Flush()
				stall(w, r, nil)
			}, config: impatient, options: func(o *Options) { o.Retries = -1 },
		},
		{name: "no answer", handler: stalls(nil), config: impatient, is: context.DeadlineExceeded},
		{name: "stalls between frames", handler: stalls(goodFrame), config: impatient, is: context.DeadlineExceeded},
		{name: "stalls in a frame", handler: stalls(goodFrame[:40]), config: impatient, is: context.DeadlineExceeded},
		{name: "connection dropped", handler: func(http.ResponseWriter, *http.Request, int64) { panic(http.ErrAbortHandler) }, is: io.EOF},
		{name: "cut off in a frame", handler: cutOff(goodFrame[:40]), is: io.ErrUnexpectedEOF},
		{name: "cut off between frames", handler: cutOff(goodFrame), is: io.ErrUnexpectedEOF},
		{name: "body ends after the checksum", handler: answerStream(goodFrame[:6]), is: io.ErrUnexpectedEOF},
		{name: "error text at the end of the stream", handler: answerStream(append(frames(good), "expanding series: open /data/chunks: input/output error\n"...))},
		{name: "long error text", handler: answerStream(append(frames(good), " "+strings.Repeat("words ", 5000)...))},
		{name: "wrong checksum", handler: answerStream(rawFrame(goodFrame[6:], false))},
		{name: "wrong checksum of a large frame", handler: answerStream(rawFrame(make([]byte, 1<<20), false))},
		{name: "frame too large", handler: answerStream(goodFrame), options: func(o *Options) { o.MaxFrameBytes = 50 }},
		{name: "frame over Prometheus's limit", handler: answerStream(goodFrame), config: func(c *config.RemoteReadConfig) { c.ChunkedReadLimit = 60 }},
		{
			name: "too large in total", handler: answerStream(frames(good, wireSeries(0, 100, "__name__", "zz"))),
			options: func(o *Options) { o.MaxBytes = int64(len(good.Chunks[0].Data)) * 3 / 2 }, is: selection.ErrTooLarge,
		},
		{
			name: "too many labels", handler: answerStream(frames(
				&prompb.ChunkedSeries{Labels: []prompb.Label{{Name: "__name__", Value: "a" + strings.Repeat("x", 600)}}},
				&prompb.ChunkedSeries{Labels: []prompb.Label{{Name: "__name__", Value: "b" + strings.Repeat("x", 600)}}})),
			options: func(o *Options) { o.MaxBytes = 1000 }, is: selection.ErrTooLarge,
		},
		{name: "samples too large in total", handler: answerSamples(floats("a", 1, 2, 3), floats("b", 1, 2, 3)), options: func(o *Options) { o.MaxBytes = 40 }, is: selection.ErrTooLarge},
		{name: "histogram chunk without its header", handler: answerStream(frames(headerless))},
		{name: "label of 17 MB", handler: answerStream(frames(wireSeries(0, 5, "a", strings.Repeat("x", 17<<20))))},
		{name: "bad histogram", handler: answerSamples(badHistogram)},
		{name: "unknown histogram schema", handler: answerSamples(unknownSchema)},
		{name: "samples not compressed", handler: answerBytes("application/x-protobuf", nil)},
		{name: "garbage in a series of samples", handler: answerBytes("application/x-protobuf", snappy.Encode(nil, []byte{0x0a, 4, 0x0a, 2, 0x0a, 0x50}))},
		{name: "answer of samples too large", handler: answerSamples(floats(strings.Repeat("x", 2000), 1)), options: func(o *Options) { o.MaxFrameBytes = 1000 }},
		{name: "compressed answer of samples too large", handler: answerBytes("application/x-protobuf", make([]byte, 2000)), options: func(o *Options) { o.MaxFrameBytes = 1000 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			base, requests := server(t, c.handler)
			cfg := readConfig(t, base)
			if c.config != nil {
				c.config(cfg)
			}
			o := quick()
			if c.options != nil {
				c.options(&o)
			}
			start := time.Now()
			sel, ws, err := newClient(t, cfg, o).Fetch(t.Context(), 0, hour, anything, selection.Fetch{})
			require.Less(t, time.Since(start), 5*time.Second)
			require.Nil(t, sel)
			require.Empty(t, ws)

			var e *Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, base, e.Upstream)
			for _, secret := range []string{"hidden", base64.StdEncoding.EncodeToString([]byte("ann:hidden word"))} {
				require.NotContains(t, err.Error(), secret)
			}
			if c.is != nil {
				require.ErrorIs(t, err, c.is)
			}
			require.NotContains(t, err.Error(), "\n")
			require.LessOrEqual(t, len(err.Error()), 3000)
			message := strings.ReplaceAll(err.Error(), base, "STORE")
			fmt.Fprintf(&got, "%s: status %d, requests %d, retryable %v\n\t%s\n", c.name, e.StatusCode, requests.Load(), e.Retryable, message)
		})
	}
	want, err := os.ReadFile("testdata/errors.txt")
	if *update {
		require.NoError(t, os.WriteFile("testdata/errors.txt", []byte(got.String()), 0o644))
	}
	require.NoError(t, err)
	require.Equal(t, string(want), got.String(), "write it anew: go test ./remoteread -run TestBadAnswers -update")
}

func TestUpstreamDown(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	require.NoError(t, l.Close())
	cfg := readConfig(t, "http://user:hidden@"+addr+"/api/v1/read?token=hidden")
	_, _, err = newClient(t, cfg, quick()).Fetch(t.Context(), 0, 1, anything, selection.Fetch{})
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.EqualError(t, err, "cannot reach http://"+addr+": connection refused; remote read from http://"+addr+"/api/v1/read failed"+
		" (after 4 attempts); check that it is running and is the one that the configuration means")
}

func TestUpstreamTLS(t *testing.T) {
	var requests atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	_, _, err := newClient(t, readConfig(t, s.URL), quick()).Fetch(t.Context(), 0, 1, anything, selection.Fetch{})
	require.ErrorContains(t, err, "certificate signed by unknown authority; check ca_file and server_name in tls_config")
	require.NotContains(t, err.Error(), "attempts")

	plain, _ := server(t, answerStream(nil))
	_, _, err = newClient(t, readConfig(t, strings.Replace(plain, "http:", "https:", 1)), quick()).Fetch(t.Context(), 0, 1, anything, selection.Fetch{})
	require.ErrorContains(t, err, "check whether the URL should start with http or https")
	require.NotContains(t, err.Error(), "attempts")
	require.Zero(t, requests.Load())
}

func TestUnknownHost(t *testing.T) {
	c := newClient(t, readConfig(t, "http://x"), Options{})
	u := &url.URL{Scheme: "http", Host: "x"}
	e := c.connection(unreachable(u, &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "x", IsNotFound: true}}))
	require.EqualError(t, e, "cannot reach http://x: lookup x: no such host; remote read from http://x failed; check that it is running and is the one that the configuration means")
	require.True(t, e.Retryable)
}

// Failures that pass are retried, and what came before them is not kept.
func TestRecovers(t *testing.T) {
	all := frames(wireSeries(0, 100, "__name__", "a"), wireSeries(0, 100, "__name__", "b"))
	for name, fail := range map[string]func(http.ResponseWriter, *http.Request, int64){
		"500":            status(500, "x"),
		"503":            status(503, "x"),
		"429":            status(429, "x"),
		"cut off":        cutOff(all[:len(all)-30]),
		"dropped":        func(http.ResponseWriter, *http.Request, int64) { panic(http.ErrAbortHandler) },
		"error text":     answerStream(append(frames(wireSeries(0, 9, "__name__", "a")), "storage is on fire\n"...)),
		"wrong checksum": answerStream(rawFrame([]byte{1, 2, 3}, false)),
	} {
		t.Run(name, func(t *testing.T) {
			base, requests := server(t, func(w http.ResponseWriter, r *http.Request, n int64) {
				if n == 1 {
					fail(w, r, n)
					return
				}
				streamed(w, all)
			})
			sel, _, err := newClient(t, readConfig(t, base), quick()).Fetch(t.Context(), 0, hour, anything, selection.Fetch{})
			require.NoError(t, err)
			require.EqualValues(t, 2, requests.Load())
			require.Equal(t, 2, sel.NumSeries())
			require.EqualValues(t, 200, sel.NumSamples())
		})
	}
}

// What a failed attempt brought does not count against the limit.
func TestLimitAfterRetry(t *testing.T) {
	s := wireSeries(0, 100, "__name__", "a")
	base, _ := server(t, func(w http.ResponseWriter, r *http.Request, n int64) {
		if n < 4 {
			cutOff(frames(s))(w, r, n)
		}
		streamed(w, frames(s))
	})
	o := quick()
	o.MaxBytes = int64(len(s.Chunks[0].Data)) + 50
	_, _, err := newClient(t, readConfig(t, base), o).Fetch(t.Context(), 0, hour, anything, selection.Fetch{})
	require.NoError(t, err)
}

// The limit is for all pieces together.
func TestLimitOverPieces(t *testing.T) {
	base, _ := server(t, func(w http.ResponseWriter, _ *http.Request, n int64) {
		streamed(w, frames(wireSeries(n*100_000, 100, "__name__", "a")))
	})
	o := quick()
	o.MaxBytes = 2 * int64(len(wireSeries(0, 100).Chunks[0].Data))
	c := newClient(t, readConfig(t, base), o)
	_, _, err := c.Fetch(t.Context(), 0, hour, anything, selection.Fetch{})
	require.NoError(t, err)
	sel, _, err := c.Fetch(t.Context(), 0, 18*hour-1, anything, selection.Fetch{})
	require.ErrorIs(t, err, selection.ErrTooLarge)
	require.Nil(t, sel)
}

func TestRetryAfter(t *testing.T) {
	var times []time.Time
	base, _ := server(t, func(w http.ResponseWriter, _ *http.Request, n int64) {
		times = append(times, time.Now())
		if n == 1 {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "later", http.StatusTooManyRequests)
			return
		}
		streamed(w, nil)
	})
	c := newClient(t, readConfig(t, base), quick())
	_, _, err := c.Fetch(t.Context(), 0, 1, anything, selection.Fetch{})
	require.NoError(t, err)
	require.Len(t, times, 2)
	require.GreaterOrEqual(t, times[1].Sub(times[0]), time.Second)

	// With less time left than the store asks for, the reason comes at once.
	times = nil
	base, requests := server(t, func(w http.ResponseWriter, _ *http.Request, _ int64) {
		w.Header().Set("Retry-After", "9")
		http.Error(w, "later", http.StatusServiceUnavailable)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	start := time.Now()
	_, _, err = newClient(t, readConfig(t, base), quick()).Fetch(ctx, 0, 1, anything, selection.Fetch{})
	require.ErrorContains(t, err, "503 Service Unavailable: later")
	require.Less(t, time.Since(start), 7*time.Second)
	require.EqualValues(t, 1, requests.Load())

	for text, want := range map[string]time.Duration{
		"": 0, "x": 0, "-1": 0, "7": 7 * time.Second, " 7 ": 7 * time.Second, "1.5": 0,
		"99999999999999999999999": math.MaxUint32 * time.Second, "Mon, 01 Jan 2001 00:00:00 GMT": 0,
	} {
		require.Equal(t, want, retryAfter(http.Header{"Retry-After": {text}}), text)
	}
	in := retryAfter(http.Header{"Retry-After": {time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)}})
	require.InDelta(t, time.Hour.Seconds(), in.Seconds(), 5)
}

// A slow answer that keeps coming may take longer than remote_timeout.
func TestSlowButSteady(t *testing.T) {
	b := frames(wireSeries(0, 100, "__name__", "a"))
	base, _ := server(t, func(w http.ResponseWriter, _ *http.Request, _ int64) {
		n := (len(b) + 14) / 15
		for i := 0; i < len(b); i += n {
			streamed(w, b[i:min(i+n, len(b))])
			w.(http.Flusher).Flush()
			time.Sleep(100 * time.Millisecond)
		}
	})
	cfg := readConfig(t, base)
	cfg.RemoteTimeout = model.Duration(time.Second)
	start := time.Now()
	sel, _, err := newClient(t, cfg, quick()).Fetch(t.Context(), 0, hour, anything, selection.Fetch{})
	require.NoError(t, err)
	require.Equal(t, 1, sel.NumSeries())
	require.Greater(t, time.Since(start), time.Second)
}

func TestCancel(t *testing.T) {
	for _, stage := range []string{"before", "headers", "body", "backoff", "queue"} {
		t.Run(stage, func(t *testing.T) {
			reached, closed := make(chan struct{}, 10), make(chan struct{}, 10)
			base, requests := server(t, func(w http.ResponseWriter, r *http.Request, _ int64) {
				if stage == "backoff" {
					defer func() { reached <- struct{}{} }()
					w.Header().Set("Retry-After", "20")
					http.Error(w, "", http.StatusServiceUnavailable)
					return
				}
				_, _ = io.ReadAll(r.Body)
				if stage != "headers" {
					streamed(w, append(frames(wireSeries(0, 100, "__name__", "a")), 50, 1, 2))
					w.(http.Flusher).Flush()
				}
				reached <- struct{}{}
				<-r.Context().Done()
				closed <- struct{}{}
			})
			o := quick()
			o.Concurrency = 1
			c := newClient(t, readConfig(t, base), o)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if stage == "before" {
				cancel()
			}
			pieces := int64(1)
			if stage == "queue" {
				pieces = 5
			}
			done := make(chan error, 1)
			go func() {
				sel, _, err := c.Fetch(ctx, 0, pieces*6*hour-1, anything, selection.Fetch{})
				if sel != nil {
					err = errors.New("a selection came with an error")
				}
				done <- err
			}()
			if stage != "before" {
				<-reached
				time.Sleep(20 * time.Millisecond)
			}
			start := time.Now()
			cancel()
			err := <-done
			require.Less(t, time.Since(start), 5*time.Second)
			require.ErrorIs(t, err, context.Canceled)
			require.EqualError(t, err, "remote read from "+base+": stopped before the answer was complete: context canceled")
			switch stage {
			case "before":
				require.Zero(t, requests.Load())
				return
			case "backoff":
			default:
				select {
				case <-closed:
				case <-time.After(5 * time.Second):
					t.Fatal("the connection stayed open")
				}
			}
			require.EqualValues(t, 1, requests.Load())
		})
	}
}

// A deadline of the caller's is not taken for the store's timeout.
func TestDeadline(t *testing.T) {
	base, requests := server(t, func(_ http.ResponseWriter, r *http.Request, _ int64) {
		_, _ = io.ReadAll(r.Body)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, _, err := newClient(t, readConfig(t, base), quick()).Fetch(ctx, 0, 1, anything, selection.Fetch{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "stopped before the answer was complete: context deadline exceeded; raise the query's timeout")
	require.EqualValues(t, 1, requests.Load())
}

// The first piece that fails ends the others.
func TestFirstErrorEndsOthers(t *testing.T) {
	var closed atomic.Int64
	started := make(chan struct{}, 10)
	base, requests := server(t, func(w http.ResponseWriter, r *http.Request, n int64) {
		_, _ = io.ReadAll(r.Body)
		if n < 4 {
			started <- struct{}{}
			<-r.Context().Done()
			closed.Add(1)
			return
		}
		for range 3 {
			<-started
		}
		http.Error(w, "no", http.StatusForbidden)
	})
	_, _, err := newClient(t, readConfig(t, base), quick()).Fetch(t.Context(), 0, 100*hour, anything, selection.Fetch{})
	require.ErrorContains(t, err, "403 Forbidden")
	require.EqualValues(t, 4, requests.Load())
	require.Eventually(t, func() bool { return closed.Load() == 3 }, 5*time.Second, time.Millisecond)
}

// The connection of an answer that was an error is used again.
func TestConnectionIsReused(t *testing.T) {
	conns := map[string]bool{}
	base, _ := server(t, func(w http.ResponseWriter, r *http.Request, n int64) {
		conns[r.RemoteAddr] = true
		if n < 3 {
			http.Error(w, strings.Repeat("x", 10_000), 500)
			return
		}
		streamed(w, frames(wireSeries(0, 100, "__name__", "a")))
	})
	c := newClient(t, readConfig(t, base), quick())
	for range 3 {
		_, _, err := c.Fetch(t.Context(), 0, 1, anything, selection.Fetch{})
		require.NoError(t, err)
	}
	require.Len(t, conns, 1)
}

// Prometheus's own messages arrive.
func TestPrometheusErrors(t *testing.T) {
	store := teststorage.New(t)
	last := fill(t, store)
	h := onlySamples(t, promHandler(store, 1<<20, 10))
	base, requests := server(t, func(w http.ResponseWriter, r *http.Request, _ int64) { h.ServeHTTP(w, r) })
	o := quick()
	o.Piece = 1000 * time.Hour
	_, _, err := newClient(t, readConfig(t, base), o).Fetch(t.Context(), last-hour, last, anything, selection.Fetch{})
	require.ErrorContains(t, err, "HTTP status 400 Bad Request: exceeded sample limit (10); raise the store's remote-read limits")
	require.EqualValues(t, 1, requests.Load())
}
