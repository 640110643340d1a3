package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"time"
)

// form is the content type of a form.
const form = "application/x-www-form-urlencoded"

// oddRequest is a request that no query is in, or more than one.
type oddRequest struct {
	name        string
	contentType string
	path        string
	body        func() io.Reader
	must        func(code int) bool // nil: anything below 500
}

func refusedCode(code int) bool { return code >= 400 && code < 500 }

func text(s string) func() io.Reader { return func() io.Reader { return strings.NewReader(s) } }

func repeated(s string, n int) func() io.Reader {
	return func() io.Reader { return strings.NewReader(strings.Repeat(s, n)) }
}

var oddRequests = []oddRequest{
	{name: "9 MB of keys", contentType: form, path: "/api/v1/query", body: repeated("a&", 4_500_000), must: refusedCode},
	{name: "9 MB of keys of their own", contentType: form, path: "/api/v1/query", body: manyKeys(900_000), must: refusedCode},
	{name: "a million match[]", contentType: form, path: "/api/v1/series", body: repeated("match[]=up&", 800_000)},
	{name: "a million match[] of labels", contentType: form, path: "/api/v1/labels", body: repeated("match[]=up&", 800_000)},
	{name: "100 MB of form", contentType: form, path: "/api/v1/query", body: func() io.Reader { return io.LimitReader(endless{}, 100<<20) }, must: refusedCode},
	{name: "9 MB of percent signs", contentType: form, path: "/api/v1/query", body: repeated("%", 9_000_000), must: refusedCode},
	{name: "JSON", contentType: "application/json", path: "/api/v1/query", body: text(`{"query":"up"}`), must: refusedCode},
	{name: "JSON, nested", contentType: "application/json", path: "/api/v1/query", body: repeated("[", 5_000_000), must: refusedCode},
	{name: "XML", contentType: "text/xml", path: "/api/v1/query", body: text(`<query>up</query>`), must: refusedCode},
	{name: "no type", contentType: "", path: "/api/v1/query", body: text(`query=up`), must: refusedCode},
	{name: "a broken type", contentType: "a/b; c; d=\"", path: "/api/v1/query", body: text(`query=up`), must: refusedCode},
	{name: "multipart of 50 000 parts", contentType: "multipart/form-data; boundary=b", path: "/api/v1/query", body: manyParts(50_000)},
	{name: "multipart without an end", contentType: "multipart/form-data; boundary=b", path: "/api/v1/query", body: func() io.Reader { return io.LimitReader(endless{}, 50<<20) }, must: refusedCode},
	{name: "garbage to the read door", contentType: "application/x-protobuf", path: "/api/v1/read", body: repeated("\xff\xfe", 1_000_000), must: refusedCode},
	{name: "a snappy bomb to the read door", contentType: "application/x-protobuf", path: "/api/v1/read", body: text("\xff\xff\xff\xff\x0f" + strings.Repeat("\xfe\x01\x00", 100_000)), must: refusedCode},
	{name: "a gzip bomb to the read door", contentType: "application/x-protobuf", path: "/api/v1/read", body: gzipBomb, must: refusedCode},
	{name: "50 MB to the read door", contentType: "application/x-protobuf", path: "/api/v1/read", body: func() io.Reader { return io.LimitReader(endless{}, 50<<20) }, must: refusedCode},
	{name: "write", contentType: "application/x-protobuf", path: "/api/v1/write", body: text("x"), must: func(code int) bool { return code >= 400 }},
	{name: "an executor of 1 MB", contentType: form, path: "/api/v1/query", body: func() io.Reader { return strings.NewReader("query=up&executor=" + strings.Repeat("x", 1<<20)) }, must: refusedCode},
	{name: "a time of 1 MB", contentType: form, path: "/api/v1/query", body: func() io.Reader { return strings.NewReader("query=up&time=" + strings.Repeat("9", 1<<20)) }, must: refusedCode},
}

var formAttacks = []attack{
	{
		name: "odd forms", what: "sends huge forms, wrong content types, bombs and garbage as bodies, four at a time",
		holds: "refused with 4xx where nothing was asked, within 10 s; no 500; an error's text is short",
		run: func(ctx context.Context, e *env) (v verdict) {
			counts := map[string]int{}
			var worst time.Duration
			for i, a := range together(ctx, 4, len(oddRequests), func(ctx context.Context, i int) answer {
				o := oddRequests[i]
				ctx, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				return e.target.send(ctx, o.path, o.contentType, o.body())
			}) {
				o := oddRequests[i]
				must := o.must
				if must == nil {
					must = func(code int) bool { return code < 500 }
				}
				// A server may refuse a large body by breaking the connection.
				cut := a.err != nil && a.first == 0 && a.took < 10*time.Second
				switch {
				case ctx.Err() != nil:
				case cut && (strings.HasPrefix(o.name, "100 MB") || strings.HasPrefix(o.name, "50 MB") || strings.Contains(o.name, "without an end")):
				case a.err != nil:
					v.breaks("%s: %s", o.name, a)
				case !must(a.code) && (!e.mixed || a.code != http.StatusServiceUnavailable):
					v.breaks("%s: %s", o.name, a)
				case a.refused() && a.bytes > 64<<10:
					v.breaks("%s: an error of %d bytes", o.name, a.bytes)
				case !e.mixed && a.took > 10*time.Second:
					v.breaks("%s: %s", o.name, a)
				}
				counts[outcome(a)]++
				worst = max(worst, a.took)
			}
			v.figures = fmt.Sprintf("%s; slowest %s", list(counts), short(worst))
			return v
		},
	},
}

// endless is a reader of the letter a.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	return len(p), nil
}

func manyKeys(n int) func() io.Reader {
	return func() io.Reader {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "k%07d=&", i)
		}
		return strings.NewReader(b.String())
	}
}

func manyParts(n int) func() io.Reader {
	return func() io.Reader {
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		_ = w.SetBoundary("b")
		for i := range n {
			_ = w.WriteField(fmt.Sprintf("k%d", i), "v")
		}
		_ = w.Close()
		return &b
	}
}

// gzipBomb is 100 MB of zeros.
func gzipBomb() io.Reader {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.CopyN(w, endless{}, 100<<20)
	_ = w.Close()
	return &b
}
