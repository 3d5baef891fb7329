package radix_test

import (
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/open-nomad/open-nomad/internal/radix"
)

// someKey is of a small world, so that keys meet, split each other and are each
// other's prefixes.
func someKey(r *rand.Rand) string {
	k := make([]byte, r.IntN(7))
	for i := range k {
		k[i] = "ab\x00\xff"[r.IntN(4)]
	}
	return string(k)
}

// model is what a tree must be.
type model map[string]any

func (m model) rows(in func(k string) bool) []any {
	out := []any{}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if in(k) {
			out = append(out, m[k])
		}
	}
	return out
}

func collect(seq iter.Seq[any]) []any { return slices.AppendSeq([]any{}, seq) }

// compare reads a tree in every way and compares with the model.
func compare(t *testing.T, tree radix.Tree, m model, k string) {
	t.Helper()
	if got, _ := tree.Watch([]byte(k)); got != m[k] || tree.Get([]byte(k)) != m[k] {
		t.Fatalf("%q is %v, want %v", k, got, m[k])
	}
	below := m.rows(func(s string) bool { return strings.HasPrefix(s, k) })
	if got := collect(tree.Ascend([]byte(k))); !slices.Equal(got, below) {
		t.Fatalf("below %q are %v, want %v", k, got, below)
	}
	slices.Reverse(below)
	if got := collect(tree.Descend([]byte(k))); !slices.Equal(got, below) {
		t.Fatalf("below %q are, falling, %v, want %v", k, got, below)
	}
	if got, want := collect(tree.From([]byte(k))), m.rows(func(s string) bool { return s >= k }); !slices.Equal(got, want) {
		t.Fatalf("from %q are %v, want %v", k, got, want)
	}
	if len(below) > 1 {
		for range tree.Ascend([]byte(k)) {
			break // a range may end early
		}
	}
}

// watched is what somebody saw and waits for a change of.
type watched struct {
	k      string
	prefix bool
	saw    []any
	ch     <-chan struct{}
}

func watch(tree radix.Tree, m model, k string, prefix bool) watched {
	w := watched{k: k, prefix: prefix}
	w.saw = w.see(m)
	if prefix {
		w.ch = tree.WatchPrefix([]byte(k))
	} else {
		_, w.ch = tree.Watch([]byte(k))
	}
	return w
}

func (w watched) see(m model) []any {
	return m.rows(func(s string) bool { return s == w.k || w.prefix && strings.HasPrefix(s, w.k) })
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// Whatever is put and deleted, a tree holds what a map would; older versions stay as
// they were; who watches what changed is woken, and not before the Edit tells.
func TestTreeAgainstMap(t *testing.T) {
	woken, quiet := 0, 0
	for seed := range uint64(120) {
		r := rand.New(rand.NewPCG(seed, 1))
		tree, m := radix.New(), model{}
		for n := range 40 {
			before, was := tree, maps.Clone(m)
			var watches []watched
			for range 8 {
				watches = append(watches, watch(tree, m, someKey(r), r.IntN(2) == 0))
			}
			e := radix.Begin()
			for range r.IntN(12) {
				k := someKey(r)
				if r.IntN(2) == 0 {
					v := fmt.Sprint(k, n, r.IntN(1e6))
					tree, m[k] = e.Put(tree, []byte(k), v), v
				} else {
					tree = e.Delete(tree, []byte(k))
					delete(m, k)
				}
				compare(t, tree, m, someKey(r))
			}
			compare(t, before, was, someKey(r))
			for _, w := range watches {
				if closed(w.ch) {
					t.Fatalf("seed %d: a watch of %q ended before the change was told", seed, w.k)
				}
			}
			if r.IntN(8) == 0 {
				tree, m = before, was // the Edit is given up
				continue
			}
			e.Tell()
			for _, w := range watches {
				switch changed := !slices.Equal(w.saw, w.see(m)); {
				case changed && !closed(w.ch):
					t.Fatalf("seed %d: a watch of %q, prefix %v, missed that %v became %v", seed, w.k, w.prefix, w.saw, w.see(m))
				case closed(w.ch):
					woken++
				default:
					quiet++
				}
			}
			if k := someKey(r); !slices.Equal(collect(before.Ascend([]byte(k))), collect(tree.Ascend([]byte(k)))) && !closed(before.WatchPrefix([]byte(k))) {
				t.Fatalf("seed %d: %q of an old version can be watched, though it changed", seed, k)
			}
		}
	}
	if woken < 1000 || quiet < 1000 {
		t.Errorf("%d watches were woken, %d not: too few to say anything", woken, quiet)
	}
}

// A change wakes nobody who watches another key.
func TestOthersSleep(t *testing.T) {
	e := radix.Begin()
	tree := radix.New()
	for i := range 1000 {
		tree = e.Put(tree, fmt.Appendf(nil, "key-%03d\x00", i), i)
	}
	e.Tell()
	_, other := tree.Watch([]byte("key-124\x00"))
	_, same := tree.Watch([]byte("key-123\x00"))
	all := tree.WatchPrefix([]byte("key-12"))
	e = radix.Begin()
	e.Put(tree, []byte("key-123\x00"), -1)
	e.Tell()
	if closed(other) || !closed(same) || !closed(all) {
		t.Errorf("woken are the other key: %v, the key: %v, its prefix: %v", closed(other), closed(same), closed(all))
	}
}

// Readers and watchers of versions go on while others are made.
func TestWatchersBesideEdits(t *testing.T) {
	const last = 500
	var mu sync.Mutex // guards tree
	tree := radix.New()
	now := func() radix.Tree {
		mu.Lock()
		defer mu.Unlock()
		return tree
	}
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				at := now()
				v, changed := at.Watch([]byte("counter"))
				if v == last {
					return
				}
				if n := len(collect(at.Ascend([]byte("row")))); v != nil && n != v {
					t.Errorf("%d rows with the counter at %v", n, v)
					return
				}
				<-changed // hangs for ever when a change is missed
			}
		})
	}
	for n := 1; n <= last; n++ {
		e := radix.Begin()
		next := e.Put(now(), fmt.Appendf(nil, "row%d", n), n)
		next = e.Put(next, []byte("counter"), n)
		mu.Lock()
		tree = next
		mu.Unlock()
		e.Tell()
	}
	readers.Wait()
}

// BenchmarkPut replaces and adds keys like those of evaluations, eight in one Edit.
func BenchmarkPut(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	tree := radix.New()
	value := any("value")
	key := func() []byte {
		return fmt.Appendf(nil, "%08x-%04x-%04x\x00", r.Uint32(), r.Uint32()&0xffff, r.Uint32()&0xffff)
	}
	e := radix.Begin()
	for range 50_000 {
		tree = e.Put(tree, key(), value)
	}
	e.Tell()
	keys := make([][]byte, 10_000)
	for i := range keys {
		keys[i] = key()
	}
	b.ReportAllocs()
	b.ResetTimer()
	for n := range b.N {
		if n%8 == 0 {
			e.Tell()
			e = radix.Begin()
		}
		tree = e.Put(tree, keys[n%len(keys)], value)
	}
}
