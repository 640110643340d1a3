// Command attack starts a promwarp in front of a Prometheus with a day of data, and asks it at once for
// everything that may kill it or make it slow.
//
//	go run ./attack
//
// It says what held: every query is answered or refused in time, a small query beside them is answered
// soon, memory stays below its limit and comes back, and no goroutine is left. A row of kinds.go is a
// kind of attack; the end-to-end tests hold what each may do by itself. The exit code is 1 if anything
// did not hold.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

var (
	promwarpBin   = flag.String("promwarp-bin", "../bin/promwarp", "promwarp to start")
	prometheusBin = flag.String("prometheus-bin", "", "Prometheus to start; by default one is built, once")
	args          = flag.String("promwarp-args", "", "further arguments of promwarp, with spaces between them")
	series        = flag.Int("series", 3400, "series of the data")
	lasts         = flag.Duration("for", 5*time.Minute, "how long everything is done at once")
	patience      = flag.Int("patience", 1, "how many times as long everything may take, on a machine that does other things, too")
	bars          = flag.Bool("bars", true, "hold times and memory against promwarp; otherwise crashes, panics and data races alone")
)

// patient is how long something may take that should take d.
func patient(d time.Duration) time.Duration { return d * time.Duration(*patience) }

func main() {
	flag.Parse()
	do := attack
	if flag.Arg(0) == "probe" { // started by startProbe
		do = runProbe
	}
	if err := do(); err != nil {
		fmt.Fprintln(os.Stderr, "attack:", err)
		os.Exit(1)
	}
}

func attack() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r := &run{}
	defer r.stop()
	if err := r.start(ctx); err != nil {
		return err
	}
	if err := r.flood(ctx); err != nil {
		return err
	}
	if ctx.Err() == nil && r.broken > 0 {
		return fmt.Errorf("%d bars did not hold", r.broken)
	}
	return ctx.Err()
}

// row is what came of one part of a run.
type row struct {
	figures []string
	broken  []string
}

// must notes what did not hold, whatever the machine.
func (w *row) must(held bool, format string, args ...any) {
	if !held {
		w.broken = append(w.broken, fmt.Sprintf(format, args...))
	}
}

// bar notes what did not hold of times and memory.
func (w *row) bar(held bool, format string, args ...any) {
	if !held && !*bars {
		w.figures = append(w.figures, fmt.Sprintf("not held against it: "+format, args...))
		return
	}
	w.must(held, format, args...)
}

// print prints the row.
func (w *row) print(name string, took time.Duration) {
	verdict := "holds"
	if len(w.broken) > 0 {
		verdict = "BROKEN"
	}
	fmt.Printf("%s  %s: %s (%s)\n", time.Now().Format(time.TimeOnly), name, verdict, short(took))
	for _, b := range w.broken {
		fmt.Printf("    ! %s\n", b)
	}
	fmt.Printf("    %s\n", strings.Join(w.figures, "\n    "))
}
