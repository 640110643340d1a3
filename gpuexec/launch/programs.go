package launch

import (
	"crypto/sha256"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/promwarp/promwarp/gpuexec/cuda"
)

// maxPrograms is the most programs that stay loaded without a user.
const maxPrograms = 32

// Programs are the kernels of custom aggregates on one device: of each that was used lately, those
// of kernels/custom with its program in them. They are compiled when they are first asked for.
// Programs are safe for concurrent use.
type Programs struct {
	Device *cuda.Device

	mu  sync.Mutex
	all []*loaded // used least lately first
}

// loaded are the kernels of one program.
type loaded struct {
	hash  [sha256.Size]byte
	load  func() (*Set, error) // once
	done  atomic.Bool          // it has come to an end
	users int
}

// Program is what is put into kernels.
type Program struct {
	Hash      [sha256.Size]byte          // another for another program
	Kernels   []Kernel                   // that it is put into
	Translate func(kernel []byte) []byte // puts the program into the PTX of one of them
}

// Hold returns the kernels of a program, which it compiles if they are not loaded. They stay loaded
// until as many calls of Release have been made, at least. Hold must not be called within
// Device.Do.
func (p *Programs) Hold(t *Program) (*Set, error) {
	p.mu.Lock()
	l := p.find(t)
	if l == nil {
		l = &loaded{hash: t.Hash}
		l.load = sync.OnceValues(func() (*Set, error) {
			defer l.done.Store(true)
			return Load(p.Device, t.Translate, t.Kernels...)
		})
	}
	l.users++
	p.remove(l)
	p.all = append(p.all, l)
	p.mu.Unlock()
	s, err := l.load()
	if err != nil {
		p.mu.Lock()
		p.remove(l) // so that the next call tries again
		p.mu.Unlock()
	}
	return s, err
}

// find returns a program's kernels, or nil. The mutex must be held, also for remove.
func (p *Programs) find(t *Program) *loaded {
	for _, l := range p.all {
		if l.hash == t.Hash {
			return l
		}
	}
	return nil
}

func (p *Programs) remove(l *loaded) {
	p.all = slices.DeleteFunc(p.all, func(o *loaded) bool { return o == l })
}

// Loaded reports whether the kernels of a program are loaded.
func (p *Programs) Loaded(t *Program) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.find(t)
	return l != nil && l.done.Load()
}

// Release lets kernels that Hold returned go. Nothing of the caller's may use them any more on the
// device. Where there are too many programs, the one without a user that was used least lately is
// unloaded. One is enough: no more programs are too many than have users, and each is released.
func (p *Programs) Release(t *Program) error {
	p.mu.Lock()
	p.find(t).users--
	var surplus *loaded
	if i := slices.IndexFunc(p.all, func(l *loaded) bool { return l.users == 0 }); i >= 0 && len(p.all) > maxPrograms {
		surplus = p.all[i]
		p.remove(surplus)
	}
	p.mu.Unlock()
	if surplus == nil {
		return nil
	}
	s, _ := surplus.load() // which has been, as it had a user
	return p.Device.Do(s.Unload)
}

// Unload unloads all programs. None may be held.
func (p *Programs) Unload(c *cuda.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, l := range p.all {
		s, err := l.load()
		if err == nil {
			err = s.Unload(c)
		}
		errs = append(errs, err)
	}
	p.all = nil
	return errors.Join(errs...)
}
