package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

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

// listing returns what answers the doors that remote read cannot answer, and
// those that only a running Prometheus can.
func (a *API) listing() (list, only http.Handler) {
	list, only = a.lists()
	waits := func(h http.Handler) http.Handler {
		return a.admittedTo(a.listAdmission(), h, a.respondNotAdmitted)
	}
	return waits(list), waits(only)
}

// lists are the handlers of listing for requests that have a slot.
func (a *API) lists() (list, only http.Handler) {
	switch len(a.o.Remotes) {
	case 0:
		return escapeName(a.v1), respondWith(http.StatusNotFound, typeNotFound, "promwarp reads a data directory; only a running Prometheus answers this")
	case 1:
		p := a.staying(a.cors(a.forward(a.o.Remotes[0])))
		return p, p
	}
	return a.staying(a.gather()), respondWith(http.StatusNotFound, typeNotFound, "promwarp reads from several servers, each of which answers this for itself; ask them")
}

// forward returns what forwards requests to a server.
func (a *API) forward(remote *Remote) http.Handler {
	h := a.forwardOr(remote, nil)
	if remote.Kept != nil && remote.Base != nil {
		return a.keptLabels(remote, h)
	}
	return h
}

// forwardOr returns what forwards requests to a server. What it does not find there
// otherwise answers, unless that is nil.
func (a *API) forwardOr(remote *Remote, otherwise http.Handler) http.Handler {
	if remote.Base == nil {
		return respondWith(http.StatusNotImplemented, typeUnavailable, fmt.Sprintf(
			"labels and metadata cannot be listed: remote read does not carry them and the URL %s does not say where the upstream's HTTP API is; set api_url of the remote_read entry, or upstream.url, to its base, such as http://prometheus:9090", remote.Name))
	}
	base := *remote.Base
	user := base.User
	base.User = nil
	p := &httputil.ReverseProxy{
		Transport: following(remote.Transport),
		ErrorLog:  slog.NewLogLogger(a.logger.Handler(), slog.LevelDebug),
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
			evaluationEnded(resp.Request.Context()) // what is left is to write
			switch resp.StatusCode {
			case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
				// Not the client's credentials were refused, so it must not be asked for others.
				_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
				return fmt.Errorf("it refused promwarp's credentials with status %s; check those in the configuration", resp.Status)
			}
			if redirects(resp.StatusCode) {
				// Where it leads is known to promwarp's network alone.
				_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
				return fmt.Errorf("it redirects the request with status %s, which cannot be followed; set the URL in the configuration to where that leads", resp.Status)
			}
			if otherwise != nil && resp.StatusCode == http.StatusNotFound {
				return errMissing
			}
			for k := range resp.Header {
				if k == "Set-Cookie" || strings.HasPrefix(k, "Access-Control-") {
					delete(resp.Header, k)
				}
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if errors.Is(err, errMissing) {
				otherwise.ServeHTTP(w, r)
				return
			}
			a.forwardFailed(w, r, remote.Name, err)
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), a.o.Timeout)
		defer cancel()
		p.ServeHTTP(w, r.WithContext(ctx))
	})
}

// forwardFailed answers a request that the upstream of that name did not.
func (a *API) forwardFailed(w http.ResponseWriter, r *http.Request, name string, err error) {
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		respondError(w, http.StatusRequestEntityTooLarge, typeBadData, tooLarge(large))
	case errors.Is(err, errSlowBody):
		respondError(w, http.StatusRequestTimeout, typeTimeout, err.Error())
	case errors.Is(err, context.Canceled):
		respondError(w, statusClientClosed, typeCanceled, "the request was cancelled")
	case errors.Is(err, context.DeadlineExceeded) && r.Context().Err() != nil:
		respondError(w, http.StatusServiceUnavailable, typeTimeout, fmt.Sprintf("the upstream %s did not answer %s within %s", name, r.URL.Path, a.o.Timeout))
	default:
		a.logger.Warn("forwarding to the upstream failed", "upstream", name, "path", r.URL.Path, "err", err)
		respondError(w, http.StatusBadGateway, typeUnavailable, fmt.Sprintf("the upstream %s does not answer: %v; check that it runs and that promwarp's configuration names it rightly", name, err))
	}
}

// escapeName lets Prometheus's API answer for a label whose name holds an
// escaped slash, which its router does not find, by escaping the name in
// Prometheus's own way.
func escapeName(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, ok := strings.CutPrefix(r.URL.EscapedPath(), prefix+"/label/")
		name, isLabel := strings.CutSuffix(name, "/values")
		if ok && isLabel && strings.Contains(name, "%") {
			if plain, err := url.PathUnescape(name); err == nil && strings.Contains(plain, "/") {
				if !strings.HasPrefix(plain, "U__") {
					plain = model.EscapeName(plain, model.ValueEncodingEscaping)
				}
				r = r.Clone(r.Context())
				r.URL.Path, r.URL.RawPath = prefix+"/label/"+plain+"/values", ""
			}
		}
		h.ServeHTTP(w, r)
	})
}
