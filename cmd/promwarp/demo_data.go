package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/terminal"
	"github.com/promwarp/promwarp/internal/dataset"
)

// demoData is the data set of a demo in an embedded Prometheus TSDB.
type demoData struct {
	db         *tsdb.DB
	start, end time.Time
	generator  *dataset.Generator // what comes next; nil for data of an earlier time
	temporary  string             // directory to remove at the end
}

// openDemoData generates the data set, or opens the one that is in o.data.
func openDemoData(ctx context.Context, o demoOptions, stderr io.Writer) (d *demoData, err error) {
	d = &demoData{}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
			d = nil
		}
	}()
	dir, exists := o.data, false
	if dir == "" {
		if d.temporary, err = os.MkdirTemp("", "promwarp-demo-"); err != nil {
			return d, err
		}
		dir = d.temporary
	} else if exists, err = holdsBlocks(dir); err != nil {
		return d, err
	}
	if !exists {
		if err := d.generate(ctx, o, dir, stderr); err != nil {
			return d, err
		}
	}

	opts := tsdb.DefaultOptions()
	opts.RetentionDuration = 0 // keeps all
	if d.db, err = tsdb.Open(dir, promslog.NewNopLogger(), nil, opts, nil); err != nil {
		return d, fmt.Errorf("open data in %s: %w", dir, err)
	}
	d.db.DisableCompactions() // so that measurements are undisturbed
	if exists {
		err = d.timesFromBlocks(dir)
	}
	return d, err
}

// generate fills dir with a data set that ends now.
func (d *demoData) generate(ctx context.Context, o demoOptions, dir string, stderr io.Writer) error {
	d.end = time.Now().Truncate(time.Minute)
	d.start = d.end.Add(-time.Duration(o.hours) * time.Hour)
	var err error
	d.generator, err = dataset.New(dataset.Options{Start: d.start.UnixMilli(), End: d.end.UnixMilli(), Series: o.series, Seed: 1})
	if err != nil {
		return err
	}
	p := terminal.NewProgress(stderr, true)
	begin := time.Now()
	stats, err := d.generator.WriteBlocks(ctx, dir, d.end.UnixMilli(), func(part float64) {
		p.Show("generating data: %.0f %%", 100*part)
	})
	p.Clear()
	if err != nil {
		return err
	}
	fmt.Fprintf(stderr, "generated %d series with %.1f million samples in %.1f s\n", stats.Series, float64(stats.Samples)/1e6, time.Since(begin).Seconds())
	return nil
}

// timesFromBlocks finds the times that the data covers.
func (d *demoData) timesFromBlocks(dir string) error {
	blocks := d.db.Blocks()
	if len(blocks) == 0 {
		return fmt.Errorf("the blocks in %s cannot be read; remove the directory to generate them again", dir)
	}
	d.start = time.UnixMilli(blocks[0].MinTime()).Truncate(time.Minute)
	d.end = time.UnixMilli(blocks[len(blocks)-1].MaxTime()).Truncate(time.Minute)
	return nil
}

// holdsBlocks says whether there are blocks in dir. A directory with anything
// else in it is an error: it is not the demo's to fill.
func holdsBlocks(dir string) (bool, error) {
	metas, err := filepath.Glob(filepath.Join(dir, "*", "meta.json"))
	if err != nil {
		return false, config.Usagef("--data %s: %w", dir, err)
	}
	if len(metas) > 0 {
		return true, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, config.Usage(err)
	}
	if len(entries) > 0 {
		return false, config.Usagef("--data %s: the directory is not empty and holds no blocks; name a new one", dir)
	}
	return false, nil
}

// feed adds samples as time goes by, until ctx is done.
func (d *demoData) feed(ctx context.Context) error {
	if d.generator == nil {
		<-ctx.Done()
		return nil
	}
	d.db.EnableCompactions()
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		_, err := d.generator.Write(ctx, d.db, time.Now().UnixMilli())
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("add new samples: %w", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// Close closes the data and removes it if it is temporary.
func (d *demoData) Close() error {
	var errs []error
	if d.db != nil {
		errs = append(errs, d.db.Close())
	}
	if d.temporary != "" {
		errs = append(errs, os.RemoveAll(d.temporary))
	}
	return errors.Join(errs...)
}
