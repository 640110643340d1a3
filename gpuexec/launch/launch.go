// Package launch loads the kernels on a device and launches them.
//
// In goes a device, then for each launch a kernel's name, a grid and parameters; out comes work on a
// stream. A kernel's parameters are declared in its source alone: a launch with others than the
// kernel's PTX has is an error, by number and type. Start reading at Set, then at Queue.Launch.
package launch

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/kernels/ptx"
)

// Kernel is the name of a kernel.
type Kernel string

// The kernels of each room below kernels.
var (
	Decode = []Kernel{"decode_mixed", "decode_series"}
	Pack   = []Kernel{"pack_measure", "pack_columns"}
	Window = []Kernel{
		"fused_ends", "fused_over", "fused_rate", "window_distance", "window_ends", "window_join", "window_over", "window_pairs",
		"window_panes", "window_rate", "window_reads", "window_recent", "window_select", "window_slide", "window_statistic", "window_totals",
	}
	Values   = []Kernel{"map_values", "series_rows"}
	Group    = []Kernel{"group_accumulate", "group_quantile", "group_rank", "group_result"}
	Resample = []Kernel{
		"count_states", "count_uniqs", "group_distinct", "group_order", "group_order_few", "merge_parts", "merge_runs",
		"run_begins", "run_order", "run_rows", "series_keys", "value_keys",
	}
	Custom = []Kernel{"custom_merge", "custom_runs", "custom_values"}
	Probe  = []Kernel{"check"}
)

// Queries returns the kernels that queries need, most wanted first: the order in which leaves come to a
// device at the first start on a machine.
func Queries() []Kernel {
	return slices.Concat(First, rest(Decode), Pack, rest(Window), rest(Values), rest(Group), Fused, Resample)
}

// First are the kernels that a device begins with: what sums of rates need.
var First = []Kernel{"decode_series", "window_rate", "group_accumulate", "group_result"}

// Fused are the kernels that decode and compute windows in one.
var Fused = slices.DeleteFunc(slices.Clone(Window), func(k Kernel) bool { return !strings.HasPrefix(string(k), "fused_") })

// rest are the kernels of a room that are neither First nor Fused.
func rest(room []Kernel) []Kernel {
	return slices.DeleteFunc(slices.Clone(room), func(k Kernel) bool { return slices.Contains(First, k) || slices.Contains(Fused, k) })
}

// Set holds kernels of one device. Each is compiled and loaded once: by Load, or when it is
// launched first. It is safe for concurrent use.
type Set struct {
	dev       *cuda.Device
	all       map[Kernel]*loadable
	translate func(kernel []byte) []byte // changes the PTX of each; or nil
	compiled  atomic.Bool                // the driver had to compile some
}

// loadable is a kernel of a Set.
type loadable struct {
	loading  sync.Mutex
	loaded   atomic.Bool // what follows is set once it is
	module   cuda.Module
	function cuda.Function
	params   []string // the types of its parameters, as PTX has them
}

// New returns a set of kernels none of which is loaded.
func New(dev *cuda.Device, which ...Kernel) *Set {
	s := &Set{dev: dev, all: map[Kernel]*loadable{}}
	for _, k := range which {
		s.all[k] = &loadable{}
	}
	return s
}

// Load returns a set of kernels, all of them loaded. Unless it is nil, translate changes the PTX of each.
func Load(dev *cuda.Device, translate func(kernel []byte) []byte, which ...Kernel) (*Set, error) {
	s := New(dev, which...)
	s.translate = translate
	if err := s.Load(context.Background(), which...); err != nil {
		return nil, errors.Join(err, s.dev.Do(s.Unload))
	}
	return s, nil
}

// Load compiles and loads kernels of the set, one after the other, until ctx ends. The driver keeps
// what it compiled, so only the first start on a machine takes more than some ms.
func (s *Set) Load(ctx context.Context, which ...Kernel) error {
	for _, k := range which {
		err := s.dev.Do(func(c *cuda.Context) error {
			_, err := s.load(c, k)
			return err
		})
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
	}
	return nil
}

// LoadAside is Load while the device is in use. In one context the driver compiles one kernel at a time,
// and keeps all other calls waiting meanwhile. So if it had to compile those that are loaded, workers
// first compile the others in contexts of their own, and it only loads them here.
func (s *Set) LoadAside(ctx context.Context, workers int, which ...Kernel) error {
	if s.compiled.Load() {
		done := make(chan Kernel, len(which))
		go func() {
			defer close(done)
			s.compile(ctx, workers, which, done)
		}()
		for k := range done {
			if err := s.Load(ctx, k); err != nil {
				return err
			}
		}
	}
	return s.Load(ctx, which...)
}

