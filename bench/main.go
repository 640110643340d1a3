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

	"github.com/promwarp/promwarp/bench/report"
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

// run is the program: its table goes to out, what it is doing to progress.
func run(ctx context.Context, args []string, out, progress io.Writer) error {
	begin := time.Now()
	o, err := parseOptions(args, begin, progress)
	if err != nil {
		return err
	}
	say := func(s string) { fmt.Fprintf(progress, "%5.0fs %s\n", time.Since(begin).Seconds(), s) }
	result, err := compare(ctx, o, say)
	if err != nil {
		return err
	}
	result.WallTime = time.Since(begin).Seconds()
	if err := write(result, o, out); err != nil {
		return err
	}
	if n := result.Failed(); n > 0 {
		return fmt.Errorf("%d of %d queries failed or were answered differently by promwarp", n, len(result.Rows))
	}
	return document(result, o, say)
}

// document writes the result to the documentation, if it is the kind that is there.
func document(r *report.Result, o options, say func(string)) error {
	if o.docs == "" {
		return nil
	}
	if o.unusual != "" {
		say(fmt.Sprintf("%s stays as it is, because of %s", o.docs, o.unusual))
		return nil
	}
	if err := r.WriteDocs(o.docs); err != nil {
		return fmt.Errorf("-docs: %w", err)
	}
	return nil
}

// compare sets everything up, measures, and takes everything down again.
func compare(ctx context.Context, o options, say func(string)) (*report.Result, error) {
	// Whatever happens, the servers end before their files are removed.
	dir, err := os.MkdirTemp("", "promwarp-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	f := &field{dir: dir, say: say}
	defer f.stop()
	if err := f.start(ctx, o); err != nil {
		return nil, err
	}
	rows, err := f.measure(ctx, o)
	if err != nil {
		return nil, err
	}
	r := &report.Result{Setup: f.setup, Rows: rows, PeakRSS: f.peaks()}
	r.Finish()
	return r, nil
}

// write writes the result wherever it is wanted.
func write(r *report.Result, o options, out io.Writer) error {
	if err := errors.Join(r.WriteTable(out), r.WriteCores(out, o.cores)); err != nil {
		return err
	}
	if o.out != "" {
		if err := r.WriteJSON(o.out); err != nil {
			return fmt.Errorf("-out: %w", err)
		}
	}
	if o.markdown == "" {
		return nil
	}
	file, err := os.Create(o.markdown)
	if err == nil {
		err = errors.Join(r.WriteMarkdown(file), file.Close())
	}
	if err != nil {
		return fmt.Errorf("-markdown: %w", err)
	}
	return nil
}
