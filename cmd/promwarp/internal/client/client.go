// Package client asks a promwarp or a Prometheus, over HTTP or inside this process.
//
// A form goes in; out comes an Answer, or an error that says what is wrong and what to do: nothing
// listens, credentials are missing, it is no Prometheus, or the server refused (compare.Refused). Start
// with Client.Ask; Client.Stream reads large answers as they come. Inside returns the client of a handler
// of this process.
package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/alecthomas/kingpin/v2"
	commonconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/engine/compare"
	"github.com/promwarp/promwarp/remoteread"
	"github.com/promwarp/promwarp/remoteread/urltext"
)

// Doors of Prometheus's API that answer PromQL.
const (
	Instant = "/api/v1/query"
	Ranged  = "/api/v1/query_range"
)

// Form is the door and the form that ask for a query from start to end, or at its start if step is 0.
func Form(query string, start, end time.Time, step time.Duration) (path string, form url.Values) {
	if step == 0 {
		return Instant, url.Values{"query": {query}, "time": {Stamp(start)}}
	}
	return Ranged, url.Values{"query": {query}, "start": {Stamp(start)}, "end": {Stamp(end)}, "step": {Seconds(step)}}
}

// Stamp is a time as servers take it.
func Stamp(t time.Time) string {
	return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', -1, 64)
}

// Seconds is a duration as servers take it.
func Seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }

// Client asks one server. It is safe for concurrent use.
type Client struct {
	name string // in messages, without secrets
	hint string // how to name another server
	base *url.URL
	http http.Client
	// Longest is the most bytes that Ask and Get read of an answer; 0 sets no limit.
	Longest int
	// Waiting, when set, is called before each request; what it returns, once the answer is there, or
	// of a copy begins to be.
	Waiting func() (stop func())
}

// Answer is what a server says in Prometheus's form.
type Answer struct {
	compare.Reply
	// Took is the time from sending the request to the end of the answer.
	Took time.Duration
}

// String is the server's URL, without secrets.
func (c *Client) String() string { return c.name }

// URL is that of a path below the server's base.
func (c *Client) URL(path string) *url.URL {
	u := *c.base
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/")+path, ""
	return &u
}

// Ask posts a form and reads the whole answer.
func (c *Client) Ask(ctx context.Context, path string, form url.Values) (*Answer, error) {
	return c.read(ctx, http.MethodPost, path, form)
}

// Get asks for what a door shows.
func (c *Client) Get(ctx context.Context, path string, form url.Values) (*Answer, error) {
	return c.read(ctx, http.MethodGet, path, form)
}

// Text gets a door's answer that is text for people, such as that of /-/ready.
func (c *Client) Text(ctx context.Context, path string) (string, error) {
	defer c.waiting()()
	resp, err := c.send(ctx, http.MethodGet, path, nil, "text/plain")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	switch {
	case err != nil:
		return "", c.failed(ctx, err)
	case mediaType(resp) == "text/plain" && resp.StatusCode == http.StatusOK:
		return string(body), nil
	}
	return "", c.stranger(path, resp, body)
}

func (c *Client) read(ctx context.Context, method, path string, form url.Values) (*Answer, error) {
	defer c.waiting()()
	begin := time.Now()
	resp, err := c.send(ctx, method, path, form, "application/json")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var body bytes.Buffer
	from := io.Reader(resp.Body)
	if c.Longest > 0 {
		from = io.LimitReader(from, int64(c.Longest)+1)
	}
	switch _, err := body.ReadFrom(from); {
	case err != nil:
		return nil, c.failed(ctx, err)
	case c.Longest > 0 && body.Len() > c.Longest:
		return nil, fmt.Errorf("the answer is too long: over %d bytes", c.Longest)
	}
	took := time.Since(begin)
	r, err := c.parse(path, resp, body.Bytes())
	return &Answer{r, took}, err
}

func (c *Client) waiting() (stop func()) {
	if c.Waiting == nil {
		return func() {}
	}
	return c.Waiting()
}

// send sends a request.
func (c *Client) send(ctx context.Context, method, path string, form url.Values, accept string) (*http.Response, error) {
	u := c.URL(path)
	var body io.Reader
	if method == http.MethodGet {
		u.RawQuery = form.Encode()
	} else {
		body = strings.NewReader(form.Encode())
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	req.Header.Set("Accept", accept)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.failed(ctx, err)
	}
	return resp, nil
}

// parse reads an answer in Prometheus's form.
func (c *Client) parse(path string, resp *http.Response, body []byte) (compare.Reply, error) {
	r, err := compare.ReadReply(resp.StatusCode, body)
	if err != nil && (r.Status == "" || !errors.As(err, new(*compare.Refused))) {
		err = c.stranger(path, resp, body)
	}
	return r, err
}

// Busy reports whether err says that a server has no time for a request.
func Busy(err error) bool {
	var refused *compare.Refused
	return errors.As(err, &refused) && (refused.Status == http.StatusTooManyRequests || refused.Status == http.StatusServiceUnavailable)
}

func mediaType(resp *http.Response) string {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return kind
}

// Side is how compare.Measure asks a form with extra parameters.
func (c *Client) Side(path string, form, extra url.Values) compare.Side {
	form = maps.Clone(form)
	maps.Copy(form, extra)
	return func(ctx context.Context) (*compare.Answer, error) {
		a, err := c.Ask(ctx, path, form)
		if err != nil {
			return nil, err
		}
		parsed, err := a.Answer()
		if err != nil {
			return nil, fmt.Errorf("the answer cannot be read: %w", err)
		}
		parsed.Took = a.Took
		return parsed, nil
	}
}

