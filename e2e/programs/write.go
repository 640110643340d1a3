package programs

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage"
)

// RemoteWrite is the URL of a server that takes samples by Prometheus's remote write, which carries
// stale markers as they are.
type RemoteWrite string

// Appender implements storage.Appendable.
func (to RemoteWrite) Appender(ctx context.Context) storage.Appender {
	return &writing{to: to, ctx: ctx}
}

// writing sends what is appended in one request when it is committed.
type writing struct {
	storage.Appender // has no more than the methods below
	to               RemoteWrite
	ctx              context.Context
	request          prompb.WriteRequest
}

// Append adds a sample to the series that the reference numbers from 1 on, or to a new one for 0.
func (w *writing) Append(ref storage.SeriesRef, l labels.Labels, t int64, v float64) (storage.SeriesRef, error) {
	if ref == 0 {
		w.request.Timeseries = append(w.request.Timeseries, prompb.TimeSeries{Labels: prompb.FromLabels(l, nil)})
		ref = storage.SeriesRef(len(w.request.Timeseries))
	}
	to := &w.request.Timeseries[ref-1]
	to.Samples = append(to.Samples, prompb.Sample{Timestamp: t, Value: v})
	return ref, nil
}

func (w *writing) Rollback() error { return nil }

func (w *writing) Commit() error {
	if len(w.request.Timeseries) == 0 {
		return nil
	}
	body, err := w.request.Marshal()
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(w.ctx, http.MethodPost, string(w.to)+"/api/v1/write", bytes.NewReader(snappy.Encode(nil, body)))
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
		err = fmt.Errorf("remote write: %s: %.200s", resp.Status, said)
	}
	return err
}
