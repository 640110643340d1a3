// Command attack asks a promwarp for everything that may kill it or make it slow, and says what
// held.
//
//	go run ./attack -target http://127.0.0.1:9201 [-prometheus http://127.0.0.1:9090] [-pid N]
//	go run ./attack -start
//	go run ./attack restart
//
// The first form attacks a running promwarp and compares with a Prometheus that has the same data. The
// second starts both, with a day of data, from the folder e2e. The third kills and starts a promwarp
// again and again, with what it keeps on disk broken in many ways. Each attack has a file or a part of
// one; what holds of all of them is in run.go. The exit code is 1 if anything did not hold.
//
// An attack is made on servers that one runs oneself.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// options are what the command line says.
type options struct {
	target, prometheus string
	only               string
	lasts              time.Duration // everything at once
	crowd              time.Duration // each crowd of clients
	dashboards         time.Duration
	pid                int
	limit              int64 // MB
	timeout, slack     time.Duration
	seed               uint64
	short, start, list bool
	patience           int
	singly, bars       bool
	from               string
	started            starting
}

func parseOptions(args []string) (o options, err error) {
	f := flag.NewFlagSet("attack", flag.ContinueOnError)
	f.StringVar(&o.target, "target", "http://127.0.0.1:9201", "base URL of the promwarp to attack")
	f.StringVar(&o.prometheus, "prometheus", "", "base URL of a Prometheus with the same data to compare with")
	f.StringVar(&o.only, "only", "", "names of the attacks to make, with commas between them; see -list")
	f.DurationVar(&o.lasts, "for", 5*time.Minute, "how long everything is done at once; 0 leaves it out")
	f.DurationVar(&o.crowd, "crowd", 30*time.Second, "how long 20 and then 500 clients ask; 0 leaves it out")
	f.DurationVar(&o.dashboards, "dashboards", 3*time.Minute, "how long 64 clients look at dashboards; 0 leaves it out")
	f.IntVar(&o.pid, "pid", 0, "process id of the target, whose memory is watched")
	f.Int64Var(&o.limit, "limit", 0, "most MB that it may hold; by default its --memory.limit")
	f.DurationVar(&o.timeout, "timeout", 10*time.Second, "that is asked for with each query")
	f.DurationVar(&o.slack, "slack", 100*time.Millisecond, "how much later than its deadline an answer may begin")
	f.Uint64Var(&o.seed, "seed", uint64(time.Now().Unix()), "of what is random")
	f.BoolVar(&o.short, "short", false, "a tenth of everything")
	f.IntVar(&o.patience, "patience", 1, "how many times as long everything may take, on a machine that does other things, too")
	f.StringVar(&o.from, "small-from", "127.0.0.2", "address from which small queries are asked meanwhile; empty for any")
	f.BoolVar(&o.start, "start", false, "start a Prometheus with a day of data and a promwarp before it")
	f.BoolVar(&o.list, "list", false, "list the attacks")
	f.BoolVar(&o.singly, "singly", true, "make each attack by itself, too")
	f.BoolVar(&o.bars, "bars", true, "hold times and memory against the server; otherwise crashes, panics and data races alone")
	o.started.register(f)
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.patience < 1 {
		return o, errors.New("-patience must be at least 1")
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	return o, nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	held, err := false, error(nil)
	switch command := append(os.Args[1:], ""); command[0] {
	case "restart":
		held, err = restarts(ctx, os.Args[2:])
	case "probe": // started by run
		held, err = true, ask(ctx, os.Args[2:])
	default:
		held, err = run(ctx, os.Args[1:])
	}
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "attack:", err)
		os.Exit(2)
	}
	if !held {
		os.Exit(1)
	}
}

// run makes the attacks and says whether everything held.
func run(ctx context.Context, args []string) (held bool, err error) {
	o, err := parseOptions(args)
	if err != nil {
		return false, err
	}
	chosen, err := choose(attacks(), o.only)
	if err != nil {
		return false, err
	}
	if o.list {
		for _, a := range chosen {
			fmt.Printf("%s: %s.\n    must hold: %s.\n", a.name, a.what, a.holds)
		}
		return true, nil
	}
	var s *servers
	if o.start {
		if s, err = o.started.start(ctx); err != nil {
			return false, err
		}
		defer s.stop()
		o.target, o.prometheus, o.pid = s.promwarp.URL, s.prometheus.URL, s.promwarp.Cmd.Process.Pid
	}
	c, err := newCampaign(ctx, o)
	if err != nil {
		return false, err
	}
	if s != nil {
		c.revive = func() error {
			ended, err := s.revive()
			if ended && err == nil {
				c.pid = s.promwarp.Cmd.Process.Pid
				c.warm(ctx)
			}
			return err
		}
	}
	fmt.Printf("seed %d\n", o.seed)
	c.warm(ctx)
	before := c.state(ctx)
	if o.singly {
		c.singly(ctx, chosen)
	}
	if o.lasts > 0 {
		c.atOnce(ctx, chosen, o.lasts)
	}
	c.recovered(ctx, before)
	if o.crowd > 0 {
		c.measured(ctx, "500 clients", false, func(ctx context.Context) verdict { return crowds(ctx, c.env, o.crowd) })
	}
	if o.dashboards > 0 {
		c.measured(ctx, "64 clients with dashboards", false, func(ctx context.Context) verdict { return dashboards(ctx, c.env, o.dashboards) })
	}
	if s != nil {
		c.add(row{name: "the log", verdict: judgeLog(s.log())})
	}
	fmt.Println()
	printTable(os.Stdout, c.rows)
	return allHeld(c.rows), ctx.Err()
}

// allHeld says whether no row is broken.
func allHeld(rows []row) bool {
	for _, r := range rows {
		if len(r.broken) > 0 {
			return false
		}
	}
	return true
}

// newCampaign finds out about the target.
func newCampaign(ctx context.Context, o options) (*campaign, error) {
	target, err := newServer(o.target, "")
	if err != nil {
		return nil, err
	}
	e := &env{target: target, timeout: o.timeout, slack: o.slack * time.Duration(o.patience), patience: o.patience, seed: o.seed, short: o.short, counts: &counts{}}
	if o.prometheus != "" {
		if e.reference, err = newServer(o.prometheus, ""); err != nil {
			return nil, err
		}
	}
	if e.flags, err = target.flags(ctx); err != nil {
		return nil, err
	}
	e.end = time.Now().Truncate(time.Minute)
	e.start = e.end.Add(-24 * time.Hour)
	c := &campaign{env: e, pid: o.pid, limit: o.limit << 20, from: o.from, lenient: !o.bars, print: func(r row) { printRow(os.Stdout, r) }}
	if c.limit == 0 && o.bars {
		c.limit = parseSize(e.flags["memory.limit"])
	}
	return c, nil
}

// choose returns the attacks with these names.
func choose(all []attack, names string) (chosen []attack, err error) {
	if names == "" {
		return all, nil
	}
	for name := range strings.SplitSeq(names, ",") {
		found := false
		for _, a := range all {
			if a.name == strings.TrimSpace(name) {
				chosen, found = append(chosen, a), true
			}
		}
		if !found {
			return nil, fmt.Errorf("there is no attack %q; see -list", name)
		}
	}
	return chosen, nil
}
