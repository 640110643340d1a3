package remoteread

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"syscall"
	"time"

	commonconfig "github.com/prometheus/common/config"
	"github.com/prometheus/prometheus/config"
	"golang.org/x/oauth2"

	"github.com/promwarp/promwarp/remoteread/urltext"
)

// UnreachableError says that the store, or the server that gives out its tokens, cannot be reached.
type UnreachableError struct {
	Err   error  // of net/http
	text  string // without credentials
	token bool   // it is the server of tokens
}

// Error implements error: "cannot reach http://prometheus:9090: connection refused".
func (e *UnreachableError) Error() string { return e.text }

// Unwrap returns the error of net/http.
func (e *UnreachableError) Unwrap() error { return e.Err }

// described returns err, of a request to the store, as an UnreachableError if it is one.
func described(store *url.URL, err error) error {
	var (
		e       = &UnreachableError{Err: err}
		what    = urltext.Of(&url.URL{Scheme: store.Scheme, Host: store.Host})
		refused *oauth2.RetrieveError
		asked   *url.Error // below http.Client only requests for tokens have one
		dns     *net.DNSError
		op      *net.OpError
		errno   syscall.Errno
	)
	switch {
	case errors.As(err, &refused):
		e.token, e.text = true, fmt.Sprintf("%s, oauth2's token_url, answers with status %s", urltext.Of(refused.Response.Request.URL), refused.Response.Status)
		return e
	case errors.As(err, &asked):
		e.token, e.Err, what = true, asked.Err, urltext.Setting(asked.URL)+", oauth2's token_url"
	}
	dialled := errors.As(e.Err, &op) && op.Op == "dial"
	switch {
	case dialled && errors.As(op, &dns):
		e.text = dns.Err
	case dialled && errors.As(op, &errno):
		e.text = errno.Error()
	case dialled:
		e.text = op.Err.Error()
	case e.token:
		e.text = e.Err.Error()
	default:
		return err
	}
	e.text = "cannot reach " + what + ": " + e.text
	return e
}

// reach is what requests have shown of the store. It is safe for concurrent use.
type reach struct {
	mu    sync.Mutex
	read  bool      // it has answered with success
	since time.Time // when it began to be away; zero while it is not
	why   error     // it is away, or was not read
}

// note notes how a request ended. Requests that their senders gave up show nothing.
func (r *reach) note(ctx context.Context, store *url.URL, resp *http.Response, err error) {
	cause := context.Cause(ctx)
	if err != nil && (errors.Is(cause, context.Canceled) || errors.Is(cause, context.DeadlineExceeded)) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil && resp.StatusCode/100 == 2:
		r.read, r.since, r.why = true, time.Time{}, nil
		return
	case err == nil:
		err = fmt.Errorf("%s answers with status %s", urltext.Of(store), resp.Status)
		if resp.StatusCode < http.StatusBadGateway || resp.StatusCode > http.StatusGatewayTimeout {
			if r.since = (time.Time{}); !r.read {
				r.why = err
			}
			return
		}
	case !errors.As(err, new(*UnreachableError)):
		err = fmt.Errorf("%s does not answer: %w", urltext.Of(store), err)
	}
	r.why = err
	if r.since.IsZero() {
		r.since = time.Now()
	}
}

// Reach reports whether the store has answered with success since the client was made, and since
// when and why it is away: it cannot be reached, or a gateway in front of it says so. since is zero
// while it is not away; why is also what was last wrong with a store that was not read yet.
func (c *Client) Reach() (read bool, since time.Time, why error) {
	r := &c.reach
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.read, r.since, r.why
}

// checkRequest has a request go as far as its connection, which is not made: files and headers that
// no request can have fail before that.
func checkRequest(cfg *config.RemoteReadConfig) error {
	far := errors.New("far enough")
	t, err := commonconfig.NewRoundTripperFromConfig(cfg.HTTPClientConfig, "promwarp_check",
		commonconfig.WithDialContextFunc(func(context.Context, string, string) (net.Conn, error) { return nil, far }))
	if err != nil {
		return err
	}
	req, err := http.NewRequest(http.MethodPost, cfg.URL.String(), nil)
	if err != nil {
		return err
	}
	for k, v := range cfg.Headers {
		req.Header.Set(k, v)
	}
	if _, err = t.RoundTrip(req); errors.Is(err, far) {
		return nil
	}
	return err
}
