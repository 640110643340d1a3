package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

func Example() {
	q := New(Limits{Slots: 1, MaxWaiting: 0}, nil)
	slot, _ := q.Enter(context.Background(), "a")
	_, err := q.Enter(context.Background(), "b")
	fmt.Println(err)
	slot.Leave()
	_, err = q.Enter(context.Background(), "b")
	fmt.Println(err)
	// Output:
	// all 1 slots are in use and the queue is full with 0 waiting
	// <nil>
}

func enter(t *testing.T, q *Queue, client string) *Slot {
	t.Helper()
	s, err := q.Enter(t.Context(), client)
	require.NoError(t, err)
	return s
}

// enterLater has client enter in the background; order gets its name when it is in.
func enterLater(t *testing.T, q *Queue, client string, order chan<- string) {
	go func() {
		s, err := q.Enter(t.Context(), client)
		var r *Rejected
		if errors.As(err, &r) {
			order <- client + " " + string(r.Reason)
			return
		}
		order <- client
		s.Leave()
	}()
	synctest.Wait()
}

// Clients take turns, and the first request of each comes first.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Limits{Slots: 1, MaxWaiting: 1000}, nil)
		slot := enter(t, q, "dashboard")
		order := make(chan string, 600)
		for range 500 {
			enterLater(t, q, "dashboard", order)
		}
		enterLater(t, q, "alert", order)
		enterLater(t, q, "alert", order)
		enterLater(t, q, "other", order)
		slot.Leave()
		var first []string
		for range 503 {
			first = append(first, <-order)
		}
		require.Equal(t, []string{"dashboard", "alert", "other", "dashboard", "alert", "dashboard", "dashboard"}, first[:7])
		synctest.Wait()
		require.Zero(t, q.running)
		require.Zero(t, q.waiting)
		require.Empty(t, q.clients)
	})
}

// A full queue sends away, at once, whose client has most waiting.
func TestFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		q := New(Limits{Slots: 1, MaxWaiting: 3}, reg)
		slot := enter(t, q, "a")
		order := make(chan string, 10)
		for range 3 {
			enterLater(t, q, "a", order)
		}
		enterLater(t, q, "a", order)
		require.Equal(t, "a full", <-order)
		enterLater(t, q, "b", order)
		require.Equal(t, "a displaced", <-order)
		enterLater(t, q, "b", order) // as many as a has
		require.Equal(t, "b full", <-order)
		enterLater(t, q, "c", order)
		require.Equal(t, "a displaced", <-order)
		enterLater(t, q, "d", order)
		require.Equal(t, "d full", <-order)
		require.Equal(t, 3.0, testutil.ToFloat64(q.metrics.waiting))
		slot.Leave()
		require.Equal(t, []string{"a", "b", "c"}, []string{<-order, <-order, <-order})
		synctest.Wait()
		require.Equal(t, 3.0, testutil.ToFloat64(q.metrics.rejected.WithLabelValues("full")))
		require.Equal(t, 2.0, testutil.ToFloat64(q.metrics.rejected.WithLabelValues("displaced")))
		require.Zero(t, testutil.ToFloat64(q.metrics.running))
	})
}

// One that waits too long, or whose context ends, leaves the queue.
func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Limits{Slots: 1, MaxWaiting: 10, MaxWait: time.Second}, nil)
		slot := enter(t, q, "a")
		start := time.Now()
		_, err := q.Enter(t.Context(), "a")
		var r *Rejected
		require.ErrorAs(t, err, &r)
		require.Equal(t, Late, r.Reason)
		require.Equal(t, time.Second, time.Since(start))

		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err = q.Enter(ctx, "a")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = q.Enter(ctx, "a")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Zero(t, q.waiting)
		slot.Leave()
		slot.Leave()
		require.Zero(t, q.running)
		require.Empty(t, q.clients)
	})
}

// Limits that change count from then on.
func TestSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Limits{Slots: 1, MaxWaiting: 10}, nil)
		slot := enter(t, q, "a")
		order := make(chan string, 10)
		enterLater(t, q, "a", order)
		q.Set(Limits{Slots: 2})
		require.Equal(t, "a", <-order)
		q.Set(Limits{Slots: 1})
		enterLater(t, q, "a", order)
		require.Equal(t, "a full", <-order)
		q.Set(Limits{})
		enter(t, q, "a").Leave()
		slot.Leave()
		require.Equal(t, Limits{}, q.Limits())
	})
	var none *Queue
	enter(t, none, "a").Leave()
	require.Zero(t, none.Limits())
}

// Never more are in than may, and all that ends is counted, whatever happens at once.
func TestMany(t *testing.T) {
	q := New(Limits{Slots: 3, MaxWaiting: 20, MaxWait: 2 * time.Millisecond}, nil)
	var in, most atomic.Int64
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			for k := range 50 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+k%4)*time.Millisecond)
				s, err := q.Enter(ctx, fmt.Sprint(i%7))
				if err == nil {
					n := in.Add(1)
					for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
					}
					time.Sleep(50 * time.Microsecond)
					in.Add(-1)
					s.Leave()
				}
				cancel()
			}
		})
	}
	wg.Wait()
	require.LessOrEqual(t, most.Load(), int64(3))
	require.Zero(t, q.running)
	require.Zero(t, q.waiting)
	require.Empty(t, q.clients)
}

// TestSpare: a client that has all slots but the spare ones waits, and another does not.
func TestSpare(t *testing.T) {
	q := New(Limits{Slots: 4, Spare: 1, MaxWaiting: 10, MaxWait: time.Minute}, nil)
	var slots []*Slot
	for range 3 {
		s, err := q.Enter(t.Context(), "dashboard")
		require.NoError(t, err)
		slots = append(slots, s)
	}
	entered := make(chan *Slot)
	go func() {
		s, _ := q.Enter(t.Context(), "dashboard")
		entered <- s
	}()
	require.Eventually(t, func() bool { q.mu.Lock(); defer q.mu.Unlock(); return q.waiting == 1 }, 5*time.Second, time.Millisecond)
	alert, err := q.Enter(t.Context(), "alert")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err = q.Enter(ctx, "other")
	require.ErrorIs(t, err, context.DeadlineExceeded, "there is none left")
	alert.Leave()
	select {
	case <-entered:
		t.Fatal("the spare slot went to the client that has all others")
	case <-time.After(10 * time.Millisecond):
	}
	slots[0].Leave()
	s := <-entered
	require.Equal(t, 3, q.Running())
	for _, s := range append(slots[1:], s) {
		s.Leave()
	}
	require.Zero(t, q.Running())
	require.Empty(t, q.clients)
}
