package brokenstore

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// http1 are the kinds that are broken as an HTTP server.
var http1 = []Kind{
	status(500, "storage is on fire", "HTTP status 500"),
	status(503, "<!DOCTYPE html>\n<html>gateway</html>", "a page of HTML"),
	status(429, "slow down", "HTTP status 429"),
	status(404, "404 page not found", "HTTP status 404"),
	status(401, "who are you", "HTTP status 401"),
	status(400, "exceeded sample limit (10)", "HTTP status 400"),
	status(204, "", "HTTP status 204"),
	typed("a page of HTML", "text/html", "<!DOCTYPE html>\n<html>login</html>", "content type is text/html"),
	typed("JSON", "application/json", `{"status":"success"}`, "content type is application/json"),
	typed("another stream", "application/x-streamed-protobuf; proto=other.Message", "", "proto=other.Message"),
	{Name: "no content type", Fails: true, Says: "content type is none", answer: func(x *exchange) {
		x.Header()["Content-Type"] = nil
		x.write(frames(x.series...))
	}},
	{Name: "connection dropped", Fails: true, Says: "no answer", answer: func(*exchange) { panic(http.ErrAbortHandler) }},
	{Name: "connection dropped in the answer", Fails: true, Says: "cut off", answer: func(x *exchange) {
		x.stream(frames(x.series...))
		panic(http.ErrAbortHandler)
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

func status(code int, text, says string) Kind {
	return Kind{Name: fmt.Sprintf("status %d", code), Fails: true, Says: says, answer: func(x *exchange) {
		x.WriteHeader(code)
		if text != "" {
			x.write([]byte(text))
		}
	}}
}

func typed(name, typ, body, says string) Kind {
	return Kind{Name: name, Fails: true, Says: says, answer: func(x *exchange) {
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
