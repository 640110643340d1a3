package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// resident is the resident memory of a process, in bytes.
type resident struct {
	all       int64 // VmRSS
	anonymous int64 // RssAnon: without mapped files
}

// readResident reads /proc/PID/status.
func readResident(pid int) (resident, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return resident{}, err
	}
	return parseResident(string(b))
}

func parseResident(status string) (r resident, err error) {
	lines := bufio.NewScanner(strings.NewReader(status))
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		var to *int64
		switch name {
		case "VmRSS":
			to = &r.all
		case "RssAnon":
			to = &r.anonymous
		default:
			continue
		}
		kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			return r, fmt.Errorf("%s of a process's status: %w", name, err)
		}
		*to = kb << 10
	}
	if r.all == 0 {
		return r, fmt.Errorf("a process's status without VmRSS")
	}
	return r, nil
}

// sampler notes the peak of a process's resident memory, ten times a second.
type sampler struct {
	pid  int
	stop context.CancelFunc
	done chan struct{}

	mu   sync.Mutex
	peak resident
	gone error // once the process could not be read
}

// sample begins; 0 is no process, of which nothing is known.
func sample(ctx context.Context, pid int) *sampler {
	ctx, stop := context.WithCancel(ctx)
	s := &sampler{pid: pid, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		for ctx.Err() == nil && pid != 0 {
			r, err := readResident(pid)
			s.mu.Lock()
			s.peak = resident{max(s.peak.all, r.all), max(s.peak.anonymous, r.anonymous)}
			if err != nil {
				s.gone = err
			}
			s.mu.Unlock()
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	return s
}

// end ends it and returns the peak.
func (s *sampler) end() (resident, error) {
	s.stop()
	<-s.done
	return s.peak, s.gone
}

// kept is what the target says that it keeps on purpose, in bytes.
func kept(ctx context.Context, s *server) (int64, error) {
	m, err := s.metrics(ctx)
	if err != nil {
		return 0, err
	}
	return int64(m["promwarp_cache_bytes"] + m["promwarp_results_bytes"]), nil
}

// megabytes prints bytes; a dash is none.
func megabytes(n int64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprintf("%d MB", n>>20)
}