// failed puts into words that no answer came.
func (c *Client) failed(ctx context.Context, err error) error {
	err = urltext.Err(err) // whose text has the URL, with its secrets
	var timeout interface{ Timeout() bool }
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted")
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("no whole answer from %s within %s; --timeout allows more", c, c.http.Timeout)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("no answer from %s: nothing listens there%s", c, c.hint)
	}
	return fmt.Errorf("no answer from %s: %w%s", c, err, c.hint)
}

// stranger puts into words that an answer is not in Prometheus's form.
func (c *Client) stranger(path string, resp *http.Response, body []byte) error {
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		return fmt.Errorf("%s answers %s: it wants credentials, or others; give them by --http.config.file", c, resp.Status)
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusTooManyRequests:
		line, _, _ := strings.Cut(strings.TrimSpace(string(body)), "\n")
		return fmt.Errorf("%s answers %s: %.200s", c, resp.Status, line)
	}
	alike := ""
	if strings.HasPrefix(path, "/api/v1/query") || strings.HasPrefix(path, "/-/") {
		alike = " and no Prometheus" // which has these, too
	}
	return fmt.Errorf("%s answers %s with %s and not as Prometheus's API does: it is no promwarp%s, or its API is below another path%s",
		c, path, resp.Status, alike, c.hint)
}

// DefaultURL is where promwarp serve listens unless it is told otherwise.
const DefaultURL = "http://localhost:9201"

// Envar names the environment variable that has the URL where --url is not given.
const Envar = "PROMWARP_URL"

// Flags say whom to ask, and how.
type Flags struct {
	URL     string
	Given   bool // --url is on the command line
	HTTP    string
	Timeout time.Duration // the default before Add, if it is not 5m
}

// Add declares the flags. An empty otherwise means that a server is always asked; else it says what
// happens without a URL.
func (f *Flags) Add(cmd *kingpin.CmdClause, otherwise string) {
	help, initial := "Base URL of the promwarp or Prometheus to ask.", DefaultURL
	if otherwise != "" {
		help, initial = "Base URL of the promwarp to ask. "+otherwise, ""
	}
	cmd.Flag("url", help).PlaceHolder("URL").Default(initial).Envar(Envar).IsSetByUser(&f.Given).StringVar(&f.URL)
	cmd.Flag("http.config.file", "File with credentials, TLS and headers for it, as promtool takes it: https://prometheus.io/docs/prometheus/latest/configuration/promtool").PlaceHolder("FILE").StringVar(&f.HTTP)
	cmd.Flag("timeout", "Longest to wait for an answer.").Default(model.Duration(cmp.Or(f.Timeout, 5*time.Minute)).String()).DurationVar(&f.Timeout)
}

// HTTPConfig reads the file with credentials; without one it is the default.
func (f *Flags) HTTPConfig() (commonconfig.HTTPClientConfig, error) {
	if f.HTTP == "" {
		return commonconfig.DefaultHTTPClientConfig, nil
	}
	c, _, err := commonconfig.LoadHTTPConfigFile(f.HTTP)
	if err != nil {
		return commonconfig.HTTPClientConfig{}, config.Usagef("--http.config.file %s: %w", f.HTTP, err)
	}
	return *c, nil
}

// Client returns the client of the server at a URL that the flag of that name gave.
func (f *Flags) Client(flag, text string) (*Client, error) {
	base, err := parseURL(text)
	if err != nil {
		return nil, config.Usagef("--%s %q: %w", flag, text, err)
	}
	c, err := f.HTTPConfig()
	if err != nil {
		return nil, err
	}
	transport, err := commonconfig.NewRoundTripperFromConfig(c, "promwarp", commonconfig.WithKeepAlivesDisabled())
	if err != nil {
		return nil, config.Usagef("--http.config.file %s: %w", f.HTTP, err)
	}
	hint := "; start it, or name another server by --" + flag
	if flag == "url" {
		hint += " or " + Envar
	}
	return &Client{name: urltext.Of(base), hint: hint, base: base, http: http.Client{Transport: transport, Timeout: f.Timeout}}, nil
}

// parseURL reads a base URL, which may lack its scheme.
func parseURL(text string) (*url.URL, error) {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, err
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, errors.New("write the base URL of a server, such as " + DefaultURL)
	}
	u.RawQuery, u.Fragment = "", ""
	return u, nil
}

// Of returns the client of a server that is asked over a transport.
func Of(base *url.URL, transport http.RoundTripper) *Client {
	return &Client{name: urltext.Of(base), base: base, http: http.Client{Transport: transport, CheckRedirect: remoteread.CheckRedirect}}
}

// InsideAddress is the remote address of requests by clients of Inside, which no network has.
const InsideAddress = "pipe"

// Inside returns the client of a handler that only this process can ask. Stop ends it.
func Inside(h http.Handler) (c *Client, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	l := pipes{make(chan net.Conn), ctx, cancel}
	srv := &http.Server{Handler: h}
	var serving sync.WaitGroup
	serving.Go(func() { _ = srv.Serve(l) }) // until stop
	transport := &http.Transport{DialContext: l.dial, DisableCompression: true}
	c = &Client{name: "promwarp in this process", base: &url.URL{Scheme: "http", Host: "promwarp"}, http: http.Client{Transport: transport}}
	return c, func() {
		transport.CloseIdleConnections()
		_ = srv.Close()
		serving.Wait()
	}
}

// pipes is a net.Listener inside the process.
type pipes struct {
	dialled chan net.Conn
	ctx     context.Context // ends when it is closed
	cancel  context.CancelFunc
}

func (p pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.dialled <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Accept implements net.Listener.
func (p pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.dialled:
		return conn, nil
	case <-p.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p pipes) Close() error {
	p.cancel()
	return nil
}

// Addr implements net.Listener.
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: InsideAddress} }
