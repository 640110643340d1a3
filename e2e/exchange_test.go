package e2e

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// exchange is one HTTP/1.1 request, sent byte for byte to a Prometheus and to a
// promwarp in front of it.
type exchange struct {
	// request is the request line without the version, then header lines, an empty
	// line and the body. Host, Connection and Content-Length are added.
	request string
	// differs says in which aspects the answers differ on purpose, and why. An
	// aspect is status, body, or a header's name.
	differs differences
}

// differences are reasons, by aspect.
type differences map[string]string

// comparedHeaders are the headers that a client can notice. Date and those of the
// connection are not among them.
var comparedHeaders = []string{
	"Access-Control-Allow-Headers", "Access-Control-Allow-Methods", "Access-Control-Allow-Origin", "Access-Control-Expose-Headers",
	"Allow", "Cache-Control", "Content-Encoding", "Content-Type", "Location", "Vary", "Www-Authenticate",
}

// listHeaders are those of them whose elements have no order.
var listHeaders = []string{"Allow", "Vary", "Access-Control-Allow-Headers", "Access-Control-Allow-Methods"}

// reply is what a server answered to an exchange.
type reply struct {
	status string
	header http.Header
	body   []byte // decoded
}

// send sends the request to the server at base.
func (e exchange) send(base string) (reply, error) {
	addr := strings.TrimPrefix(base, "http://")
	conn, err := net.DialTimeout("tcp", addr, 10*time.Second)
	if err != nil {
		return reply{}, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return reply{}, err
	}
	head, body, _ := strings.Cut(e.request, "\n\n")
	line, headers, _ := strings.Cut(head, "\n")
	var b strings.Builder
	fmt.Fprintf(&b, "%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n", line, addr)
	for h := range strings.Lines(headers) {
		fmt.Fprintf(&b, "%s\r\n", strings.TrimSpace(h))
	}
	if body != "" || strings.HasPrefix(line, "POST") {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(body))
	}
	b.WriteString("\r\n" + body)
	if _, err := io.WriteString(conn, b.String()); err != nil {
		return reply{}, err
	}
	method, _, _ := strings.Cut(line, " ")
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	r := reply{status: resp.Status, header: resp.Header}
	if r.body, err = io.ReadAll(resp.Body); err != nil {
		return r, err
	}
	r.body, err = decoded(resp.Header.Get("Content-Encoding"), r.body)
	return r, err
}

// decoded takes a content encoding off a body.
func decoded(encoding string, body []byte) ([]byte, error) {
	if len(body) == 0 {
		return body, nil // to HEAD, or with status 204
	}
	var r io.ReadCloser
	var err error
	switch encoding {
	case "":
		return body, nil
	case "gzip":
		r, err = gzip.NewReader(bytes.NewReader(body))
	case "deflate":
		r, err = zlib.NewReader(bytes.NewReader(body))
	default:
		err = fmt.Errorf("unknown content encoding %q", encoding)
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// compare says in which aspects got differs from want.
func (want reply) compare(got reply) differences {
	d := differences{}
	if want.status != got.status {
		d["status"] = fmt.Sprintf("%s instead of %s", got.status, want.status)
	}
	for _, h := range comparedHeaders {
		w, g := want.header.Values(h), got.header.Values(h)
		if h == "Content-Encoding" && len(g) == 0 && len(got.body) < 512 {
			continue // promwarp compresses no answer that fits into a packet
		}
		if slices.Contains(listHeaders, h) {
			w, g = elements(w), elements(g)
		}
		if !slices.Equal(w, g) {
			d[h] = fmt.Sprintf("%q instead of %q", g, w)
		}
	}
	if !sameBody(want.body, got.body) {
		d["body"] = fmt.Sprintf("%.300q instead of %.300q", got.body, want.body)
	}
	return d
}

// elements are those of a header that is a list, each once, in order.
func elements(values []string) []string {
	var all []string
	for _, v := range values {
		for e := range strings.SplitSeq(v, ",") {
			all = append(all, strings.ToLower(strings.TrimSpace(e)))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// sameBody compares JSON by what it says, but for what is volatile, and anything else
// by its bytes.
func sameBody(want, got []byte) bool {
	// The text form of protocol buffers has one space or two, by the program.
	if bytes.Equal(want, got) || bytes.Equal(bytes.ReplaceAll(want, []byte(":  "), []byte(": ")), bytes.ReplaceAll(got, []byte(":  "), []byte(": "))) {
		return true
	}
	var w, g any
	if json.Unmarshal(want, &w) != nil || json.Unmarshal(got, &g) != nil {
		return false
	}
	return reflect.DeepEqual(without(w, volatile), without(g, volatile))
}

// check sends the exchange to both servers. They must answer the same but for
// what it says differs, and that must differ.
func (e exchange) check(t *testing.T, prometheus, promwarp string) {
	t.Helper()
	want, err := e.send(prometheus)
	require.NoError(t, err, "Prometheus")
	got, err := e.send(promwarp)
	require.NoError(t, err, "promwarp")
	if e.request != "OPTIONS *" { // which net/http answers itself, with nothing
		require.Equal(t, []string{"nosniff"}, got.header.Values("X-Content-Type-Options"), "%s: on all of promwarp's answers", e.request)
	}
	found := want.compare(got)
	for aspect, what := range found {
		if _, ok := e.differs[aspect]; !ok {
			t.Errorf("%s: %s: %s", e.request, aspect, what)
		}
	}
	for aspect, why := range e.differs {
		if _, ok := found[aspect]; !ok {
			t.Errorf("%s: %s does not differ, though it should: %s", e.request, aspect, why)
		}
	}
}

// Whatever is sent, promwarp answers as a Prometheus of the same data, but for what the
// table gives a reason for: in front of that Prometheus, and from a data directory.
func TestHTTP(t *testing.T) {
	g := smallGrid(6)
	dir := smallData(t, g.end, 6)
	up := prometheus(t, mustFreeAddr(t), dir, "")
	links := t.TempDir()
	require.NoError(t, linkBlocks(dir, links))
	addr := mustFreeAddr(t)
	fromFiles := runServer(t, "promwarp", addr, promwarpBin, "serve", "--web.listen-address="+addr, "--tsdb.path="+links)
	for name, c := range map[string]struct {
		promwarp *process
		differs  map[string]differences
	}{
		"upstream":       {promwarp(t, up.url), nil},
		"data directory": {fromFiles, dataDirectoryDiffers},
	} {
		t.Run(name, func(t *testing.T) {
			r := strings.NewReplacer("{start}", seconds(g.start), "{end}", seconds(g.end))
			for i, e := range httpTable {
				if d, ok := c.differs[e.request]; ok {
					e.differs = d
				}
				e.request = r.Replace(e.request)
				line, _, _ := strings.Cut(e.request, "\n")
				t.Run(fmt.Sprintf("%d %s", i, line), func(t *testing.T) { e.check(t, up.url, c.promwarp.url) })
			}
		})
	}
	require.GreaterOrEqual(t, len(httpTable), 150)
}
