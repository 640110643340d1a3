package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"syscall"
)

var errURL = errors.New("write the base URL of a server, such as " + DefaultURL)

// failed puts into words that no answer came.
func (c *Client) failed(ctx context.Context, err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err // its text has the URL, with its secrets
	}
	var timeout interface{ Timeout() bool }
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted")
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("no whole answer from %s within %s; --timeout allows more", c, c.http.Timeout)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("no answer from %s: nothing listens there; %s", c, c.hint())
	}
	return fmt.Errorf("no answer from %s: %w; %s", c, err, c.hint())
}

// hint says how to name another server.
func (c *Client) hint() string {
	if c.flag == "url" {
		return "start it, or name another server by --url or " + Envar
	}
	return "start it, or name another server by --" + c.flag
}

// stranger puts into words that an answer is not in Prometheus's form.
func (c *Client) stranger(path string, resp *http.Response, body []byte) error {
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		return fmt.Errorf("%s answers %s: it wants credentials, or others; give them by --http.config.file", c, resp.Status)
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusTooManyRequests:
		return fmt.Errorf("%s answers %s: %s", c, resp.Status, firstLine(body))
	}
	return fmt.Errorf("%s answers %s with %s and not as Prometheus's API does: it is no promwarp%s, or its API is below another path; %s",
		c, path, resp.Status, orPrometheus(path), c.hint())
}

// firstLine is the first line of a text, cut where it is long.
func firstLine(text []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	return fmt.Sprintf("%.200s", line)
}

// orPrometheus adds those who also have the door.
func orPrometheus(path string) string {
	if strings.HasPrefix(path, "/api/v1/query") || strings.HasPrefix(path, "/-/") {
		return " and no Prometheus"
	}
	return ""
}
