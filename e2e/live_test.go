package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/internal/dataset"
)

// live is a Prometheus with a day of data that goes on: its newest hours are in its
// head, as they are in every Prometheus that scrapes, and samples arrive each second.
type live struct {
	*process
	series int

	arriving sync.Mutex // held while samples arrive
	data     *dataset.Generator
}

// startLive starts one, which ends with the test.
func startLive(t *testing.T, series int) *live {
	t.Helper()
	ctx, now := t.Context(), time.Now()
	l := &live{series: series}
	var err error
	l.data, err = dataset.New(dataset.Options{
		Start: now.Add(-25 * time.Hour).UnixMilli(), End: now.Add(time.Hour).UnixMilli(), Series: series, Seed: 1,
	})
	require.NoError(t, err)
	dir := t.TempDir()
	head := now.Add(-time.Hour).Truncate(2 * time.Hour)
	_, err = l.data.WriteBlocks(ctx, dir, head.UnixMilli(), nil)
	require.NoError(t, err)
	db, err := tsdb.Open(dir, slog.New(slog.DiscardHandler), nil, tsdb.DefaultOptions(), nil)
	require.NoError(t, err)
	_, err = l.data.Write(ctx, db, time.Now().UnixMilli())
	require.NoError(t, db.Close())
	require.NoError(t, err)

	addr := mustFreeAddr(t)
	args := append(prometheusArgs(addr, dir, writeConfig(t, "")), "--web.enable-remote-write-receiver")
	l.process = runServer(t, "Prometheus", addr, prometheusBin, args...)
	l.arrive(t)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Second):
				l.arrive(t)
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-ended
	})
	return l
}

// arrive sends all samples until now.
func (l *live) arrive(t *testing.T) {
	l.arriving.Lock()
	defer l.arriving.Unlock()
	if _, err := l.data.Write(context.Background(), sender(l.url), time.Now().UnixMilli()); err != nil {
		t.Errorf("send samples: %s", err)
	}
}

// still calls f while no samples arrive.
func (l *live) still(f func()) {
	l.arriving.Lock()
	defer l.arriving.Unlock()
	f()
}

// sender is the address of a server that takes samples by remote write.
type sender string

// Appender implements storage.Appendable.
func (s sender) Appender(ctx context.Context) storage.Appender { return &sending{to: s, ctx: ctx} }

// sending sends what is appended when it is committed.
type sending struct {
	storage.Appender // has no more than the methods below
	to               sender
	ctx              context.Context
	request          prompb.WriteRequest
}

func (s *sending) Append(_ storage.SeriesRef, l labels.Labels, t int64, v float64) (storage.SeriesRef, error) {
	s.request.Timeseries = append(s.request.Timeseries, prompb.TimeSeries{
		Labels: prompb.FromLabels(l, nil), Samples: []prompb.Sample{{Timestamp: t, Value: v}},
	})
	return 0, nil
}

func (s *sending) Rollback() error { return nil }

func (s *sending) Commit() error {
	b, err := s.request.Marshal()
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(s.ctx, http.MethodPost, string(s.to)+"/api/v1/write", bytes.NewReader(snappy.Encode(nil, b)))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-protobuf")
	r.Header.Set("Content-Encoding", "snappy")
	r.Header.Set("X-Prometheus-Remote-Write-Version", "0.1.0")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		return fmt.Errorf("%s: %s", resp.Status, said)
	}
	return nil
}
