package render

import (
	"fmt"
	"io"
	"time"

	"github.com/promwarp/promwarp/cache/contents"
)

// Caches prints what caches have: of each its sizes, and a row a selector.
func Caches(w io.Writer, all []contents.Contents, width int) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "there is no cache")
		return err
	}
	for i, c := range all {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if c.Name != "" {
			fmt.Fprintf(w, "%s: ", c.Name)
		}
		fmt.Fprintf(w, "%d selectors, %s of %s in memory", c.Count, size(c.Bytes), size(c.Limit))
		if c.DiskLimit > 0 {
			fmt.Fprintf(w, ", %s of %s on disk", size(c.DiskBytes), size(c.DiskLimit))
		}
		fmt.Fprintf(w, "; tiles of %s\n", time.Duration(c.Tile)*time.Millisecond)
		if len(c.Selectors) == 0 {
			continue
		}
		rows := [][]string{{"SELECTOR", "SERIES", "SAMPLES", "MEMORY", "DISK", "DEVICE", "COVERS", "LATEST"}}
		for _, s := range c.Selectors {
			covered, latest := coverage(s)
			rows = append(rows, []string{s.Text, count(int64(s.Series)), count(s.Samples), size(s.Bytes), size(s.DiskBytes), size(s.DeviceBytes), covered, latest})
		}
		if err := Table(w, rows, 0, width); err != nil {
			return err
		}
		if left := c.Count - len(c.Selectors); left > 0 {
			fmt.Fprintf(w, "%d smaller ones are not listed; --limit lists more\n", left)
		}
	}
	return nil
}

// coverage is how much time is kept of a selector, in memory or on disk, and until when.
func coverage(s contents.Selector) (covered, latest string) {
	var total, end int64
	for _, spans := range [][][2]int64{s.Memory, s.Disk} {
		sum := int64(0)
		for _, p := range spans {
			sum += p[1] - p[0]
			end = max(end, p[1])
		}
		total = max(total, sum)
	}
	if end == 0 {
		return "-", "-"
	}
	return (time.Duration(total) * time.Millisecond).String(), time.UnixMilli(end).UTC().Format("2006-01-02 15:04")
}
