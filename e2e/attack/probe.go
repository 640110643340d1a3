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
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// times are how long requests took, and what became of those that failed.
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
