package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/alecthomas/kingpin/v2"

	"github.com/promwarp/promwarp/gpuexec/device"
)

func init() { commands = append(commands, devicesCommand) }

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
		fmt.Fprintf(t, "driver\t%s\n", driverText(inv))
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

// driverText is the driver's release, where it is known, and the CUDA version
// that it supports.
func driverText(inv *device.Inventory) string {
	if inv.Driver == "" {
		return "CUDA " + inv.CUDA
	}
	return fmt.Sprintf("%s, CUDA %s", inv.Driver, inv.CUDA)
}

func gib(n uint64) string { return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30)) }
