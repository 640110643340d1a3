package server

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/promwarp/promwarp/api/admit"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/internal/queue"
)

// queues are what requests wait in. They outlive a reload.
type queues struct {
	queries, small, reads, lists *queue.Queue
	known                        *admit.Small // which queries wait in small
}

func newQueues(s config.Settings, reg prometheus.Registerer) queues {
	of := func(name string) *queue.Queue {
		return queue.New(queue.Limits{}, prometheus.WrapRegistererWith(prometheus.Labels{"queue": name}, reg))
	}
	q := queues{queries: of("query"), small: of("small"), reads: of("read"), lists: of("list")}
	q.known = admit.NewSmall(q.small)
	q.set(s)
	return q
}

// busy reports whether queries wait for a slot, or as many run as there are cores.
func (q queues) busy() bool {
	return q.queries.Waiting()+q.small.Waiting() > 0 || q.queries.Running()+q.small.Running() >= runtime.GOMAXPROCS(0)
}

// set gives the queues the limits of s.
func (q queues) set(s config.Settings) {
	q.queries.Set(s.Query.QueueLimits(s.Query.MaxConcurrency))
	q.small.Set(s.Query.QueueLimits(s.Query.MaxConcurrency))
	q.lists.Set(s.Query.QueueLimits(s.Query.MaxLists))
	q.reads.Set(s.Query.QueueLimits(s.Storage.ReadConcurrentLimit))
}
