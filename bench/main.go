package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	// The first signal ends the run in order, a second one at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return
	}
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	fmt.Fprintln(os.Stderr, "bench:", err)
	os.Exit(1)
}

// run is the program: its tables go to out, what it is doing to progress.
func run(ctx context.Context, args []string, out, progress io.Writer) error {
	o, err := parseOptions(args, progress)
	if err != nil {
		return err
	}
	r := &rig{options: o, begin: time.Now(), progress: progress}
	if r.from != "" {
		if err := readJSON(r.from, &r.result); err != nil {
			return fmt.Errorf("-from: %w", err)
		}
		return errors.Join(r.writeMarkdown(), r.show(out))
	}
	if r.dir == "" {
		if r.dir, err = os.MkdirTemp("", "promwarp-bench-"); err != nil {
			return err
		}
		defer os.RemoveAll(r.dir)
	}
	defer r.stop() // whatever happens, before the servers' files are removed
	if err := r.resume(); err != nil {
		return err
	}
	for _, s := range o.stages {
		if err := r.measure(ctx, s); err != nil {
			return fmt.Errorf("stage %s: %w", s.name, err)
		}
	}
	return r.finish(out)
}

// finish writes the result wherever it is wanted, and is an error where an answer was wrong.
func (r *rig) finish(out io.Writer) error {
	if err := r.save(); err != nil {
		return err
	}
	return r.show(out)
}

// show prints the result and writes the page's figures, unless an answer was wrong.
func (r *rig) show(out io.Writer) error {
	for _, t := range r.result.Tables() {
		if err := t.Write(out); err != nil {
			return err
		}
	}
	fmt.Fprintln(out)
	for _, note := range r.result.Notes() {
		fmt.Fprintln(out, note)
	}
	if n := r.result.Failed(); n > 0 {
		return fmt.Errorf("%d questions failed or were answered differently by promwarp", n)
	}
	if r.readme == "" {
		return nil
	}
	return r.result.WriteFigures(r.readme)
}
