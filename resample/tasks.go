package resample

import (
	"github.com/promwarp/promwarp/cpuexec/decode"
	"github.com/promwarp/promwarp/internal/parallel"
)

// series decodes and aggregates the series of the batch.
func (c *computing) series() error {
	samples, chunks := 0, 0
	for i := range c.items {
		for _, ch := range c.items[i].chunks {
			samples += int(ch.Samples)
		}
		chunks += len(c.items[i].chunks)
	}
	workers := c.run.workers
	if samples < 20_000 {
		workers = 1
	}
	c.divide(chunks / (tasksEach * workers))
	parallel.While(workers, len(c.tasks), func(w, i int) bool {
		t := &c.tasks[i]
		t.err = c.workers[w].do(c, c.items[t.first:t.end])
		return t.err == nil && c.ctx.Err() == nil
	})
	for i := range c.tasks {
		if err := c.tasks[i].err; err != nil {
			return err
		}
	}
	return c.failed()
}

const (
	// taskChunks is the number of chunks from which on a task has no more series: few of them are
	// left over from those that are decoded at once, and the samples stay in a core's caches.
	taskChunks = 48
	// tasksEach is how many tasks a worker has, so that all end at about the same time, unless
	// their chunks would be fewer than are decoded at once.
	tasksEach = 8
)

// task is some items of a batch, which a worker decodes together.
type task struct {
	first, end int
	err        error
}

// divide makes tasks of the items of the batch: of about so many chunks each, within bounds.
func (c *computing) divide(each int) {
	each = min(max(each, decode.AtOnce), taskChunks)
	c.tasks = c.tasks[:0]
	for i, chunks := 0, each; i < len(c.items); i++ {
		if chunks >= each {
			c.tasks, chunks = append(c.tasks, task{first: i}), 0
		}
		chunks += max(1, len(c.items[i].chunks))
		c.tasks[len(c.tasks)-1].end = i + 1
	}
}
