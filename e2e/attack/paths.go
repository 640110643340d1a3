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

// tricks are paths that lead elsewhere once somebody on the way decodes and tidies them.
var tricks = []string{
	"/api/v1/label/..%2f..%2fadmin%2ftsdb%2fsnapshot/values",
	"/api/v1/label/..%2fstatus%2fconfig/values",
	"/api/v1/label/%2e%2e%2f%2e%2e%2f-%2fquit/values",
	"/api/v1/label/..%252f..%252fstatus/values",
	"/api/v1/label/%252e%252e%252fx/values",
	"/api/v1/label/..%5c..%5cstatus/values",
	"/api/v1/label/.%2e/values",
	"/api/v1/label/a%00b/values",
	"/api/v1/label/a%2f..%2fb/values",
	"/api/v1/label/a%2f.%2fb/values",
}

// strays are paths that must not be answered with anything of a server's.
var strays = []string{
	"/api/v1/../../etc/passwd", "//api/v1/status/config/..", "/api/v1/%2e%2e/%2e%2e/etc/passwd", "/..%2f..%2fetc/passwd",
	"/debug/pprof/heap", "/debug/pprof/../../metrics", "/api/v1/admin/tsdb/delete_series", "/api/v1/admin/cache/drop", "/-/quit",
	"/api/v1/query/../admin/tsdb/snapshot", "/" + strings.Repeat("a/", 5000), "/" + strings.Repeat("%2f", 5000), "/%",
	"http://127.0.0.1:1/metrics", "*", "/api/v1/status/config?/../../", "/\x01",
}

var pathAttacks = []attack{{
	name: "paths", what: "asks for paths with dots, escaped slashes, backslashes and NUL, escaped once and twice",
	holds: "label names with dot segments are refused with 400; nothing else is a file, a profile, or a change",
	run: func(ctx context.Context, e *env) (v verdict) {
		counts := map[string]int{}
		for _, path := range tricks {
			code, body, err := rawGet(ctx, e.target, http.MethodGet, path)
			counts[fmt.Sprint(code)]++
			if ctx.Err() == nil && (err != nil || code != http.StatusBadRequest) {
				v.breaks("%s: %d %v %.80q", path, code, err, body)
			}
		}
		for _, path := range strays {
			for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete, http.MethodPut} {
				code, body, err := rawGet(ctx, e.target, method, path)
				counts[fmt.Sprint(code)]++
				// A door that is closed says so with 500, as a Prometheus does.
				failed := code >= 500 && !strings.Contains(body, `"errorType":"unavailable"`)
				if ctx.Err() == nil && (err != nil || failed || strings.Contains(body, "root:")) {
					v.breaks("%s %.80s: %d %v %.80q", method, path, code, err, body)
				}
				change := method == http.MethodPost && (strings.Contains(path, "/admin/") || strings.Contains(path, "quit"))
				if change && code/100 == 2 {
					v.breaks("%s %s: %d", method, path, code)
				}
			}
		}
		v.figures = list(counts)
		return v
	},
}}

// rawGet sends a request line as it is and returns the answer's status and its first bytes.
func rawGet(ctx context.Context, s *server, method, path string) (code int, body string, err error) {
	conn, err := s.dial(ctx)
	if err != nil {
		return 0, "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", method, path, s.addr); err != nil {
		return 0, "", err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 16<<10))
	return resp.StatusCode, string(b), err
}
