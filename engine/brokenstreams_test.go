package engine

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/prompb"
)

// streams are the kinds whose stream of frames is broken.
var streams = []brokenKind{
	body("a frame's length is no number", "the length of a frame is not a number", func(*exchange) []byte {
		return []byte(strings.Repeat("\xff", 20))
	}),
	body("a frame of exabytes", "exceeds the limit", func(*exchange) []byte {
		return append(binary.AppendUvarint(nil, math.MaxUint64), make([]byte, 100)...)
	}),
	body("a frame of megabytes that does not come", "cut off", func(*exchange) []byte {
		return append(binary.AppendUvarint(nil, 3<<20), make([]byte, 1000)...)
	}),
	body("ends in a frame", "cut off", func(x *exchange) []byte {
		b := frames(x.series...)
		return b[:len(b)-7]
	}),
	body("ends in a frame's length", "cut off", func(x *exchange) []byte { return append(frames(x.series...), 0xff) }),
	body("garbage in a frame", "not valid protobuf", func(*exchange) []byte {
		return frame([]byte{0x0a, 0x05, 0x0a, 0xff, 0xff, 0xff, 0xff})
	}),
	body("a field of another type", "wire type", func(*exchange) []byte { return frame([]byte{0x08, 0x05}) }),
	body("another query's answer", "the answer is for query 9", func(*exchange) []byte { return frame([]byte{0x10, 9}) }),
	endless("zeros without end", "a frame without a series", func(*exchange) []byte { return make([]byte, 1<<20) }),
	endless("frames without series, without end", "a frame without a series", func(*exchange) []byte {
		return bytes.Repeat(frame([]byte{0x10, 0}), 10_000)
	}),
	{Name: "series without end", Fails: true, Endless: true, Says: "exceeds its byte limit", answer: func(x *exchange) {
		x.endless(func(n int) []byte {
			var b []byte
			for i := range 1000 {
				s := *x.series[0]
				s.Labels = append(s.Labels[:len(s.Labels):len(s.Labels)], prompb.Label{Name: "n", Value: fmt.Sprint(n, i)})
				b = append(b, frames(&s)...)
			}
			return b
		})
	}},
	endless("one series without end", "exceeds its byte limit", func(x *exchange) []byte { return frames(x.series[0]) }),
	endless("chunks of nothing without end", "exceeds its byte limit", func(x *exchange) []byte {
		s := *x.series[0]
		s.Chunks = nil
		for range 10_000 {
			s.Chunks = append(s.Chunks, prompb.Chunk{Type: prompb.Chunk_XOR, Data: []byte{0, 0}})
		}
		return frames(&s)
	}),
}

// endless is a kind that streams the same bytes again and again.
func endless(name, says string, of func(*exchange) []byte) brokenKind {
	return brokenKind{Name: name, Fails: true, Endless: true, Says: says, answer: func(x *exchange) {
		b := of(x)
		x.endless(func(int) []byte { return b })
	}}
}

// body is a kind that answers with a stream of bytes.
func body(name, says string, of func(*exchange) []byte) brokenKind {
	return brokenKind{Name: name, Fails: true, Says: says, answer: func(x *exchange) { x.stream(of(x)) }}
}

// endless streams what of returns until the client goes.
func (x *exchange) endless(of func(n int) []byte) {
	x.stream(nil)
	for n := 0; x.write(of(n)); n++ {
	}
}

