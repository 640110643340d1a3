package remoteread

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/promwarp/promwarp/remoteread/answer"
	"github.com/promwarp/promwarp/remoteread/urltext"
	"github.com/promwarp/promwarp/selection"
)

// Error says why a fetch from a store failed and what can be done about it.
type Error struct {
	Upstream   string // the store's URL, without credentials, or its gRPC address
	StatusCode int    // HTTP status of the answer, 0 when there was none
	Retryable  bool   // whether such a request is worth sending again soon
	Err        error  // what happened

	advice     string        // what to do about it
	outcome    outcome       // for metrics and retries
	retryAfter time.Duration // how long the store asked to wait, 0 when it did not
	attempts   int           // requests made, when more than one
	grpc       bool          // whether it is of a store of Thanos
}

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	if e.grpc {
		fmt.Fprintf(&b, "the store %s: %v", e.Upstream, e.Err)
	} else if first, ok := errors.AsType[*UnreachableError](e.Err); ok {
		fmt.Fprintf(&b, "%v; remote read from %s failed", first, e.Upstream)
	} else {
		fmt.Fprintf(&b, "remote read from %s: %v", e.Upstream, e.Err)
	}
	if e.attempts > 1 {
		fmt.Fprintf(&b, " (after %d attempts)", e.attempts)
	}
	if e.advice != "" {
		b.WriteString("; " + e.advice)
	}
	return b.String()
}

// Unwrap returns what happened.
func (e *Error) Unwrap() error { return e.Err }

// outcome is how a request ended, as the metrics name it.
type outcome string

const (
	outcomeOK          outcome = "ok"
	outcomeCanceled    outcome = "canceled"     // the caller gave up
	outcomeTimeout     outcome = "timeout"      // no progress within remote_timeout
	outcomeConnection  outcome = "connection"   // no HTTP answer
	outcomeStatus4xx   outcome = "status_4xx"   // any status that is neither 200, 429 nor 5xx
	outcomeStatus5xx   outcome = "status_5xx"   // or an error text at the end of an answer
	outcomeRateLimited outcome = "rate_limited" // status 429
	outcomeContentType outcome = "content_type" // not a remote-read answer
	outcomeCutOff      outcome = "cut_off"      // the body ended early
	outcomeCorrupt     outcome = "corrupt"      // a checksum or the compression is wrong
	outcomeMalformed   outcome = "malformed"    // intact, but does not make sense
	outcomeTooLarge    outcome = "too_large"    // over a limit of ours
	outcomeUnfit       outcome = "unfit"        // samples that only chunks would tell for certain
	outcomeRelabelled  outcome = "relabelled"   // external labels are not what they were known to be
	outcomeClash       outcome = "clash"        // series have an external label of their own and must be asked for apart
)

const (
	checkURL       = "check that the URL ends in /api/v1/read of a Prometheus-compatible store"
	adviceCutOff   = "see the log of the store and of proxies on the way"
	adviceUnusable = "the store's answer is unusable; check the store and what lies between"
)

func (c *Client) fail(o outcome, retryable bool, err error, advice string) *Error {
	return &Error{Upstream: c.upstream, Retryable: retryable, Err: err, advice: advice, outcome: o, grpc: c.store != nil}
}

// canceled is for a fetch whose context, ctx, has ended.
func (c *Client) canceled(ctx context.Context) *Error {
	err, advice := ctx.Err(), ""
	if errors.Is(err, context.DeadlineExceeded) {
		advice = "raise the query's timeout, or narrow the selector or the time range"
	}
	return c.fail(outcomeCanceled, false, fmt.Errorf("stopped before the answer was complete: %w", err), advice)
}

func (c *Client) malformed(err error) *Error {
	// What a store sends may be part of the text.
	const most = 2048
	if text := err.Error(); len(text) > most {
		err = &cleaned{text: strings.ToValidUTF8(text[:most], "") + "…", err: err}
	}
	return c.fail(outcomeMalformed, false, err, adviceUnusable)
}

// connection is for a request that got no HTTP answer.
func (c *Client) connection(err error) *Error {
	// http.Client wraps errors together with the URL, which is named already,
	// and which may hold a token.
	err = urltext.Err(err)
	switch {
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return c.fail(outcomeConnection, false, c.clean("TLS", err), "check ca_file and server_name in tls_config")
	case errors.As(err, new(tls.RecordHeaderError)), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return c.fail(outcomeConnection, false, c.clean("TLS", err), "check whether the URL should start with http or https")
	case errors.As(err, new(*UnreachableError)):
		return c.fail(outcomeConnection, true, err, "check that it is running and is the one that the configuration means")
	default:
		return c.fail(outcomeConnection, true, c.clean("no answer", err), "check that the store is running and its log")
	}
}

