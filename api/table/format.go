package table

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/munnerz/goautoneg"

	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/resample"
)

// Format is a form of answers.
type Format struct {
	Name, Media string
	// Layouts says that the format has both layouts.
	Layouts bool
	// prepare returns what writes a table, and the memory in bytes that this takes; nil is JSON, which
	// others write. An error is a *resample.Error.
	prepare func(t *Table, wide bool) (write func(io.Writer) error, bytes int64, err error)
}

// Formats are all forms of answers. Who accepts anything gets the first.
var Formats = []*Format{
	{Name: "json", Media: "application/json"},
	{Name: "csv", Media: "text/csv", prepare: prepareCSV},
	{Name: "ndjson", Media: "application/x-ndjson", prepare: prepareLines},
	{Name: "arrow", Media: "application/vnd.apache.arrow.stream", Layouts: true, prepare: prepareArrow},
	{Name: "parquet", Media: "application/vnd.apache.parquet", Layouts: true, prepare: prepareParquet},
}

// The layouts of tables.
const (
	Long = "long" // a row for each series and time
	Wide = "wide" // a row for each time, and a column for each series
)

// Asked is what a request asks for.
type Asked struct {
	*Format
	Wide bool
}

// IsJSON reports whether JSON is asked for, which is no table.
func (a Asked) IsJSON() bool { return a.prepare == nil }

// Ask reads what form of answer a request asks for: by format, or else by its Accept header, or
// else JSON. The form must have been read. Errors are a *resample.Error.
func Ask(header http.Header, form url.Values) (Asked, error) {
	var names, media []string
	for _, f := range Formats {
		names, media = append(names, f.Name), append(media, f.Media)
	}
	which := 0
	if name := form.Get("format"); name != "" {
		which = slices.Index(names, name)
	} else if accept := header.Get("Accept"); accept != "" {
		which = max(0, slices.Index(media, goautoneg.Negotiate(accept, media)))
	}
	if which < 0 {
		return Asked{}, &resample.Error{Code: resample.CodeInvalidValue, Field: "format", Text: "there is no such format", Hint: "use " + strings.Join(names, ", ")}
	}
	a := Asked{Format: Formats[which]}
	switch layout := form.Get("layout"); {
	case layout == Wide && !a.Layouts:
		return a, &resample.Error{Code: resample.CodeConflict, Field: "layout", Text: "the format " + a.Name + " has no layouts", Hint: "use format=arrow or format=parquet, or leave it out"}
	case layout != "" && layout != Long && layout != Wide:
		return a, &resample.Error{Code: resample.CodeInvalidValue, Field: "layout", Text: "there is no such layout", Hint: "use long or wide"}
	case layout == Wide:
		a.Wide = true
	}
	return a, nil
}

// Answer writes a table, with memory of the pool. An error comes before anything is written: a
// *resample.Error, one of package memory, or Prometheus's where ctx has ended. Once something was written, only a client that has
// gone ends the answer early.
func (a Asked) Answer(ctx context.Context, w http.ResponseWriter, t *Table, pool *memory.Pool) error {
	write, bytes, err := a.prepare(t, a.Wide)
	t.Watch.Leave()
	if ended := plan.Ended(ctx); ended != nil {
		return ended
	}
	if err != nil {
		return err
	}
	lease := pool.Lease(memory.Answers)
	defer lease.Release()
	if err := lease.Grow(ctx, bytes+t.Copied); err != nil {
		return err
	}
	w.Header().Set("Content-Type", a.Media)
	to := &client{Writer: w}
	if err := write(to); err != nil && to.err == nil {
		panic(err) // so that half an answer is not taken for all
	}
	return nil
}

// client notes that writing has failed.
type client struct {
	io.Writer
	err error
}

func (c *client) Write(b []byte) (int, error) {
	n, err := c.Writer.Write(b)
	if err != nil {
		c.err = err
	}
	return n, err
}

// checkColumns refuses a table with two columns of one name.
func checkColumns(names []string) error {
	seen := map[string]bool{}
	for _, name := range names {
		if seen[name] {
			return &resample.Error{
				Code: resample.CodeLabelClash, Text: "two columns of the table would be named \"" + name + "\", of which one may be a label of series",
				Hint: "use format=ndjson, or leave the label out with without",
			}
		}
		seen[name] = true
	}
	return nil
}
