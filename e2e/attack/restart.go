package main

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/promwarp/promwarp/e2e/programs"
)

// restartOptions are what the command line of restart says.
type restartOptions struct {
	rounds  int
	seed    uint64
	started starting
}

// workshop is what the attacks by restart have: a Prometheus, and a promwarp that they start.
type workshop struct {
	*servers
	bin    string
	rounds int
	env    *env // without a target; the data and the seed
	disk   string
	want   map[string]string // the right answers, by query
}

// restartQueries have answers without a rounded bit.
var restartQueries = []string{
	`sum by (job) (count_over_time(up[5m]))`,
	`max by (type) (node_memory_bytes)`,
	`count by (__name__) ({__name__=~".+"})`,
	`max by (job) (rate(http_requests_total[5m]))`,
}

// restartAttack is one of them. It is run with an empty directory for the cache.
type restartAttack struct {
	name string
	run  func(ctx context.Context, w *workshop) verdict
}

var restartAttacks = []restartAttack{
	{"kill -9 while it answers and writes", killLoop},
	{"truncated files", breakFiles(truncate)},
	{"empty files", breakFiles(func(_ *workshop, path string) error { return os.Truncate(path, 0) })},
	{"flipped bits", breakFiles(flipBits)},
	{"zeros in the middle", breakFiles(zeroMiddle)},
	{"longer files", breakFiles(lengthen)},
	{"foreign files", foreignFiles},
	{"swapped files", swapFiles},
	{"a full disk", fullDisk},
	{"a read-only disk", readOnlyDisk},
	{"the directory taken away", breakFiles(func(w *workshop, _ string) error { return os.RemoveAll(w.disk) })},
	{"data from the future", future},
	{"times far away", farAway},
}

// restarts makes them and says whether everything held.
func restarts(ctx context.Context, args []string) (held bool, err error) {
	var o restartOptions
	f := flag.NewFlagSet("attack restart", flag.ContinueOnError)
	f.IntVar(&o.rounds, "rounds", 10, "how often to kill")
	f.Uint64Var(&o.seed, "seed", uint64(time.Now().Unix()), "of what is random")
	o.started.register(f)
	if err := f.Parse(args); err != nil {
		return false, err
	}
	s, err := o.started.start(ctx)
	if err != nil {
		return false, err
	}
	defer s.stop()
	s.promwarp.Kill()
	w := &workshop{servers: s, bin: o.started.promwarpBin, rounds: o.rounds, want: map[string]string{}}
	w.env = &env{seed: o.seed, start: s.end.Add(-6 * time.Hour), end: s.end, timeout: 30 * time.Second, counts: &counts{}}
	if w.bin == "" {
		w.bin = "../bin/promwarp"
	}
	fmt.Printf("seed %d\n", o.seed)
	if err := w.learn(ctx); err != nil {
		return false, err
	}
	var rows []row
	for i, a := range restartAttacks {
		if ctx.Err() != nil {
			break
		}
		w.disk = filepath.Join(s.dir, fmt.Sprintf("cache-%d", i))
		begun := time.Now()
		r := row{name: a.name, verdict: a.run(ctx, w)}
		r.took = time.Since(begun)
		printRow(os.Stdout, r)
		rows = append(rows, r)
	}
	fmt.Println()
	printTable(os.Stdout, rows)
	return allHeld(rows), ctx.Err()
}

// learn asks the Prometheus for the right answers.
func (w *workshop) learn(ctx context.Context) error {
	p, err := newServer(w.prometheus.URL, "")
	if err != nil {
		return err
	}
	for _, q := range restartQueries {
		a := p.post(ctx, "/api/v1/query_range", w.form(q))
		if !a.ok() || a.bytes < 200 {
			return fmt.Errorf("Prometheus's answer to %s: %s", q, a)
		}
		w.want[q] = a.head
	}
	return nil
}

func (w *workshop) form(query string) url.Values { return w.env.over(query, 5*time.Minute) }

// begin starts a promwarp with the cache's directory.
func (w *workshop) begin(args ...string) (*programs.Process, *server, error) {
	addr, err := programs.FreeAddr()
	if err != nil {
		return nil, nil, err
	}
	p, err := w.startPromwarp(w.bin, addr, append([]string{"--cache.path=" + w.disk}, args...)...)
	if err != nil {
		return nil, nil, err
	}
	s, err := newServer(p.URL, "")
	return p, s, err
}

// right asks all queries and says which answers are not the right ones.
func (w *workshop) right(ctx context.Context, s *server, v *verdict, when string) {
	for _, q := range restartQueries {
		a := s.post(ctx, "/api/v1/query_range", w.form(q))
		if !a.ok() {
			v.breaks("%s: %s: %s", when, q, a)
		} else if a.head != w.want[q] {
			v.breaks("%s: a wrong answer to %s: %s", when, q, a)
		}
	}
}

// checked starts a promwarp, has it answer, and ends it.
func (w *workshop) checked(ctx context.Context, v *verdict, when string) map[string]float64 {
	p, s, err := w.begin()
	if err != nil {
		v.breaks("%s: it does not start: %v", when, err)
		return nil
	}
	defer p.Kill()
	w.right(ctx, s, v, when)
	w.right(ctx, s, v, when+", again")
	m, err := s.metrics(ctx)
	if err != nil {
		v.breaks("%s: %v", when, err)
	}
	return m
}

// filled has a promwarp fill the directory, and ends it once there are files.
func (w *workshop) filled(ctx context.Context, v *verdict) (files []string) {
	p, s, err := w.begin()
	if err != nil {
		v.breaks("it does not start: %v", err)
		return nil
	}
	defer p.Kill()
	w.right(ctx, s, v, "at first")
	for range 100 {
		if m, err := s.metrics(ctx); err == nil && m["promwarp_cache_disk_entries"] >= 3 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	time.Sleep(500 * time.Millisecond)
	_ = p.Cmd.Process.Signal(os.Interrupt)
	select {
	case <-p.Gone:
	case <-time.After(30 * time.Second):
		v.breaks("it does not end")
	}
	_ = filepath.WalkDir(w.disk, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if i, err := d.Info(); err == nil && i.Size() > 0 {
				files = append(files, path)
			}
		}
		return nil
	})
	if len(files) == 0 && len(v.broken) == 0 {
		v.breaks("nothing was written into %s", w.disk)
	}
	return files
}
