package placement

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/common/version"

	"github.com/promwarp/promwarp/gpuexec/device"
)

// calibrate makes the model when the first GPU is open: from the constants that were given,
// the file of constants, or by measuring.
func (p *Placer) calibrate(ctx context.Context, d device.Opened) error {
	if p.model.Load() != nil {
		return nil
	}
	if p.o.Constants != nil {
		p.model.Store(newModel(*p.o.Constants))
		return nil
	}
	if path := p.o.ConstantsFile; path != "" {
		c, err := read(path, p.machine(d), time.Now())
		if err == nil {
			p.model.Store(newModel(c))
			return nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			p.log.Info("what was measured earlier is of no use and is measured again", "reason", err)
		}
	}
	start := time.Now()
	c, err := measure(ctx, d.Machine, p.cpu)
	if err != nil {
		return err
	}
	p.log.Info("measured what the GPU and the cores do", "took", time.Since(start).Round(time.Millisecond),
		"gpu_leaf", c.Device.Fixed, "copy", c.Copy, "link_bytes_per_second", int64(c.Link), "gpu_samples_per_second", int64(1e9/c.Device.Sample),
		"cores_samples_per_second", int64(1e9/c.Cores.Sample), "cores", p.workers())
	p.model.Store(newModel(c))
	if p.o.ConstantsFile == "" {
		return nil
	}
	if err := write(p.o.ConstantsFile, p.machine(d), time.Now(), c); err != nil {
		p.log.Warn("what was measured cannot be kept and is measured again at the next start", "err", err)
	}
	return nil
}

func (p *Placer) workers() int {
	if p.o.Workers > 0 {
		return p.o.Workers
	}
	return runtime.GOMAXPROCS(0)
}

// machine names what constants depend on.
func (p *Placer) machine(d device.Opened) string {
	return fmt.Sprintf("%s, driver %s, CUDA %s, %d cores of %s, promwarp %s",
		d.Name, d.Driver, d.CUDA, p.workers(), Processor(), version.Version)
}

// Processor is the name of the machine's processor.
func Processor() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// fileVersion changes when constants come to mean something else.
const fileVersion = 4

// maxAge is how long constants are used until they are measured again.
const maxAge = 30 * 24 * time.Hour

// file is what a file of constants holds.
type file struct {
	Version  int       `json:"version"`
	Machine  string    `json:"machine"`
	Measured time.Time `json:"measured"`
	Constants
}

// DefaultPath is the file of constants where no other is named. It is empty where the user
// has no folder for caches.
func DefaultPath() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "promwarp", "gpu-constants.json")
}

// read reads the constants of a machine. The machine's name says all that constants depend
// on. The error says why those in the file are of no use.
func read(path, machine string, now time.Time) (Constants, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return Constants{}, err
	}
	var f file
	if err := json.Unmarshal(b, &f); err != nil {
		return Constants{}, fmt.Errorf("%s is no file of constants: %w", path, err)
	}
	switch age := now.Sub(f.Measured); {
	case f.Version != fileVersion:
		err = fmt.Errorf("%s has version %d of the format, not %d", path, f.Version, fileVersion)
	case f.Machine != machine:
		err = fmt.Errorf("%s is of another machine: %s", path, f.Machine)
	case age > maxAge || age < -time.Hour:
		err = fmt.Errorf("%s was measured at %s", path, f.Measured.Format(time.RFC3339))
	case !f.sound():
		err = fmt.Errorf("%s holds times that cannot be", path)
	}
	return f.Constants, err
}

// write stores constants in a file. The file appears as a whole or not at all.
func write(path, machine string, now time.Time, c Constants) (err error) {
	b, err := json.MarshalIndent(file{fileVersion, machine, now.UTC(), c}, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(append(b, '\n'))
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}
