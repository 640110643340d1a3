// Package urltext is the one place where a URL that may hold credentials becomes text for
// people: in logs, errors, metrics' labels, and on pages. A URL goes in, and its scheme, host
// and path come out; of users, queries and fragments nothing ever does, as stores behind
// gateways take tokens there.
package urltext

import (
	"errors"
	"net/url"
	"strings"
)

// Of returns u as it may be shown.
func Of(u *url.URL) string { return Bare(u).String() }

// Bare returns u without what may be secret. It is not changed.
func Bare(u *url.URL) *url.URL {
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
}

// Parse reads the text of a setting that is to be a URL. host:port stands for http://host:port.
func Parse(text string) (*url.URL, error) {
	if strings.Contains(text, ":") && !strings.Contains(text, "//") && !strings.Contains(text, "@") {
		text = "http://" + text
	}
	return url.Parse(text)
}

// Setting returns the text of a setting that is to be a URL as it may be shown. What is no
// URL is not shown at all: it may be one with a typing error.
func Setting(text string) string {
	if text == "" {
		return ""
	}
	u, err := Parse(text)
	if err != nil || u.Host == "" {
		return "(not a URL)"
	}
	return Of(u)
}

// Err returns err without the URL that net/url and net/http put into the text of theirs,
// where it is or wraps such an error.
func Err(err error) error {
	if ue, ok := errors.AsType[*url.Error](err); ok {
		return Err(ue.Err)
	}
	return err
}
