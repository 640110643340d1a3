package remoteread

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	commonconfig "github.com/prometheus/common/config"
	"github.com/prometheus/prometheus/config"
	"golang.org/x/oauth2"

	"github.com/promwarp/promwarp/internal/tracing"
	"github.com/promwarp/promwarp/remoteread/urltext"
)

// maxRedirects is how many redirects of one request are followed.
const maxRedirects = 10

// CheckRedirect is http.Client's: it says whether a redirect is followed. One that would make
// another kind of request of it is not: that would lose the parameters in the body. Where the
// request was sent is not told to anybody: it may hold a token.
func CheckRedirect(req *http.Request, via []*http.Request) error {
	req.Header.Del("Referer")
	switch {
	case req.Method != via[0].Method:
		return http.ErrUseLastResponse
	case len(via) >= maxRedirects:
		return fmt.Errorf("stopped after %d redirects", maxRedirects)
	}
	return nil
}

// withoutCredentials is c without anything that proves who promwarp is.
func withoutCredentials(c commonconfig.HTTPClientConfig) commonconfig.HTTPClientConfig {
	tls := c.TLSConfig
	tls.Cert, tls.CertFile, tls.CertRef = "", "", ""
	tls.Key, tls.KeyFile, tls.KeyRef = "", "", ""
	return commonconfig.HTTPClientConfig{
		TLSConfig: tls, ProxyConfig: c.ProxyConfig, FollowRedirects: c.FollowRedirects, EnableHTTP2: c.EnableHTTP2,
	}
}

// readAhead is how many bytes of a connection are read ahead. net/http reads 4 KiB, and of a body no
// more than what a store has written of it at once.
const readAhead = 128 << 10

// aheadConn is a connection that is read ahead.
type aheadConn struct {
	net.Conn
	in *bufio.Reader
}

// Read implements net.Conn.
func (c *aheadConn) Read(p []byte) (int, error) { return c.in.Read(p) }

func dialAhead(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &aheadConn{c, bufio.NewReaderSize(c, readAhead)}, nil
}

// headers adds configured headers to requests, and the trace that they are of.
type headers struct {
	next    http.RoundTripper // which has credentials
	foreign http.RoundTripper // which has none
	set     map[string]string
	reach   *reach
}

// RoundTrip implements http.RoundTripper. A request that a redirect has sent to another host or
// port, or from https to http, gets neither the headers, which may hold credentials, nor
// others.
func (h *headers) RoundTrip(req *http.Request) (*http.Response, error) {
	home := true
	for r := req; r.Response != nil && r.Response.Request != nil; {
		before := r.Response.Request
		home = home && before.URL.Host == r.URL.Host && (before.URL.Scheme == r.URL.Scheme || r.URL.Scheme == "https")
		r = before
	}
	if !home {
		req = req.Clone(req.Context())
		req.Header.Del("Authorization") // of a user in the URL
		req.Header.Del("Cookie")
		return h.foreign.RoundTrip(req)
	}
	if len(h.set) > 0 || tracing.ID(req.Context()) != "" {
		req = req.Clone(req.Context())
		tracing.Inject(req.Context(), req.Header)
		for k, v := range h.set {
			req.Header.Set(k, v)
		}
	}
	resp, err := h.next.RoundTrip(req)
	if err != nil {
		err = unreachable(req.URL, err)
	}
	h.reach.note(req, resp, err)
	return resp, err
}

// CloseIdleConnections makes http.Client.CloseIdleConnections reach the
// transport.
func (h *headers) CloseIdleConnections() {
	for _, t := range []http.RoundTripper{h.next, h.foreign} {
		if t, ok := t.(interface{ CloseIdleConnections() }); ok {
			t.CloseIdleConnections()
		}
	}
}

// UnreachableError says that the store, or the server that gives out its tokens, cannot be reached.
type UnreachableError struct {
	Err  error  // of net/http
	text string // without credentials
}

// Error implements error: "cannot reach http://prometheus:9090: connection refused".
func (e *UnreachableError) Error() string { return e.text }

// Unwrap returns the error of net/http.
func (e *UnreachableError) Unwrap() error { return e.Err }

// unreachable returns err, of a request to a server, as an UnreachableError if it is one.
func unreachable(server *url.URL, err error) error {
	what := server.Scheme + "://" + server.Host
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return &UnreachableError{err, fmt.Sprintf("%s, oauth2's token_url, answers with status %s", urltext.Of(refused.Response.Request.URL), refused.Response.Status)}
	}
	asked, token := errors.AsType[*url.Error](err) // below http.Client only requests for tokens have one
	if token {
		err, what = asked.Err, urltext.Setting(asked.URL)+", oauth2's token_url"
	}
	why := err
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		why = op.Err
	} else if !token {
		return err
	}
	return &UnreachableError{err, "cannot reach " + what + ": " + strings.TrimPrefix(why.Error(), "connect: ")}
}

// reach is what requests have shown of the store. It is safe for concurrent use.
type reach struct {
	mu    sync.Mutex
	read  bool      // it has answered with success
	since time.Time // when it began to be away; zero while it is not
	why   error     // it is away, or was not read
}

// note notes how a request ended. Requests that their senders gave up show nothing, nor do those of
// clients that fail otherwise than for want of a connection: their bodies or questions may be to
// blame. Only what promwarp itself reads with has a body that can be sent again.
func (r *reach) note(req *http.Request, resp *http.Response, err error) {
	cause := context.Cause(req.Context())
	away := err != nil || resp.StatusCode >= http.StatusBadGateway && resp.StatusCode <= http.StatusGatewayTimeout
	clients := req.GetBody == nil && (err == nil || req.Body != nil) && !errors.As(err, new(*UnreachableError))
	if away && (clients || errors.Is(cause, context.Canceled) || errors.Is(cause, context.DeadlineExceeded)) {
		return
	}
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("%s answers with status %s", urltext.Of(req.URL), resp.Status)
	}
	r.set(err, away)
}

// set notes what was wrong with a request, nil for nothing, and whether the store is away.
func (r *reach) set(why error, away bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read, r.why = r.read || why == nil, why
	if !away {
		r.since = time.Time{}
	} else if r.since.IsZero() {
		r.since = time.Now()
	}
}

// Reach reports whether the store has answered with success since the client was made, and since
// when it is away: it cannot be reached, or a gateway in front of it says so. since is zero while it
// is not. why is what was wrong with the last request that failed since one succeeded.
func (c *Client) Reach() (read bool, since time.Time, why error) {
	c.reach.mu.Lock()
	defer c.reach.mu.Unlock()
	return c.reach.read, c.reach.since, c.reach.why
}

// checkRequest has a request go as far as its connection, which is not made: files and headers that
// no request can have fail before that.
func checkRequest(cfg *config.RemoteReadConfig) error {
	errNoDial := errors.New("no connection is made")
	dial := func(context.Context, string, string) (net.Conn, error) { return nil, errNoDial }
	t, err := commonconfig.NewRoundTripperFromConfig(cfg.HTTPClientConfig, "promwarp_check", commonconfig.WithDialContextFunc(dial))
	if err != nil {
		return err
	}
	req := &http.Request{Method: http.MethodPost, URL: cfg.URL.URL, Header: http.Header{}}
	if _, err = (&headers{next: t, set: cfg.Headers, reach: &reach{}}).RoundTrip(req); errors.Is(err, errNoDial) {
		return nil
	}
	return err
}
