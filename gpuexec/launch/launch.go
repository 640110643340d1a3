// Package launch loads the kernels on a device and launches them.
//
// In goes a device, then for each launch a kernel's name, a grid and parameters; out comes work on a
// stream. A kernel's parameters are declared in its source alone: a launch with others than the
// kernel's PTX has is an error, by number and type. Start reading at Set, then at Queue.Launch.
package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/kernels/ptx"
)

// Kernel is the name of a kernel.
type Kernel string

// The kernels of each room below kernels.
var (
	Decode = []Kernel{"decode_mixed", "decode_series"}
	Window = []Kernel{
		"fused_ends", "fused_over", "fused_rate", "window_ends", "window_join", "window_order", "window_over", "window_pairs",
		"window_panes", "window_rate", "window_reads", "window_statistic",
	}
	Values   = []Kernel{"map_values", "series_rows"}
	Group    = []Kernel{"group_accumulate", "group_accumulate_squares", "group_quantile", "group_rank", "group_result"}
	Resample = []Kernel{
		"add_squares", "count_keys", "count_uniqs", "fused_keys", "fused_runs", "group_distinct", "group_order", "group_order_few",
		"merge_runs", "order_keys", "run_order", "run_rows", "square_terms", "state_values", "value_keys",
	}
	Custom = []Kernel{"custom_fused", "custom_merge", "custom_runs", "custom_values"}
	Probe  = []Kernel{"check"}
)

// Queries returns the kernels that queries need.
func Queries() []Kernel { return slices.Concat(Decode, Window, Values, Group, Resample) }

// Fused are the kernels that decode and compute windows in one. First are those of Queries that a
// device begins with: neither Fused nor Resample, which are most of what the driver has to compile
// at the first start on a machine.
var (
	Fused = slices.DeleteFunc(slices.Clone(Window), func(k Kernel) bool { return !strings.HasPrefix(string(k), "fused_") })
	First = slices.DeleteFunc(slices.Concat(Decode, Window, Values, Group), func(k Kernel) bool { return slices.Contains(Fused, k) })
)

// Set holds kernels of one device. Each is compiled and loaded once: by Load, or when it is
// launched first. It is safe for concurrent use.
type Set struct {
	dev       *cuda.Device
	all       map[Kernel]*loadable
	translate func(kernel []byte) []byte // changes the PTX of each; or nil
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
	if err := s.Load(context.Background(), runtime.GOMAXPROCS(0), which...); err != nil {
		return nil, errors.Join(err, s.dev.Do(s.Unload))
	}
	return s, nil
}

// Load compiles and loads kernels of the set, workers beside each other, until ctx ends. The driver
// keeps what it compiled, so only the first start on a machine takes more than some ms.
func (s *Set) Load(ctx context.Context, workers int, which ...Kernel) error {
	which, errs := slices.Clone(which), make([]error, len(which))
	size := map[Kernel]int{}
	for _, k := range which {
		size[k] = len(ptx.Of(string(k)))
	}
	slices.SortFunc(which, func(a, b Kernel) int { return size[b] - size[a] }) // what takes longest first
	parallel.While(workers, len(which), func(_, i int) bool {
		errs[i] = s.dev.Do(func(c *cuda.Context) error {
			_, err := s.load(c, which[i])
			return err
		})
		return ctx.Err() == nil
	})
	return errors.Join(append(errs, ctx.Err())...)
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
	text := ptx.Of(string(k))
	if s.translate != nil {
		text = s.translate(text)
	}
	m, err := c.Load(text)
	if err != nil {
		return nil, fmt.Errorf("kernel %s: %w", k, err)
	}
	of.module, of.params = m, paramsOf(text)
	if of.function, err = c.Function(m, string(k)); err != nil {
		return nil, err
	}
	of.loaded.Store(true)
	return of, nil
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
