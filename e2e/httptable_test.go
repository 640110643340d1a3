package e2e

import (
	"bufio"
	"bytes"
	"compress/gzip"
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
		"upstream":       {promwarp(t, up.URL), nil},
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
				t.Run(fmt.Sprintf("%d %s", i, line), func(t *testing.T) { e.check(t, up.URL, c.promwarp.URL) })
			}
		})
	}
	require.GreaterOrEqual(t, len(httpTable), 130)
}

// Reasons for which promwarp's answer differs from Prometheus's.
const (
	ownWords  = "an error says what promwarp has, or where to ask instead"
	ownAnswer = "it is about the server that answers"
	ownPage   = "Prometheus's pages are the upstream's, at an address of their own"
	onePage   = "a browser gets promwarp's page there, and whoever does not ask for HTML a list of doors"
	headOfGet = "an answer to HEAD has the headers of one to GET"
	mustAllow = "a refused method comes with those that are taken"
	noPrefix  = "Prometheus leaves out /api/v1 here and leads to its page instead of the door"
	slash     = "a label's name may have a slash, which Prometheus's router takes for the end of it"
	noServer  = "a data directory is not a running Prometheus"
	fromAPI   = "the answer is one of Prometheus's API, for pages of other origins too"
)

var (
	notFound  = differences{"body": ownWords, "Content-Type": ownWords}
	unwritten = differences{"body": ownWords, "Content-Type": ownWords, "Vary": fromAPI}
	redirect  = differences{"Location": noPrefix, "body": noPrefix}
	own       = differences{"body": ownAnswer}
	running   = differences{"status": noServer, "body": noServer, "Vary": noServer}
	elsewhere = differences{"status": noServer, "body": noServer}
	refusal   = differences{"body": ownWords}

	noDocument = differences{"status": noServer, "body": noServer, "Content-Type": noServer, "Cache-Control": noServer, "Vary": fromAPI}
)

// dataDirectoryDiffers are the requests that promwarp answers in another way where it
// reads a data directory.
var dataDirectoryDiffers = map[string]differences{
	"GET /api/v1/label/a%2Fb/values":                  {"status": slash, "body": slash, "Content-Type": slash, "Vary": slash},
	"GET /api/v1/targets/relabel_steps":               running,
	"GET /api/v1/scrape_pools/config?scrapePool=none": running,
	"GET /api/v1/search/metric_names?q=up":            elsewhere,
	"GET /api/v1/status/tsdb?limit=2":                 running,
	"GET /api/v1/status/tsdb?limit=0":                 running,
	"GET /api/v1/status/tsdb/blocks":                  running,
	"GET /api/v1/status/walreplay":                    elsewhere,
	"GET /api/v1/openapi.yaml":                        noDocument,
	"GET /api/v1/openapi.yaml?openapi_version=3.2":    noDocument,
	"GET /graph?g0.expr=up&g0.tab=1":                  {"status": noServer, "body": noServer, "Content-Type": noServer, "Location": noServer},
}

