package main

import (
	"fmt"
	"io"
	"net/url"

	"github.com/alecthomas/kingpin/v2"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/client"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/terminal"
)

// target is whom a command asks: the server at a URL, or, where the flags say what to read from, a
// promwarp inside this process.
type target struct {
	server   client.Flags
	settings config.Flags
	executor string
	exact    string
	progress bool
}

// add declares the flags.
func (t *target) add(cmd *kingpin.CmdClause) {
	t.server.Add(cmd, "")
	cmd.Flag("executor", "Who evaluates: auto, cpu, gpu or prometheus. Inside this process a GPU is used for gpu and with --gpu=require alone, as it takes longer to start than most queries to evaluate.").Default("auto").EnumVar(&t.executor, "auto", "cpu", "gpu", "prometheus")
	cmd.Flag("exact", "How exact the answer to PromQL is: bits has Prometheus's very bits, 1e-12 lets five functions differ by that, relative. Otherwise as the server is set.").PlaceHolder("1e-12").EnumVar(&t.exact, "1e-12", "bits")
	cmd.Flag("progress", "Show progress on standard error even if that is no terminal.").BoolVar(&t.progress)
	t.settings.Quiet = true
	t.settings.Add(cmd, false)
}

// open returns who is asked. Close ends it.
func (t *target) open(stderr io.Writer) (c *client.Client, closed func(), err error) {
	p := terminal.NewProgress(stderr, t.progress)
	if !t.settings.HasSource() {
		if c, err = t.server.Client("url", t.server.URL); err != nil {
			return nil, nil, err
		}
		c.Waiting = func() func() { return p.While("asking " + c.String()) }
		return c, func() {}, nil
	}
	if t.server.Given {
		return nil, nil, config.Usagef("--url names a server to ask, and --upstream.url, --tsdb.path and --config.file what to read from without one: give one or the other")
	}
	set, err := t.settings.Load()
	if err != nil {
		return nil, nil, err
	}
	switch {
	case set.GPU.Mode == config.GPURequire:
	case t.executor == "gpu" && set.GPU.Mode == config.GPUAuto:
		set.GPU.Mode = config.GPURequire
	default:
		set.GPU.Mode = config.GPUOff
	}
	logger, err := config.NewLogger(set.Log, stderr)
	if err != nil {
		return nil, nil, config.Usage(err)
	}
	c, closed, err = client.Embed(set, logger)
	if err != nil {
		return nil, nil, err
	}
	c.Waiting = func() func() { return p.While("fetching and evaluating") }
	return c, closed, nil
}

// choose puts who evaluates, and how exactly, into a request's form.
func (t *target) choose(form url.Values) {
	form.Set("executor", t.executor)
	if t.exact != "" {
		form.Set("exact", t.exact)
	}
}

// notes prints what an answer has beside its value.
func notes(stderr io.Writer, a *client.Answer) {
	for _, w := range a.Warnings {
		fmt.Fprintln(stderr, "warning:", w)
	}
	for _, i := range a.Infos {
		fmt.Fprintln(stderr, "info:", i)
	}
}
