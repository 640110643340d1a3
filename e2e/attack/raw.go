package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// hostile are bytes that no client sends. HOST is put in for the server's address.
var hostile = []struct{ name, bytes string }{
	{"length and chunks", "POST /api/v1/query HTTP/1.1\r\nHost: HOST\r\nContent-Length: 60\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /-/healthy HTTP/1.1\r\nHost: HOST\r\n\r\n"},
	{"two lengths", "POST /api/v1/query HTTP/1.1\r\nHost: HOST\r\nContent-Length: 0\r\nContent-Length: 44\r\n\r\nGET /-/healthy HTTP/1.1\r\nHost: HOST\r\n\r\n"},
	{"a length of a list", "POST /api/v1/query HTTP/1.1\r\nHost: HOST\r\nContent-Length: 0, 44\r\n\r\nGET /-/healthy HTTP/1.1\r\nHost: HOST\r\n\r\n"},
	{"a length with a sign", "POST /api/v1/query HTTP/1.1\r\nHost: HOST\r\nContent-Length: +0\r\n\r\nGET /-/healthy HTTP/1.1\r\nHost: HOST\r\n\r\n"},
	{"chunks by another name", "POST /api/v1/query HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"},
	{"chunks and more", "POST /api/v1/query HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"},
	{"a folded header", "GET /-/healthy HTTP/1.1\r\nHost: HOST\r\nX-A: b\r\n Transfer-Encoding: chunked\r\n\r\n"},
	{"a space before the colon", "POST /api/v1/query HTTP/1.1\r\nHost: HOST\r\nContent-Length : 44\r\n\r\nGET /-/healthy HTTP/1.1\r\nHost: HOST\r\n\r\n"},
	{"a huge chunk", "POST /api/v1/query HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff0\r\n"},
	{"a chunk with an endless extension", "POST /api/v1/query HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n1;" + strings.Repeat("a", 100_000) + "\r\na\r\n0\r\n\r\n"},
	{"a negative length", "POST /api/v1/query HTTP/1.1\r\nHost: HOST\r\nContent-Length: -1\r\n\r\n"},
	{"two hosts", "GET /-/healthy HTTP/1.1\r\nHost: HOST\r\nHost: other\r\n\r\n"},
	{"no host", "GET /-/healthy HTTP/1.1\r\n\r\n"},
	{"NUL in a header", "GET /-/healthy HTTP/1.1\r\nHost: HOST\r\nX-A: a\x00b\r\n\r\n"},
	{"HTTP/1.0", "GET /-/healthy HTTP/1.0\r\n\r\n"},
	{"HTTP/0.9", "GET /-/healthy\r\n"},
	{"HTTP/2 without TLS", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"},
	{"an upgrade", "GET /-/healthy HTTP/1.1\r\nHost: HOST\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n\r\n"},
	{"TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("x", 500)},
	{"an unknown expectation", "POST /api/v1/query HTTP/1.1\r\nHost: HOST\r\nExpect: gold\r\nContent-Length: 0\r\n\r\n"},
	{"CONNECT", "CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n"},
	{"TRACE", "TRACE / HTTP/1.1\r\nHost: HOST\r\nCookie: secret=1\r\n\r\n"},
	{"a header of 8 MB", "GET /-/healthy HTTP/1.1\r\nHost: HOST\r\nX-A: " + strings.Repeat("a", 8<<20) + "\r\n\r\n"},
	{"100 000 headers", "GET /-/healthy HTTP/1.1\r\nHost: HOST\r\n" + strings.Repeat("X-A: b\r\n", 100_000) + "\r\n"},
	{"a path of 8 MB", "GET /" + strings.Repeat("a", 8<<20) + " HTTP/1.1\r\nHost: HOST\r\n\r\n"},
}

var rawAttacks = []attack{
	{
		name: "hostile bytes", what: "sends ambiguous lengths, folded headers, other protocols, and huge headers on the socket",
		holds: "the same statuses, in the same number, as of a Prometheus, or refused; no answer to a smuggled request that it does not give",
		run: func(ctx context.Context, e *env) (v verdict) {
			counts := map[string]int{}
			compare := e.reference != nil && !e.mixed
			for i, pair := range together(ctx, 8, len(hostile), func(ctx context.Context, i int) (pair [2]string) {
				pair[0] = statuses(ctx, e.target, hostile[i].bytes)
				if compare {
					pair[1] = statuses(ctx, e.reference, hostile[i].bytes)
				}
				return pair
			}) {
				got, want := pair[0], pair[1]
				counts[got]++
				if compare && ctx.Err() == nil && got != want && !allRefused(got) {
					v.breaks("%s: %s, of Prometheus %s", hostile[i].name, got, want)
				}
			}
			v.figures = list(counts)
			return v
		},
	},
	{
		name: "garbage bytes", what: "sends random bytes on 500 connections, of which some begin like a request",
		holds: "each connection is answered with an error or closed",
		run: func(ctx context.Context, e *env) (v verdict) {
			r := e.random(2)
			counts := map[string]int{}
			for range e.count(500) {
				b := make([]byte, 1+r.IntN(4000))
				for i := range b {
					b[i] = byte(r.IntN(256))
				}
				b[0] = 'x' // a line break would end the header of a request that is a good one
				begin := []string{"", "GET ", "POST /api/v1/query HTTP/1.1\r\n", "GET /metrics HTTP/1.1\r\nHost: x\r\n"}[r.IntN(4)]
				s := statuses(ctx, e.target, begin+string(b)+"\r\n\r\n")
				counts[s]++
				if strings.Contains(s, "200") || strings.Contains(s, "500") {
					v.breaks("seed %d: %s", e.seed, s)
				}
			}
			v.figures = list(counts)
			return v
		},
	},
	{
		name: "pipelining", what: "sends 1000 requests on one connection before it reads an answer",
		holds: "1000 answers, in order",
		run: func(ctx context.Context, e *env) (v verdict) {
			n := e.count(1000)
			conn, err := e.target.dial(ctx)
			if err != nil {
				v.breaks("connect: %v", err)
				return v
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(time.Minute + e.timeout))
			go func() {
				w := bufio.NewWriter(conn)
				for i := range n {
					fmt.Fprintf(w, "GET /api/v1/query?query=%d HTTP/1.1\r\nHost: %s\r\n\r\n", i, e.target.addr)
				}
				_ = w.Flush()
			}()
			in, ok := bufio.NewReader(conn), 0
			for i := range n {
				resp, err := http.ReadResponse(in, nil)
				if err != nil {
					v.breaks("answer %d: %v", i, err)
					break
				}
				body, err := io.ReadAll(resp.Body)
				if err != nil || resp.StatusCode == http.StatusOK && !strings.Contains(string(body), fmt.Sprintf(`"%d"`, i)) {
					v.breaks("answer %d is another's: %.100q %v", i, body, err)
					break
				}
				if resp.StatusCode == http.StatusOK {
					ok++
				}
			}
			if ok < n && !e.mixed {
				v.breaks("%d of %d were answered", ok, n)
			}
			v.figures = fmt.Sprintf("%d of %d answered in order", ok, n)
			return v
		},
	},
}

// statuses sends bytes and lists the statuses of what comes back within some seconds.
func statuses(ctx context.Context, s *server, bytes string) string {
	conn, err := s.dial(ctx)
	if err != nil {
		return "no connection"
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	go func() { _, _ = io.WriteString(conn, strings.ReplaceAll(bytes, "HOST", s.addr)) }()
	in := bufio.NewReader(conn)
	var all []string
	for len(all) < 5 {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			break
		}
		all = append(all, fmt.Sprint(resp.StatusCode))
		if resp.StatusCode == http.StatusSwitchingProtocols {
			break
		}
		_ = conn.SetDeadline(time.Now().Add(500 * time.Millisecond))
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			break
		}
	}
	if len(all) == 0 {
		return "closed"
	}
	return strings.Join(all, "+")
}

// allRefused says whether nothing but errors came back.
func allRefused(statuses string) bool {
	if statuses == "closed" {
		return true
	}
	for s := range strings.SplitSeq(statuses, "+") {
		if s < "400" {
			return false
		}
	}
	return true
}