// httpTable are requests as clients, proxies and people send them. {start} and
// {end} are those of the data, in seconds.
var httpTable = []exchange{
	// Queries at one time.
	{request: "GET /api/v1/query?query=1%2B1&time={end}"},
	{request: "GET /api/v1/query?query=up&time={end}"},
	{request: "GET /api/v1/query?query=up%5B3m%5D&time={end}"},
	{request: "GET /api/v1/query?query=%22text%22&time={end}"},
	{request: "GET /api/v1/query"},
	{request: "GET /api/v1/query?"},
	{request: "GET /api/v1/query?query="},
	{request: "GET /api/v1/query?query=&time="},
	{request: "GET /api/v1/query?query=up&time={end}&query=down"},
	{request: "GET /api/v1/query?query=up&time="},
	{request: "GET /api/v1/query?query=sum(up)&time={end}.123456789"},
	{request: "GET /api/v1/query?query=sum(up)&time=1e3"},
	{request: "GET /api/v1/query?query=sum(up)&time=0x10"},
	{request: "GET /api/v1/query?query=sum(up)&time=2024-01-01T00:00:00%2B02:00"},
	{request: "GET /api/v1/query?query=sum(up)&time=2024-01-01"},
	{request: "GET /api/v1/query?query=1&time={end}&limit=1"},
	{request: "GET /api/v1/query?query=sum(up)&time={end}&unknown=1"},
	{request: "GET /api/v1/query?query=up;time={end}"},
	{request: "GET /api/v1/query?time={end};query=up"},
	{request: "GET /api/v1/query?query=1&time={end}&x=a;b"},
	{request: "GET /api/v1/query?query=1&time={end}#up"},
	{request: "GET /api/v1/query?query=absent(nothing)&time={end}"},
	{request: "GET /api/v1/query?query=rate(up%5B5m%5D)&time={end}"},
	{request: "GET /api/v1/query?query=up*on(job)up&time={end}"},
	{request: "GET /api/v1/query?query=%7Bjob%3D~%22.*%22%7D&time={end}"},
	{request: "GET /api/v1/query?query=first_over_time(up%5B5m%5D)&time={end}"},
	{request: "GET /api/v1/query?query=label_replace(up,%22instance%22,%22x%22,%22%22,%22%22)&time={end}"},
	{request: "GET /api/v1/query?query=scalar(%22x%22)&time={end}"},
	{request: "GET /api/v1/query?query=%7Bjob%3D~%22(%22%7D&time={end}"},
	{request: "GET /api/v1/query?query=speed(up)&time={end}"},
	{request: "GET /api/v1/query?query=rate(up)&time={end}"},

	// Queries over a range.
	{request: "GET /api/v1/query_range?query=sum(up)&start={start}&end={end}&step=60"},
	{request: "GET /api/v1/query_range?query=sum(up)&start={start}&end={end}&step=1m"},
	{request: "GET /api/v1/query_range?query=sum(up)&start={start}&end={end}&step=77.7"},
	{request: "GET /api/v1/query_range?query=sum(up)&start={start}&end={end}"},
	{request: "GET /api/v1/query_range?query=sum(up)&start={start}&end={end}&step=0.0000000001"},
	{request: "GET /api/v1/query_range?query=sum(up)&start={start}&end={end}&step=0.0001"},
	{request: "GET /api/v1/query_range?query=sum(up)&start={end}&end={end}&step=0.0001"},
	{request: "GET /api/v1/query_range?query=sum(up)&start={start}&end={end}&step=1"},
	{request: "GET /api/v1/query_range?start={start}&end={end}&step=60"},
	{request: "GET /api/v1/query_range?query=up%5B5m%5D&start={start}&end={end}&step=60"},
	{request: "GET /api/v1/query_range?query=%22text%22&start={start}&end={end}&step=60"},
	{request: "GET /api/v1/query_range?query=sum(up)&start={start}&end={end}&step=60;limit=1"},

	// Forms.
	{request: "POST /api/v1/query\nContent-Type: application/x-www-form-urlencoded\n\nquery=sum(up)&time={end}"},
	{request: "POST /api/v1/query\nContent-Type: application/x-www-form-urlencoded; charset=UTF-8\n\nquery=sum(up)&time={end}"},
	{request: "POST /api/v1/query?query=down&time={end}\nContent-Type: application/x-www-form-urlencoded\n\nquery=sum(up)"},
	{request: "POST /api/v1/query?query=sum(up)&time={end}\nContent-Type: application/x-www-form-urlencoded"},
	{request: "POST /api/v1/query?query=sum(up)&time={end}"},
	{request: "POST /api/v1/query\n\nquery=sum(up)&time={end}"},
	{request: "POST /api/v1/query\nContent-Type: application/json\n\n{\"query\":\"up\"}"},
	{request: "POST /api/v1/query\nContent-Type: text/plain\n\nquery=up"},
	{request: "POST /api/v1/query\nContent-Type: a;b;c\n\nquery=up"},
	{request: "POST /api/v1/query\nContent-Type: application/x-www-form-urlencoded\n\nquery=sum(up);time={end}"},
	{request: "POST /api/v1/query\nContent-Type: application/x-www-form-urlencoded\n\nquery=%zz&time={end}"},
	{request: "POST /api/v1/query\nContent-Type: multipart/form-data; boundary=x\n\n--x\r\nContent-Disposition: form-data; name=\"query\"\r\n\r\nsum(up)\r\n--x\r\nContent-Disposition: form-data; name=\"time\"\r\n\r\n{end}\r\n--x--\r\n"},
	{request: "POST /api/v1/query?time={end}\nContent-Type: multipart/form-data; boundary=x\n\n--x\r\nbroken"},
	{request: "POST /api/v1/query_range\nContent-Type: multipart/form-data; boundary=x\n\n--x\r\nContent-Disposition: form-data; name=\"query\"\r\n\r\nsum(up)\r\n--x--\r\n"},
	{request: "POST /api/v1/query_range\nContent-Type: application/x-www-form-urlencoded\n\nquery=sum(up)&start={start}&end={end}&step=60"},
	{request: "POST /api/v1/series\nContent-Type: application/x-www-form-urlencoded\n\nmatch[]=up&start={start}&end={end}"},
	{request: "POST /api/v1/labels\nContent-Type: application/x-www-form-urlencoded\n\nmatch%5B%5D=up&start={start}&end={end}"},
	{request: "POST /api/v1/labels\nContent-Type: application/x-www-form-urlencoded\n\nmatch[]=up;start={start}"},
	{request: "POST /api/v1/query_exemplars\nContent-Type: application/x-www-form-urlencoded\n\nquery=up&start={start}&end={end}"},
	{request: "POST /api/v1/format_query\nContent-Type: application/x-www-form-urlencoded\n\nquery=sum(up)"},
	{request: "POST /api/v1/parse_query\nContent-Type: application/x-www-form-urlencoded\n\nquery=sum(up)"},

	// Compression and content types.
	{request: "GET /api/v1/query?query=up&time={end}\nAccept-Encoding: gzip"},
	{request: "GET /api/v1/query?query=up&time={end}\nAccept-Encoding: br, gzip"},
	{request: "GET /api/v1/query?query=up&time={end}\nAccept-Encoding: gzip;q=0"},
	{request: "GET /api/v1/query?query=up&time={end}\nAccept-Encoding: identity"},
	{request: "GET /api/v1/query?query=sum(\nAccept-Encoding: gzip"},
	{request: "GET /api/v1/query_range?query=up&start={start}&end={end}&step=60\nAccept-Encoding: gzip"},
	{request: "GET /api/v1/labels\nAccept-Encoding: gzip"},
	{request: "GET /api/v1/status/buildinfo\nAccept-Encoding: gzip", differs: own},
	{request: "GET /api/v1/query?query=sum(up)&time={end}\nAccept: application/json"},
	{request: "GET /api/v1/query?query=sum(up)&time={end}\nAccept: text/html"},
	{request: "GET /api/v1/query?query=sum(up)&time={end}\nAccept: */*"},

	// Other origins.
	{request: "GET /api/v1/query?query=sum(up)&time={end}\nOrigin: http://dashboard.example"},
	{request: "GET /api/v1/query?query=sum(\nOrigin: http://dashboard.example"},
	{request: "GET /api/v1/labels\nOrigin: http://dashboard.example"},
	{request: "GET /api/v1/status/buildinfo\nOrigin: http://dashboard.example", differs: own},
	{request: "OPTIONS /api/v1/query"},
	{request: "OPTIONS /api/v1/query\nOrigin: http://dashboard.example\nAccess-Control-Request-Method: POST\nAccess-Control-Request-Headers: content-type"},
	{request: "OPTIONS /api/v1/labels\nOrigin: http://dashboard.example"},
	{request: "OPTIONS /api/v1/label/job/values\nOrigin: http://dashboard.example"},
	{request: "OPTIONS /api/v1/read"},
	{request: "OPTIONS /api/v1/unknown"},
	{request: "OPTIONS /api/v1/"},
	{request: "OPTIONS /-/healthy"},
	{request: "OPTIONS /federate"},
	{request: "OPTIONS /unknown", differs: notFound},
	{request: "OPTIONS *"},

	// Lists.
	{request: "GET /api/v1/labels"},
	{request: "GET /api/v1/labels?match[]=up&start={start}&end={end}"},
	{request: "GET /api/v1/labels?match[]=up&limit=1"},
	{request: "GET /api/v1/labels?match[]=up;limit=1"},
	{request: "GET /api/v1/label/__name__/values?start={start}&end={end}"},
	{request: "GET /api/v1/label/job/values?match[]=up&match[]=http_requests_total"},
	{request: "GET /api/v1/label/a%2Fb/values", differs: differences{"Vary": fromAPI}},
	{request: "GET /api/v1/label//values"},
	{request: "GET /api/v1/series?match[]=up&start={start}&end={end}"},
	{request: "GET /api/v1/query_exemplars?query=up&start={start}&end={end}"},
	{request: "GET /api/v1/metadata"},
	{request: "GET /api/v1/metadata?limit=1&metric=none"},
	{request: "GET /api/v1/targets/metadata?match_target=%7B%7D"},
	{request: "GET /api/v1/targets?state=dropped"},
	{request: "GET /api/v1/targets/relabel_steps"},
	{request: "GET /api/v1/scrape_pools"},
	{request: "GET /api/v1/scrape_pools/config?scrapePool=none"},
	{request: "GET /api/v1/rules"},
	{request: "GET /api/v1/alerts"},
	{request: "GET /api/v1/alertmanagers"},
	{request: "GET /api/v1/search/metric_names?q=up"},

	// What a server is and does.
	{request: "GET /api/v1/status/buildinfo", differs: own},
	{request: "GET /api/v1/status/config", differs: own},
	{request: "GET /api/v1/status/flags", differs: own},
	{request: "GET /api/v1/status/runtimeinfo", differs: own},
	{request: "GET /api/v1/status/tsdb?limit=2"},
	{request: "GET /api/v1/status/tsdb?limit=0"},
	{request: "GET /api/v1/status/tsdb/blocks"},
	{request: "GET /api/v1/status/walreplay"},
	{request: "GET /api/v1/status/self_metrics", differs: own},
	{request: "GET /api/v1/features", differs: own},
	{request: "GET /api/v1/notifications"},
	{request: "GET /api/v1/openapi.yaml", differs: differences{"Vary": fromAPI}},
	{request: "GET /api/v1/openapi.yaml?openapi_version=3.2", differs: differences{"Vary": fromAPI}},
	{request: "GET /version", differs: own},
	{request: "GET /-/healthy", differs: own},
	{request: "HEAD /-/healthy", differs: differences{"Content-Type": headOfGet}},
	{request: "POST /-/healthy"},
	{request: "GET /-/ready", differs: own},
	{request: "HEAD /-/ready", differs: differences{"Content-Type": headOfGet}},
	{request: "GET /-/quit", differs: differences{"Allow": mustAllow}},
	{request: "POST /-/quit"},
	{request: "PUT /-/quit"},
	{request: "DELETE /-/quit"},
	{request: "GET /-/reload", differs: differences{"Allow": mustAllow}},
	{request: "DELETE /-/reload"},
	{request: "GET /metrics", differs: own},

	// What changes data.
	{request: "POST /api/v1/write", differs: unwritten},
	{request: "GET /api/v1/write"},
	{request: "POST /api/v1/otlp/v1/metrics", differs: unwritten},
	{request: "POST /api/v1/admin/tsdb/snapshot", differs: refusal},
	{request: "PUT /api/v1/admin/tsdb/clean_tombstones", differs: refusal},
	{request: "POST /api/v1/admin/tsdb/delete_series?match[]=up", differs: refusal},
	{request: "GET /api/v1/admin/tsdb/snapshot"},
	{request: "POST /api/v1/read"},
	{request: "GET /api/v1/read"},

	// Methods and paths.
	{request: "HEAD /api/v1/query?query=up"},
	{request: "PUT /api/v1/query?query=up"},
	{request: "DELETE /api/v1/query"},
	{request: "PATCH /api/v1/query"},
	{request: "QUERY /api/v1/query"},
	{request: "POST /api/v1/label/job/values"},
	{request: "POST /api/v1/metadata"},
	{request: "HEAD /api/v1/labels"},
	{request: "DELETE /api/v1/series?match[]=up"},
	{request: "PUT /api/v1/status/buildinfo"},
	{request: "GET /api/v1/query/", differs: redirect},
	{request: "POST /api/v1/query/", differs: differences{"Location": noPrefix}},
	{request: "GET /api/v1/query/?query=1&time={end}", differs: redirect},
	{request: "GET /api/v1/QUERY?query=1&time={end}", differs: redirect},
	{request: "GET //api/v1/query?query=1&time={end}"},
	{request: "GET /api/v1//query?query=1&time={end}"},
	{request: "POST /api/v1//query?query=1&time={end}"},
	{request: "GET /api/v1/../v1/query?query=1&time={end}"},
	{request: "GET /api/v1/%71uery?query=1&time={end}"},
	{request: "GET /api/v1"},
	{request: "GET /api/v1/", differs: notFound},
	{request: "GET /api/v1/unknown", differs: notFound},
	{request: "POST /api/v1/unknown", differs: notFound},
	{request: "GET /api/v1/query/unknown", differs: notFound},
	{request: "GET /api/v2/query", differs: notFound},
	{request: "GET /unknown", differs: notFound},
	{request: "POST /unknown", differs: notFound},
	{request: "POST /federate"},
	{request: "GET /federate?match[]=up"},
	{request: "GET /federate?match[]=sum("},
	{request: "GET /federate"},

	// Pages.
	{request: "GET /graph?g0.expr=up&g0.tab=1", differs: differences{"Location": ownPage, "body": ownPage}},
	{request: "HEAD /graph"},
	{request: "GET /", differs: differences{"status": ownAnswer, "Content-Type": ownAnswer, "Location": ownAnswer, "body": ownAnswer, "Vary": onePage}},
	{request: "HEAD /", differs: differences{"status": headOfGet, "Allow": headOfGet, "Vary": onePage}},
}
