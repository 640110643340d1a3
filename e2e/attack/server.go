package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// server is a promwarp or a Prometheus, asked from one source address.
type server struct {
	url    string // without a slash at its end
	addr   string // host:port
	client *http.Client
	dialer net.Dialer
}

// from is the server asked from an address of this machine, if it is on it.
func (s *server) from(address string) *server {
	host, _, _ := net.SplitHostPort(s.addr)
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() || ip.To4() == nil {
		return s
	}
	if other, err := newServer(s.url, address); err == nil {
		return other
	}
	return s
}

// newServer returns the server at base. from is the address that it is asked from, empty for any.
func newServer(base, from string) (*server, error) {
	base = strings.TrimRight(base, "/")
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" {
		return nil, fmt.Errorf("not the URL of a server: %q; write one such as http://127.0.0.1:9201", base)
	}
	s := &server{url: base, addr: u.Host}
	if u.Port() == "" {
		s.addr = net.JoinHostPort(u.Hostname(), "80")
	}
	s.dialer.Timeout = 10 * time.Second
	if from != "" {
		s.dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	s.client = &http.Client{
		Transport: &http.Transport{
			DialContext: s.dialer.DialContext, DisableCompression: true, MaxIdleConnsPerHost: 64, MaxResponseHeaderBytes: 1 << 20,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return s, nil
}

// answer is what became of a request.
type answer struct {
	code       int
	bytes      int64         // of the body
	first      time.Duration // until the header of the answer
	took       time.Duration // until the end of the answer
	head       string        // the first 64 KiB of the body
	retryAfter string
	err        error
}

// ok says whether the request was answered with 2xx, to the end.
func (a answer) ok() bool { return a.err == nil && a.code/100 == 2 }

// refused says whether the request was answered with 4xx or 5xx.
func (a answer) refused() bool { return a.err == nil && a.code >= 400 }

func (a answer) String() string {
	switch {
	case a.err != nil:
		return fmt.Sprintf("%v after %s", unwrapped(a.err), short(a.took))
	case a.refused():
		return fmt.Sprintf("%d %s in %s", a.code, a.reason(), short(a.first))
	default:
		return fmt.Sprintf("%d, %d bytes in %s", a.code, a.bytes, short(a.took))
	}
}

// reason is what an error's body says, at most 60 characters of it.
func (a answer) reason() string {
	var body struct {
		ErrorType string `json:"errorType"`
		Error     string `json:"error"`
	}
	text := a.head
	if json.Unmarshal([]byte(a.head), &body) == nil && body.Error != "" {
		text = body.ErrorType + ": " + body.Error
	}
	return fmt.Sprintf("%.60q", strings.TrimSpace(text))
}

// unwrapped is the error without the URL, which may be megabytes.
func unwrapped(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// get sends a GET request. path may have a query string.
func (s *server) get(ctx context.Context, path string) answer {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		return answer{err: err}
	}
	return s.do(req)
}

// post sends a form.
func (s *server) post(ctx context.Context, path string, form url.Values) answer {
	return s.send(ctx, path, "application/x-www-form-urlencoded", strings.NewReader(form.Encode()))
}

// send sends a body.
func (s *server) send(ctx context.Context, path, contentType string, body io.Reader) answer {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+path, body)
	if err != nil {
		return answer{err: err}
	}
	req.Header.Set("Content-Type", contentType)
	return s.do(req)
}

// do sends the request and reads the answer to its end.
func (s *server) do(req *http.Request) answer {
	start := time.Now()
	resp, err := s.client.Do(req)
	if err != nil {
		return answer{err: err, took: time.Since(start)}
	}
	defer resp.Body.Close()
	a := answer{code: resp.StatusCode, first: time.Since(start), retryAfter: resp.Header.Get("Retry-After")}
	var head strings.Builder
	if a.bytes, a.err = io.CopyN(&head, resp.Body, 64<<10); a.err == nil {
		var rest int64
		rest, a.err = io.Copy(io.Discard, resp.Body)
		a.bytes += rest
	} else if errors.Is(a.err, io.EOF) {
		a.err = nil
	}
	a.head, a.took = head.String(), time.Since(start)
	return a
}

// dial opens a connection for requests that no client library would send.
func (s *server) dial(ctx context.Context) (net.Conn, error) {
	return s.dialer.DialContext(ctx, "tcp", s.addr)
}

// metrics are the server's own metrics without labels, by name.
func (s *server) metrics(ctx context.Context) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return parseMetrics(resp.Body)
}

// parseMetrics reads the text format. Values with labels are added up by their metric's name.
func parseMetrics(r io.Reader) (map[string]float64, error) {
	all := map[string]float64{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "#") {
			continue
		}
		cut := strings.LastIndexByte(line, ' ')
		if cut < 0 {
			continue
		}
		name, _, _ := strings.Cut(line[:cut], "{")
		if v, err := strconv.ParseFloat(line[cut+1:], 64); err == nil {
			all[name] += v
		}
	}
	return all, lines.Err()
}

// flags are the server's settings, by the names of its flags.
func (s *server) flags(ctx context.Context) (map[string]string, error) {
	a := s.get(ctx, "/api/v1/status/flags")
	if !a.ok() {
		return nil, fmt.Errorf("the flags of %s: %s", s.url, a)
	}
	var body struct {
		Data map[string]string `json:"data"`
	}
	err := json.Unmarshal([]byte(a.head), &body)
	return body.Data, err
}