// status is for an answer of another status than 200, whose body starts with
// body.
func (c *Client) status(resp *http.Response, body []byte) *Error {
	code := resp.StatusCode
	text := c.secrets.line(body)
	if text == "" {
		text = "no message"
	}
	e := c.fail(outcomeStatus4xx, false, fmt.Errorf("HTTP status %d %s: %s", code, http.StatusText(code), text), "")
	e.StatusCode = code
	switch {
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		e.advice = "check the credentials (basic_auth, authorization, oauth2 or tls_config)"
	case code == http.StatusNotFound || code == http.StatusMethodNotAllowed || code == http.StatusGone:
		e.advice = checkURL
	case code == http.StatusRequestEntityTooLarge || strings.Contains(text, "exceeded sample limit"):
		e.advice = "raise the store's remote-read limits (in Prometheus --storage.remote.read-sample-limit), or shorten the time range or narrow the selector"
	case code == http.StatusTooManyRequests:
		e.outcome, e.Retryable = outcomeRateLimited, true
		e.advice = "raise the store's rate limit or send fewer requests at once"
		e.retryAfter = retryAfter(resp.Header)
	case code >= 500:
		e.outcome, e.Retryable = outcomeStatus5xx, true
		e.advice = "see the store's log"
		e.retryAfter = retryAfter(resp.Header)
	case code >= 300 && code < 400:
		e.advice = "set the URL to where the redirect leads, or follow_redirects to true"
		if u, err := resp.Location(); err == nil {
			e.Err = fmt.Errorf("HTTP status %d %s to %s", code, http.StatusText(code), urltext.Of(u))
		}
	case code < 300:
		e.advice = checkURL
	default:
		e.advice = "the store refuses the request; see its log"
	}
	return e
}

// contentType is for an answer that is none of remote read.
func (c *Client) contentType(resp *http.Response, body []byte) *Error {
	ct := c.secrets.line([]byte(resp.Header.Get("Content-Type")))
	if ct == "" {
		ct = "none"
	}
	err := fmt.Errorf("the answer is not one of remote read: its content type is %s", ct)
	if text := c.secrets.line(body); text != "" {
		err = fmt.Errorf("%w and it starts with %s", err, text)
	}
	e := c.fail(outcomeContentType, false, err, checkURL)
	e.StatusCode = resp.StatusCode
	return e
}

// content is for an error in an answer of status 200: while it was read, or
// about what is in it.
func (c *Client) content(err error) *Error {
	var (
		own     *Error
		large   *answer.FrameTooLargeError
		text    *answer.StoreError
		cut     *answer.CutOffError
		unasked *answer.UnaskedError
	)
	e := func() *Error {
		switch {
		case errors.As(err, &own):
			return own
		case errors.As(err, &large):
			return c.fail(outcomeTooLarge, false,
				fmt.Errorf("a frame of %d bytes exceeds the limit of %d bytes", large.Size, c.answers.MaxFrame), "raise "+c.maxFrameSetBy)
		case errors.As(err, new(*answer.TooLargeError)):
			return c.fail(outcomeTooLarge, false, fmt.Errorf("%w exceeds the limit of %d bytes", err, c.answers.MaxAnswer),
				"raise --"+FlagMaxFrameBytes+", or narrow the selector or the time range")
		case errors.As(err, new(*unconfirmedError)):
			return c.fail(outcomeConnection, true, err, adviceExternal)
		case errors.Is(err, answer.ErrRelabelled):
			return c.fail(outcomeRelabelled, false, err, "")
		case errors.As(err, new(*answer.ClashError)):
			return c.fail(outcomeClash, false, err, "")
		case errors.As(err, &unasked):
			advice := adviceUnusable
			if unasked.External {
				advice += ", and whether it adds labels that --" + FlagExternalLabels + " does not say"
			}
			return c.fail(outcomeMalformed, false, unasked, advice)
		case errors.Is(err, answer.ErrUnfit):
			return c.fail(outcomeUnfit, false, err, "")
		case errors.Is(err, selection.ErrTooLarge):
			return c.fail(outcomeTooLarge, false, fmt.Errorf("the answer: %w", err),
				"raise --"+FlagMaxBytes+", or narrow the selector or the time range")
		case errors.As(err, &text):
			return c.fail(outcomeStatus5xx, true, fmt.Errorf("the store ended its answer with an error: %s", c.secrets.line(text.Text)), "see the store's log")
		case errors.As(err, new(*answer.CorruptError)):
			return c.fail(outcomeCorrupt, true, err, "the answer was damaged on its way; check proxies and the network")
		case errors.As(err, &cut):
			return c.fail(outcomeCutOff, true, c.clean("the answer was cut off", cut.Err), adviceCutOff)
		default:
			return c.malformed(err)
		}
	}()
	e.StatusCode = http.StatusOK
	return e
}

// clean bounds an error's text and takes secrets out of it. The error itself
// stays reachable through errors.Is and errors.As.
func (c *Client) clean(what string, err error) error {
	return &cleaned{text: what + ": " + c.secrets.line([]byte(err.Error())), err: err}
}

type cleaned struct {
	text string
	err  error
}

func (e *cleaned) Error() string { return e.text }
func (e *cleaned) Unwrap() error { return e.err }

// retryAfter reads the header Retry-After, in seconds or as a date.
func retryAfter(h http.Header) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if v == "" {
		return 0
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(0, time.Until(at))
	}
	// Seconds beyond what 32 bits hold are as good as the most that they do.
	n, err := strconv.ParseUint(v, 10, 32)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0
	}
	return time.Duration(n) * time.Second
}