// http1 are the kinds that are broken as an HTTP server.
var http1 = []brokenKind{
	{Name: "status 204", Fails: true, Says: "HTTP status 204", answer: func(x *exchange) { x.WriteHeader(204) }},
	typed("JSON", "application/json", `{"status":"success"}`, "content type is application/json"),
	typed("another stream", "application/x-streamed-protobuf; proto=other.Message", "", "proto=other.Message"),
	{Name: "no content type", Fails: true, Says: "content type is none", answer: func(x *exchange) {
		x.Header()["Content-Type"] = nil
		x.write(frames(x.series...))
	}},
	{Name: "less than its content length", Fails: true, Says: "cut off", answer: func(x *exchange) {
		b := frames(x.series...)
		x.Header().Set("Content-Length", fmt.Sprint(len(b)+10))
		x.stream(b)
	}},
	{Name: "redirects in a loop", Fails: true, Says: "redirects", anyRequest: true, answer: func(x *exchange) {
		http.Redirect(x, x.r, x.r.URL.Path, http.StatusTemporaryRedirect)
	}},
	{Name: "redirect to what is no URL", Fails: true, Says: "no answer", answer: func(x *exchange) {
		x.Header().Set("Location", "http://[::1")
		x.WriteHeader(http.StatusTemporaryRedirect)
	}},
	{Name: "redirect that makes a GET of the request", Fails: true, Says: "HTTP status 303", answer: func(x *exchange) {
		http.Redirect(x, x.r, x.r.URL.Path, http.StatusSeeOther)
	}},
	{Name: "never answers", Fails: true, Endless: true, answer: func(x *exchange) { <-x.r.Context().Done() }},
	{Name: "a byte at a time", Fails: true, Endless: true, answer: func(x *exchange) {
		for _, c := range bytes.Repeat(frames(x.series...), 1000) {
			if x.stream([]byte{c}); x.r.Context().Err() != nil {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	}},
	{Name: "endless headers", Fails: true, Says: "headers exceeded", answer: func(x *exchange) { x.headers(0) }},
	{Name: "headers a line at a time", Fails: true, Endless: true, answer: func(x *exchange) { x.headers(50 * time.Millisecond) }},
	{Name: "not HTTP", Fails: true, Says: "no answer", answer: func(x *exchange) { x.raw("\x16\x03\x01 this is not HTTP\r\n\r\n") }},
	{Name: "gzip that nobody asked for", Fails: true, Says: "attempts", answer: func(x *exchange) {
		x.Header().Set("Content-Encoding", "gzip")
		x.stream(gzipBomb())
	}},
}

// gzipBomb is a good deal of zeros as gzip has them.
var gzipBomb = sync.OnceValue(func() []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(make([]byte, 64<<20)) // into memory
	_ = z.Close()
	return b.Bytes()
})

func typed(name, typ, body, says string) brokenKind {
	return brokenKind{Name: name, Fails: true, Says: says, answer: func(x *exchange) {
		x.Header().Set("Content-Type", typ)
		x.write([]byte(body))
	}}
}

// raw answers with text instead of HTTP and closes the connection.
func (x *exchange) raw(text string) {
	c, _, err := http.NewResponseController(x.ResponseWriter).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer c.Close()
	_, _ = c.Write([]byte(text)) // or the client has gone
}

// headers answers with headers without end, one after another with a pause in between.
func (x *exchange) headers(pause time.Duration) {
	c, _, err := http.NewResponseController(x.ResponseWriter).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer c.Close()
	_, err = c.Write([]byte("HTTP/1.1 200 OK\r\n"))
	for i := 0; err == nil; i++ {
		_, err = fmt.Fprintf(c, "X-Header-%d: %s\r\n", i, strings.Repeat("x", 1000))
		time.Sleep(pause)
	}
}

// sampleKinds are the kinds that answer with samples, and wrongly.
var sampleKinds = []brokenKind{
	compressed("compression that is damaged", "cannot be decompressed", []byte{0x20, 1, 2, 3}),
	compressed("snappy that claims gigabytes", "exceeds the limit", []byte{0xff, 0xff, 0xff, 0xff, 0x0f}),
	compressed("snappy of a hundred megabytes of nothing", "exceeds the limit", snappyBomb(100<<20)),
	{Name: "zeros in place of samples, without end", Fails: true, Endless: true, Says: "exceeds its byte limit", answer: func(x *exchange) {
		for x.compressed(make([]byte, 1<<20)); x.write(make([]byte, 1<<20)); {
		}
	}},
	compressed("no result", "the answer holds 0 results", snappy.Encode(nil, nil)),
	{Name: "a result too many", Fails: true, Says: "results", answer: func(x *exchange) {
		x.queries++
		x.samples()
	}},
	sampled("samples that are not in time order", "comes after one at", func(x *exchange) *prompb.TimeSeries {
		t := x.first().MinTimeMs
		return x.floats(t, t+2*brokenStep, t+brokenStep)
	}),
	sampled("a sample twice among samples", "comes after one at", func(x *exchange) *prompb.TimeSeries {
		t := x.first().MinTimeMs
		return x.floats(t, t+brokenStep, t+brokenStep)
	}),
	sampled("samples without labels", "does not match", func(x *exchange) *prompb.TimeSeries {
		ts := x.floats(x.first().MinTimeMs)
		ts.Labels = nil
		return ts
	}),
	{Name: "samples of series that are not sorted", answer: func(x *exchange) {
		var r prompb.QueryResult
		for i := range slices.Backward(x.series) {
			c := x.series[i].Chunks
			var times []int64
			for t := c[0].MinTimeMs; t <= c[len(c)-1].MaxTimeMs; t += brokenStep {
				times = append(times, t)
			}
			r.Timeseries = append(r.Timeseries, x.floatsOf(i, times...))
		}
		x.samples(&r)
	}},
	sampled("samples of another series", "does not match", func(x *exchange) *prompb.TimeSeries {
		relabelled("job", "another")(x)
		return x.floats(x.first().MinTimeMs)
	}),
	sampled("samples with a label twice", "appears twice", func(x *exchange) *prompb.TimeSeries {
		ts := x.floats(x.first().MinTimeMs)
		ts.Labels = append(ts.Labels, prompb.Label{Name: "job", Value: "x"})
		return ts
	}),
	sampled("samples without a label's name", "a label has no name", func(x *exchange) *prompb.TimeSeries {
		ts := x.floats(x.first().MinTimeMs)
		ts.Labels = append(ts.Labels, prompb.Label{Value: "x"})
		return ts
	}),
}

func compressed(name, says string, b []byte) brokenKind {
	return brokenKind{Name: name, Fails: true, Says: says, answer: func(x *exchange) { x.compressed(b) }}
}

func sampled(name, says string, of func(*exchange) *prompb.TimeSeries) brokenKind {
	return brokenKind{Name: name, Fails: true, Says: says, answer: func(x *exchange) {
		x.samples(&prompb.QueryResult{Timeseries: []*prompb.TimeSeries{of(x)}})
	}}
}

// snappyBomb is n zeros as snappy has them: a literal and copies of it.
func snappyBomb(n int) []byte {
	b := append(binary.AppendUvarint(nil, uint64(n)), 0, 0)
	for left := n - 1; left > 0; left -= 64 {
		b = append(b, byte(min(left, 64)-1)<<2|2, 1, 0)
	}
	return b
}
