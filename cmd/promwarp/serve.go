package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/version"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/client"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/footprint"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/server"
	"github.com/promwarp/promwarp/gpuexec/device"
)

// serveCommand declares promwarp serve.
func serveCommand(app *kingpin.Application) (string, func(context.Context) error) {
	cmd := app.Command("serve", "Answer Prometheus's HTTP API, remote read included, from an upstream Prometheus or a data directory.").HelpLong(`Examples:
  promwarp serve --upstream.url=http://prometheus:9090
  promwarp serve --config.file=promwarp.yml
`)
	var f config.Flags
	f.Add(cmd, true)
	return cmd.FullCommand(), func(ctx context.Context) error {
		s, err := f.Load()
		if err != nil {
			return err
		}
		logger, err := config.NewLogger(s.Log, nil)
		if err != nil {
			return config.Usage(err)
		}
		cfg := server.Config{Settings: s, Logger: logger}
		if f.File != "" {
			cfg.Reload = f.Load
		}
		logger.Info("starting promwarp", "version", version.Info(), "build", version.BuildContext())
		srv, err := server.New(cfg)
		if err != nil {
			return err
		}
		go footprint.PaceCollector(ctx)
		return srv.Run(ctx)
	}
}

const checkHelp = "Check a configuration file, or a running promwarp."

// probeCommand declares promwarp check with the name of a door for probes.
func probeCommand(name, help string) func(*kingpin.Application) (string, func(context.Context) error) {
	return func(app *kingpin.Application) (string, func(context.Context) error) {
		cmd := clause(app, "check", checkHelp).Command(name, help).HelpLong(`Examples:
  promwarp check ` + name + ` --url=http://localhost:9201
`)
		server := client.Flags{Timeout: 5 * time.Second} // unless it is told
		server.Add(cmd, "")
		return cmd.FullCommand(), func(ctx context.Context) error {
			c, err := server.Client("url", server.URL)
			if err != nil {
				return err
			}
			text, err := c.Text(ctx, "/-/"+name)
			if err == nil {
				_, err = io.WriteString(os.Stdout, text)
			}
			return err
		}
	}
}

// checkConfigCommand declares promwarp check config.
func checkConfigCommand(app *kingpin.Application) (string, func(context.Context) error) {
	cmd := clause(app, "check", checkHelp).Command("config", "Check a configuration file as serve does at its start, and name what is wrong with it.").HelpLong(`Examples:
  promwarp check config /etc/promwarp/promwarp.yml
`)
	file := cmd.Arg("file", "The file for serve's --config.file.").Required().String()
	return cmd.FullCommand(), func(context.Context) error { return runCheck(*file) }
}

// runCheck checks one file. What is wrong with it is a UsageError, as it is of serve.
func runCheck(file string) error {
	f := config.Flags{File: file}
	set, err := f.Load()
	if err != nil {
		return err
	}
	if err := server.Check(set); err != nil {
		return config.Usagef("%s", file+": "+strings.ReplaceAll(err.Error(), "\n", "\n"+file+": "))
	}
	sources, err := set.Sources()
	if err != nil {
		return err
	}
	fmt.Printf("%s is good; it reads from", file)
	for _, s := range sources {
		fmt.Printf(" %s", s.Name())
	}
	fmt.Println()
	return nil
}

// devicesCommand declares promwarp devices.
func devicesCommand(app *kingpin.Application) (string, func(context.Context) error) {
	cmd := app.Command("devices", "Show the GPUs of this machine, what was measured on them, and why one is not usable.")
	library := cmd.Flag("gpu.library", "The CUDA driver's library.").Default(device.Library).String()
	output := cmd.Flag("format", "Form of the answer: table or json.").Short('o').Default("table").Enum("table", "json")
	return cmd.FullCommand(), func(context.Context) error {
		return runDevices(*library, *output, os.Stdout)
	}
}

// errNoDevice makes the exit code tell that no GPU is usable.
var errNoDevice = errors.New("no GPU is usable")

// runDevices prints the inventory.
func runDevices(library, output string, w io.Writer) error {
	inv := device.TakeInventory(library)
	var err error
	if output == "json" {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		err = enc.Encode(inv)
	} else {
		err = writeInventory(w, inv)
	}
	if err == nil && !inv.Usable() {
		err = errNoDevice
	}
	return err
}

// writeInventory prints an inventory for reading: a block of lines a device.
func writeInventory(w io.Writer, inv *device.Inventory) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if inv.CUDA != "" {
		release := ""
		if inv.Driver != "" {
			release = inv.Driver + ", "
		}
		fmt.Fprintf(t, "driver\t%sCUDA %s\n", release, inv.CUDA)
	}
	if inv.Reason != "" {
		fmt.Fprintf(t, "devices\tnone: %s\n", inv.Reason)
	}
	for _, d := range inv.Devices {
		fmt.Fprintf(t, "\ndevice %d\t%s, PCI %s\n", d.Ordinal, d.Name, d.PCIBusID)
		fmt.Fprintf(t, "compute capability\t%s, %d multiprocessors\n", d.Capability, d.Multiprocessors)
		fmt.Fprintf(t, "memory\t%s\n", gib(d.MemoryBytes))
		if !d.Usable {
			fmt.Fprintf(t, "usable\tno: %s\n", d.Reason)
			continue
		}
		fmt.Fprintf(t, "memory free\t%s\n", gib(d.FreeBytes))
		fmt.Fprintf(t, "copy to device\t%.1f GB/s\n", d.ToDevice/1e9)
		fmt.Fprintf(t, "copy from device\t%.1f GB/s\n", d.FromDevice/1e9)
		fmt.Fprintf(t, "launch and wait\t%.0f µs\n", d.LaunchSeconds*1e6)
		fmt.Fprintf(t, "start\t%.0f ms to open, %.0f ms to load the kernels\n", d.OpenSeconds*1e3, d.LoadSeconds*1e3)
		fmt.Fprintf(t, "usable\tyes; its sums are right\n")
	}
	return t.Flush()
}

// usableDevices says in one line which devices of an inventory are usable, or why none is.
func usableDevices(inv *device.Inventory) string {
	var usable []string
	reason := inv.Reason
	for _, d := range inv.Devices {
		if d.Usable {
			usable = append(usable, d.Name)
		} else {
			reason = fmt.Sprintf("device %d: %s", d.Ordinal, d.Reason)
		}
	}
	if len(usable) == 0 {
		return "not usable: " + reason
	}
	return fmt.Sprintf("usable, %d of %d: %s", len(usable), len(inv.Devices), strings.Join(usable, ", "))
}

func gib(n uint64) string { return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30)) }
