// Package forward answers what remote read cannot (labels, series, metadata, rules, targets) by
// asking the servers that samples are read from. Forwarder.To forwards to one of them; where there
// are several, Forwarder.Lists asks all and unites their lists. A client's credentials reach no
// server, and where servers redirect to, or what they set cookies for, reaches no client.
package forward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/api/admit"
	"github.com/promwarp/promwarp/api/promapi"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/remoteread"
	"github.com/promwarp/promwarp/remoteread/urltext"
)

// Prefix is where Prometheus's API is, here and at the servers.
const Prefix = "/api/v1"

// Remote is a server that samples are read from, and that answers what remote
// read cannot.
type Remote struct {
	// Name is the server in messages: its URL without credentials.
	Name string
	// Base is its HTTP API without /api/v1. nil when it is not known; what
	// would be forwarded is then an error.
	Base *url.URL
	// Transport sends requests, with promwarp's credentials and headers for the
	// server. nil is http.DefaultTransport.
	Transport http.RoundTripper
	// Kept are labels that queries see on its series though it lists them without; nil is
	// none.
	Kept func() labels.Labels
	// Optional says that where there are several servers, lists are answered
	// without this one, with a warning, when it fails.
	Optional bool
	// Replicas is what servers that have the same have in common: a list needs one of them. Empty is none.
	Replicas string
}

// errMissing says that an upstream does not have what is asked for.
var errMissing = errors.New("the upstream does not have it")

// forwardedHeaders are the only headers of a client that reach the upstream.
// A client's credentials, cookies and tenant are meant for promwarp, which has
// its own for the upstream.
var forwardedHeaders = []string{
	"Accept", "Accept-Encoding", "Content-Type", "Content-Length", "If-Modified-Since", "If-None-Match",
	"Traceparent", "Tracestate", "User-Agent",
}

// answerTypes are the media types of a Prometheus's answers. Others are not passed on: a browser would
// show HTML, and run what is in it, as promwarp's own.
var answerTypes = []string{"application/json", "application/yaml", "application/x-ndjson", "text/plain", "application/openmetrics-text", "application/vnd.google.protobuf"}

// Forwarder forwards requests to the servers that samples are read from.
type Forwarder struct {
	// Remotes are the servers; lists are those of all of them.
	Remotes []*Remote
	Parser  parser.Parser
	// MaxListBytes is the most bytes that servers may answer one request with where promwarp
	// puts the answer together.
	MaxListBytes int64
	// Memory is what such answers take leases of; nil is without limit.
	Memory *memory.Pool
	// Timeout bounds a request.
	Timeout time.Duration
	Logger  *slog.Logger
}

// To returns what forwards requests to a server. What it does not find there
// otherwise answers, unless that is nil.
func (f *Forwarder) To(remote *Remote, otherwise http.HandlerFunc) http.HandlerFunc {
	if remote.Base == nil {
		return promapi.Always(http.StatusNotImplemented, promapi.Unavailable, fmt.Sprintf(
			"labels and metadata cannot be listed: remote read does not carry them and the URL %s does not say where the upstream's HTTP API is; set api_url of the remote_read entry, or upstream.url, to its base, such as http://prometheus:9090", remote.Name))
	}
	base := *remote.Base
	user := base.User
	base.User = nil
	p := &httputil.ReverseProxy{
		Transport: &redirectFollower{http.Client{Transport: remote.Transport, CheckRedirect: remoteread.CheckRedirect}},
		ErrorLog:  slog.NewLogLogger(f.Logger.Handler(), slog.LevelDebug),
		Rewrite: func(r *httputil.ProxyRequest) {
			h := http.Header{}
			for _, k := range forwardedHeaders {
				if v, ok := r.In.Header[k]; ok {
					h[k] = v
				}
			}
			r.Out.Header = h
			if user != nil {
				password, _ := user.Password()
				r.Out.SetBasicAuth(user.Username(), password)
			}
			// What is wrong with the parameters the upstream says.
			r.Out.URL.RawQuery = r.In.URL.RawQuery
			r.SetURL(&base)
			r.Out.Host = base.Host
		},
		ModifyResponse: func(resp *http.Response) error {
			switch resp.StatusCode {
			case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
				// Not the client's credentials were refused, so it must not be asked for others.
				_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
				return fmt.Errorf("%s refused promwarp's credentials with status %s; check those in the configuration", remote.Name, resp.Status)
			}
			if resp.StatusCode/100 == 3 && resp.StatusCode != http.StatusNotModified {
				// Where it leads is known to promwarp's network alone.
				_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
				return fmt.Errorf("%s redirects the request with status %s, which cannot be followed; set the URL in the configuration to where that leads", remote.Name, resp.Status)
			}
			if otherwise != nil && resp.StatusCode == http.StatusNotFound {
				return errMissing
			}
			if media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); !slices.Contains(answerTypes, media) && resp.ContentLength != 0 && resp.StatusCode != http.StatusNotModified {
				_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
				return fmt.Errorf("%s answers with status %s and content of type %q, which no Prometheus does: it is another server, or a page of a proxy", remote.Name, resp.Status, media)
			}
			for k := range resp.Header {
				if k == "Set-Cookie" || k == "X-Content-Type-Options" || strings.HasPrefix(k, "Access-Control-") {
					delete(resp.Header, k)
				}
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if errors.Is(err, errMissing) {
				otherwise(w, r)
				return
			}
			f.failed(w, r, remote.Name, err)
		},
	}
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), f.Timeout)
		defer cancel()
		proxy := *p
		proxy.ModifyResponse = func(resp *http.Response) error {
			admit.Leave(w) // what is left is to write
			return p.ModifyResponse(resp)
		}
		proxy.ServeHTTP(w, r.WithContext(ctx))
	}
}

// failed answers a request that the upstream of that name did not.
func (f *Forwarder) failed(w http.ResponseWriter, r *http.Request, name string, err error) {
	switch {
	case promapi.UnreadBody(w, err):
	case errors.Is(err, context.Canceled):
		promapi.Error(w, promapi.StatusClientClosed, promapi.Canceled, "the request was cancelled")
	case errors.Is(err, context.DeadlineExceeded) && r.Context().Err() != nil:
		promapi.Error(w, http.StatusServiceUnavailable, promapi.Timeout, fmt.Sprintf("the upstream %s did not answer %s within %s", name, r.URL.Path, f.Timeout))
	default:
		f.Logger.Warn("forwarding to the upstream failed", "upstream", name, "path", r.URL.Path, "err", err)
		promapi.Error(w, http.StatusBadGateway, promapi.Unavailable, fmt.Sprintf("%v; the upstream %s was asked for %s; check that it runs and that promwarp's configuration names it rightly", err, name, r.URL.Path))
	}
}

// redirectFollower is a transport that follows redirects itself: a client of promwarp need
// not be able to reach where they lead, nor is it to know. Credentials stay with the host
// that they are for, as http.Client and the transport below it see to.
type redirectFollower struct{ http.Client }

// RoundTrip implements http.RoundTripper.
func (f *redirectFollower) RoundTrip(req *http.Request) (*http.Response, error) {
	r := req.Clone(req.Context())
	r.RequestURI = "" // which a client's request must not have
	resp, err := f.Do(r)
	if err != nil {
		return nil, urltext.Err(err)
	}
	return resp, nil
}
