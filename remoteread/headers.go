package remoteread

import (
	"mime"
	"net/http"
	"strings"
	"time"
)

// retryAfter reads the header Retry-After, in seconds or as a date.
func retryAfter(h http.Header) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if v == "" {
		return 0
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(0, time.Until(at))
	}
	// Seconds beyond what a Duration holds are as good as the most it holds.
	var s int64
	for _, d := range v {
		if d < '0' || d > '9' {
			return 0
		}
		s = min(s*10+int64(d-'0'), 1<<32)
	}
	return time.Duration(s) * time.Second
}

// mediaType is the content type without parameters, and the message it holds
// where it says so.
func mediaType(h http.Header) (typ, message string) {
	typ, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return "", ""
	}
	return typ, params["proto"]
}
