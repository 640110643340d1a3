package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// timeout is asked for with each query.
const timeout = 10 * time.Second

const formType = "application/x-www-form-urlencoded"

// client asks one server from one address of this machine.
type client struct {
	url, addr string
	dialer    net.Dialer
	http      http.Client
}

// newClient returns a client of the server at a URL.
func newClient(base, from string) *client {
	c := &client{url: base, addr: strings.TrimPrefix(base, "http://")}
	c.dialer = net.Dialer{Timeout: 10 * time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c.http.Transport = &http.Transport{DialContext: c.dialer.DialContext, DisableCompression: true, MaxIdleConnsPerHost: 64}
	return c
}

// answer is what became of a request.
type answer struct {
	code  int           // 0 is none
	began time.Duration // until its header, or until the failure
	took  time.Duration // until its end
	text  string        // its first bytes
	err   error
}

// outcome is the kind of an answer, to be counted.
func (a answer) outcome() string {
	switch {
	case a.code == 0:
		return "no answer"
	case a.err != nil:
		return fmt.Sprintf("%d broken off", a.code)
	}
	return strconv.Itoa(a.code)
}

// ok says whether the request was answered with 2xx, to the end.
func (a answer) ok() bool { return a.err == nil && a.code/100 == 2 }

func (a answer) String() string {
	return fmt.Sprintf("%s in %s: %.80q %.200v", a.outcome(), short(a.began), a.text, a.err)
}

func (c *client) get(ctx context.Context, path string) answer {
	return c.send(ctx, http.MethodGet, path, "", nil)
}

func (c *client) post(ctx context.Context, path string, form url.Values) answer {
	return c.send(ctx, http.MethodPost, path, formType, strings.NewReader(form.Encode()))
}

func (c *client) query(ctx context.Context, h hours, q asks) answer {
	path, form := h.form(q)
	return c.post(ctx, path, form)
}

// send sends a request and reads the answer to its end.
func (c *client) send(ctx context.Context, method, path, contentType string, body io.Reader) (a answer) {
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, body)
	if err != nil {
		return answer{err: err}
	}
	req.Header.Set("Content-Type", contentType)
	start := time.Now()
	resp, err := c.http.Do(req)
	a.began, a.took, a.err = time.Since(start), time.Since(start), err
	if err != nil {
		return a
	}
	defer resp.Body.Close()
	a.code = resp.StatusCode
	var text strings.Builder
	if _, a.err = io.CopyN(&text, resp.Body, 1000); a.err == nil {
		_, a.err = io.Copy(io.Discard, resp.Body)
	} else if errors.Is(a.err, io.EOF) {
		a.err = nil
	}
	a.text, a.took = text.String(), time.Since(start)
	return a
}

// hold opens a connection, sends text and then drip each second, reads nothing, and closes it after a
// while.
func (c *client) hold(ctx context.Context, lasts time.Duration, text, drip string) {
	ctx, cancel := context.WithTimeout(ctx, lasts)
	defer cancel()
	conn, err := c.dialer.DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return
	}
	defer conn.Close()
	_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	_ = conn.(*net.TCPConn).SetLinger(0) // or its port would be taken for a minute
	_ = conn.SetWriteDeadline(time.Now().Add(lasts))
	for _, err = io.WriteString(conn, text); err == nil && ctx.Err() == nil; _, err = io.WriteString(conn, drip) {
		time.Sleep(time.Second)
	}
}

// hours is the time that is asked for.
type hours struct{ start, end time.Time }

// form is where and how to ask for a query.
func (h hours) form(q asks) (path string, form url.Values) {
	form = url.Values{"query": {q.query}, "timeout": {timeout.String()}}
	if q.executor != "" {
		form.Set("executor", q.executor)
	}
	if q.step == "" {
		form.Set("time", seconds(h.end))
		return "/api/v1/query", form
	}
	form.Set("start", seconds(h.start))
	form.Set("end", seconds(h.end))
	form.Set("step", q.step)
	return "/api/v1/query_range", form
}

func seconds(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }

// together calls do for each of n, at most width at once. Once ctx is done it calls no more of them.
func together(ctx context.Context, width, n int, do func(ctx context.Context, i int)) {
	var all errgroup.Group
	all.SetLimit(width)
	for i := 0; i < n && ctx.Err() == nil; i++ {
		all.Go(func() error { do(ctx, i); return nil })
	}
	_ = all.Wait() // without an error
}

// times are how long requests took, and what became of requests that failed.
type times struct {
	mu     sync.Mutex
	Took   []time.Duration
	Failed map[string]int
}

func (t *times) add(a answer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Took = append(t.Took, a.took)
	if !a.ok() {
		if t.Failed == nil {
			t.Failed = map[string]int{}
		}
		t.Failed[a.outcome()]++
	}
}

func (t *times) failures() (n int) {
	for _, each := range t.Failed {
		n += each
	}
	return n
}

// percentile is the smallest time that at least share of all do not exceed (the nearest rank); 0 of
// none.
func (t *times) percentile(share float64) time.Duration {
	if len(t.Took) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(t.Took))
	rank := int(share*float64(len(sorted)) + 0.999999)
	return sorted[min(max(rank, 1), len(sorted))-1]
}

func (t *times) String() string {
	s := fmt.Sprintf("%d asked, median %s, p99 %s, slowest %s", len(t.Took), short(t.percentile(0.5)), short(t.percentile(0.99)), short(t.percentile(1)))
	if len(t.Failed) > 0 {
		s += ", failed: " + counted(t.Failed)
	}
	return s
}

// counted joins what was counted, as "3 × 200, 2 × 503".
func counted(counts map[string]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d × %s", counts[k], k))
	}
	return strings.Join(parts, ", ")
}

func short(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// probe is a process that asks small queries. It is one of its own since this process's goroutines
// would have it wait for a core before it asks.
type probe struct {
	cmd   *exec.Cmd
	input io.Closer // tells it to end
	out   bytes.Buffer
}

// startProbe starts to ask the server at a URL.
func startProbe(base string) (*probe, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &probe{cmd: exec.Command(self, "probe", base)}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, os.Stderr
	if p.input, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return p, p.cmd.Start()
}

// end ends the probe and returns what it measured.
func (p *probe) end() (t *times, err error) {
	t = new(times)
	err = errors.Join(p.input.Close(), p.cmd.Wait())
	if err == nil {
		err = json.Unmarshal(p.out.Bytes(), t)
	}
	return t, err
}

// runProbe is the probe's process. It asks once every 100 ms, whether the query before was answered or
// not, so that a time in which the server says nothing counts in full, until its input ends.
func runProbe() error {
	c := newClient(flag.Arg(1), "127.0.0.2")
	ended := make(chan error)
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin)
		ended <- err
	}()
	var all times
	var asked sync.WaitGroup
	for {
		asked.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			all.add(c.get(ctx, "/api/v1/query?query=sum(up)"))
		})
		select {
		case err := <-ended:
			asked.Wait()
			return errors.Join(err, json.NewEncoder(os.Stdout).Encode(&all))
		case <-time.After(100 * time.Millisecond):
		}
	}
}
