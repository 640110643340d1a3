package peers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"time"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/prompb"
	"golang.org/x/sync/errgroup"

	"github.com/promwarp/promwarp/internal/dataset"
)

const (
	feedStep  = 30 * time.Minute // how far all series advance before any goes on
	feedBatch = 20_000           // about how many samples go into one request
)

// Feed sends the data set to the server p over Prometheus's remote write,
// which, unlike a text format, carries stale markers as they are.
func Feed(ctx context.Context, p *Process, o dataset.Options) (dataset.Stats, error) {
	g, err := dataset.New(o)
	if err != nil {
		return dataset.Stats{}, err
	}
	senders, ctx := errgroup.WithContext(ctx)
	senders.SetLimit(max(2, runtime.GOMAXPROCS(0)/2))
	err = generate(g, o, func(body []byte) error {
		senders.Go(func() error { return remoteWrite(ctx, p.URL+"/api/v1/write", body) })
		return context.Cause(ctx)
	})
	// What a sender says comes first: it may be the cause.
	if err := errors.Join(senders.Wait(), err); err != nil {
		return g.Stats(), fmt.Errorf("feed %s: %w", p.Name, err)
	}
	return g.Stats(), nil
}

// generate hands the data set over as bodies of remote-write requests.
func generate(g *dataset.Generator, o dataset.Options, send func([]byte) error) error {
	var batch batch
	for from := o.Start; from < o.End; {
		to := min(from+feedStep.Milliseconds(), o.End)
		err := g.Next(to, func(s *dataset.Series, t []int64, v []float64) error {
			batch.add(s, t, v)
			if batch.samples < feedBatch {
				return nil
			}
			return batch.flush(send)
		})
		if err == nil {
			err = batch.flush(send)
		}
		if err != nil {
			return err
		}
		from = to
	}
	return nil
}

// batch collects the series of one request.
type batch struct {
	req     prompb.WriteRequest
	samples int
}

func (b *batch) add(s *dataset.Series, t []int64, v []float64) {
	n := len(b.req.Timeseries)
	if n < cap(b.req.Timeseries) {
		b.req.Timeseries = b.req.Timeseries[:n+1] // with the memory of the batch before
	} else {
		b.req.Timeseries = append(b.req.Timeseries, prompb.TimeSeries{})
	}
	to := &b.req.Timeseries[n]
	to.Labels = prompb.FromLabels(s.Labels, to.Labels[:0])
	to.Samples = to.Samples[:0]
	for i := range t {
		to.Samples = append(to.Samples, prompb.Sample{Timestamp: t[i], Value: v[i]})
	}
	b.samples += len(t)
}

// flush hands the batch over, if there is something in it, and empties it.
func (b *batch) flush(send func([]byte) error) error {
	if b.samples == 0 {
		return nil
	}
	raw, err := b.req.Marshal()
	if err != nil {
		return err
	}
	b.req.Timeseries, b.samples = b.req.Timeseries[:0], 0
	return send(snappy.Encode(nil, raw))
}

// remoteWrite sends the body of a remote-write request.
func remoteWrite(ctx context.Context, url string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("Content-Encoding", "snappy")
	req.Header.Set("X-Prometheus-Remote-Write-Version", "0.1.0")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("remote write: %s: %s", resp.Status, said[:min(len(said), 200)])
	}
	return err
}
