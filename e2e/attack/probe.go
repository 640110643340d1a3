package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"time"
)

// probe is a process that asks small queries. It is one of its own since this one's goroutines
// would have it wait for a core, as long as the attacks keep them busy, before it asks.
type probe struct {
	cmd   *exec.Cmd
	input io.Closer // which tells it to end
	out   bytes.Buffer
}

// probeFrom starts to ask the server at base from an address, empty for any.
func probeFrom(ctx context.Context, base, from string) (*probe, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &probe{cmd: exec.CommandContext(ctx, self, "probe", base, from)}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, os.Stderr
	if p.input, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return p, p.cmd.Start()
}

// end ends the probe.
func (p *probe) end() (probed, error) {
	var a asked
	_ = p.input.Close()
	if err := p.cmd.Wait(); err != nil {
		return probed{}, fmt.Errorf("small queries: %w", err)
	}
	if err := json.Unmarshal(p.out.Bytes(), &a); err != nil {
		return probed{}, fmt.Errorf("small queries: %w", err)
	}
	return probed{len(a.Took), percentile(a.Took, 0.5), percentile(a.Took, 0.99), percentile(a.Took, 1), a.Failed}, nil
}

// asked is what came of small queries.
type asked struct {
	mu     sync.Mutex
	Took   []time.Duration
	Failed map[string]int
}

// probeQuery is what the probe asks.
const probeQuery = "/api/v1/query?query=sum(up)"

// ask is the probe's process. Its arguments are those of probeFrom. It asks once every 100 ms,
// whether the query before was answered or not, so that a time in which the server says nothing
// counts in full, until its standard input ends.
func ask(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("probe: needs a URL and an address")
	}
	s, err := newServer(args[0], args[1])
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	a := &asked{Failed: map[string]int{}}
	var wg sync.WaitGroup
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		wg.Go(func() { a.once(ctx, s) })
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	wg.Wait()
	return json.NewEncoder(os.Stdout).Encode(a)
}

// once asks once.
func (p *asked) once(ctx context.Context, s *server) {
	limited, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	start := time.Now()
	a := s.get(limited, probeQuery)
	took := time.Since(start)
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil && a.err != nil {
		// The end cut it off: it counts if it waited already for long.
		if took > time.Second {
			p.Took = append(p.Took, took)
		}
		return
	}
	p.Took = append(p.Took, took)
	if a.err != nil {
		p.Failed[unwrapped(a.err).Error()]++
	} else if a.code != http.StatusOK {
		p.Failed[fmt.Sprintf("%d %.60s", a.code, a.reason())]++
	}
}

// probed are the figures of a probe.
type probed struct {
	asked         int
	p50, p99, max time.Duration
	failed        map[string]int
}

func (p probed) String() string {
	s := fmt.Sprintf("%d asked, median %s, p99 %s, slowest %s", p.asked, short(p.p50), short(p.p99), short(p.max))
	if len(p.failed) > 0 {
		s += ", failed: " + list(p.failed)
	}
	return s
}

// judge says whether the small queries were answered, 99 of 100 within limit.
func (p probed) judge(v *verdict, limit time.Duration) {
	if p.p99 >= limit {
		v.breaks("small queries: p99 %s", short(p.p99))
	}
	failed := 0
	for _, n := range p.failed {
		failed += n
	}
	if failed*100 > p.asked {
		v.breaks("small queries: %d of %d failed: %s", failed, p.asked, list(p.failed))
	}
}
