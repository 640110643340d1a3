package server

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/queue"
)

// queues are what requests wait in. They outlive a reload.
type queues struct {
	queries, reads, lists *queue.Queue
	tooLarge              *memory.TooLarge
}

func newQueues(s config.Settings, reg prometheus.Registerer) queues {
	of := func(name string) *queue.Queue {
		return queue.New(queue.Limits{}, prometheus.WrapRegistererWith(prometheus.Labels{"queue": name}, reg))
	}
	q := queues{queries: of("query"), reads: of("read"), lists: of("list"), tooLarge: memory.NewTooLarge()}
	q.set(s)
	return q
}

// busy reports whether queries wait for a slot, or as many run as there are cores.
func (q queues) busy() bool {
	return q.queries.Waiting() > 0 || q.queries.Running() >= runtime.GOMAXPROCS(0)
}

// set gives the queues the limits of s.
func (q queues) set(s config.Settings) {
	q.queries.Set(s.Query.QueueLimits(s.Query.MaxConcurrency))
	q.lists.Set(s.Query.QueueLimits(s.Query.MaxLists))
	q.reads.Set(s.Query.QueueLimits(s.Storage.ReadConcurrentLimit))
}