// compile has the driver compile kernels, and says of each when that is done. One that fails will fail
// again, and say why, when it is loaded.
func (s *Set) compile(ctx context.Context, workers int, which []Kernel, done chan<- Kernel) {
	var next atomic.Int64
	parallel.While(workers, workers, func(int, int) bool {
		_ = s.dev.Apart(func(c *cuda.Context) error {
			for i := next.Add(1); int(i) <= len(which) && ctx.Err() == nil; i = next.Add(1) {
				k := which[i-1]
				if s.Loaded(k) {
					continue
				}
				m, err := c.Load(s.text(k))
				if err = cmp.Or(err, c.Unload(m)); err != nil {
					return err
				}
				done <- k
			}
			return nil
		})
		return true
	})
}

// Missing is about how long the driver takes to compile those of some kernels that are not loaded: 4 µs
// a byte of PTX (H200).
func (s *Set) Missing(which ...Kernel) (wait time.Duration) {
	for _, k := range which {
		if !s.Loaded(k) {
			wait += time.Duration(len(ptx.Of(string(k)))) * 4 * time.Microsecond
		}
	}
	return wait
}

// Loaded reports whether all of the kernels are loaded.
func (s *Set) Loaded(which ...Kernel) bool {
	return !slices.ContainsFunc(which, func(k Kernel) bool { return s.all[k] == nil || !s.all[k].loaded.Load() })
}

// load returns a kernel, loaded.
func (s *Set) load(c *cuda.Context, k Kernel) (*loadable, error) {
	of := s.all[k]
	if of == nil {
		return nil, fmt.Errorf("kernel %s is not loaded", k)
	}
	if of.loaded.Load() {
		return of, nil
	}
	of.loading.Lock()
	defer of.loading.Unlock()
	if of.loaded.Load() {
		return of, nil
	}
	text, start := s.text(k), time.Now()
	m, err := c.Load(text)
	if err != nil {
		return nil, fmt.Errorf("kernel %s: %w", k, err)
	}
	if time.Since(start) > compiles {
		s.compiled.Store(true)
	}
	of.module, of.params = m, paramsOf(text)
	if of.function, err = c.Function(m, string(k)); err != nil {
		return nil, err
	}
	of.loaded.Store(true)
	return of, nil
}

// compiles is how long the driver takes at least to compile a kernel, and at most to find what it compiled.
const compiles = 15 * time.Millisecond

// text is the PTX of a kernel.
func (s *Set) text(k Kernel) []byte {
	text := ptx.Of(string(k))
	if s.translate != nil {
		text = s.translate(text)
	}
	return text
}

var param = regexp.MustCompile(`(?m)^\t\.param \.(\w+) `)

// paramsOf are the types of the parameters of the kernel in a PTX text, which other functions may
// follow or precede.
func paramsOf(text []byte) (types []string) {
	_, text, _ = bytes.Cut(text, []byte("\n.visible .entry "))
	text, _, _ = bytes.Cut(text, []byte("\n)"))
	for _, found := range param.FindAllSubmatch(text, -1) {
		types = append(types, string(found[1]))
	}
	return types
}

// Unload gives the kernels back, for good.
func (s *Set) Unload(c *cuda.Context) error {
	var errs []error
	for _, of := range s.all {
		if of.module != 0 {
			errs = append(errs, c.Unload(of.module))
		}
	}
	return errors.Join(errs...)
}

// Queue is where launches go: a stream of the device that the kernels are loaded on.
type Queue struct {
	Set     *Set
	Context *cuda.Context
	Stream  cuda.Stream
}

// On is where launches on the queue go.
func (s *Set) On(c *cuda.Context, stream cuda.Stream) Queue { return Queue{s, c, stream} }

// Of is the queue for kernels of another set.
func (q Queue) Of(s *Set) Queue { return Queue{s, q.Context, q.Stream} }

// Launch puts a kernel on the queue. Its parameters are in the order of its source, each of the type
// that it has there: a cuda.Pointer, int64, uint64, uint32, float64, or bool for a Flag.
func (q Queue) Launch(k Kernel, grid, block cuda.Size, params ...any) error {
	l, err := q.Set.load(q.Context, k)
	if err != nil {
		return err
	}
	if len(params) != len(l.params) {
		return fmt.Errorf("kernel %s: %d parameters of %d", k, len(params), len(l.params))
	}
	values := make([]uint64, len(params))
	for i, p := range params {
		declared := "u64"
		switch p := p.(type) {
		case cuda.Pointer:
			values[i] = uint64(p)
		case uint64:
			values[i] = p
		case int64:
			values[i] = uint64(p)
		case uint32:
			values[i], declared = uint64(p), "u32"
		case bool:
			if declared = "u32"; p {
				values[i] = 1
			}
		case float64:
			values[i], declared = math.Float64bits(p), "f64"
		default:
			declared = "nothing"
		}
		if declared != l.params[i] {
			return fmt.Errorf("kernel %s: parameter %d is a %T for a .%s", k, i, p, l.params[i])
		}
	}
	return q.Context.Launch(l.function, grid, block, q.Stream, values...)
}

// MaxGridY is the most blocks that a grid has in its second dimension.
const MaxGridY = 65535

// Blocks is the grid of one thread an item.
func Blocks(items, threads uint32) cuda.Size {
	return cuda.Size{X: (items + threads - 1) / threads}
}
