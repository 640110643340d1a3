package remoteread

import (
	"fmt"
	"net/http"

	commonconfig "github.com/prometheus/common/config"

	"github.com/promwarp/promwarp/internal/tracing"
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
