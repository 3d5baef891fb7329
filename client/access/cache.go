package access

import (
	"maps"
	"sync"
	"time"
)

// maxKept is the maximum number of values in a cache.
const maxKept = 4096

// cache holds values until they expire. The zero cache is empty.
type cache[K comparable, V any] struct {
	mu   sync.RWMutex
	kept map[K]item[V]
}

type item[V any] struct {
	value V
	until time.Time
}

func (c *cache[K, V]) get(k K) (V, bool) {
	v, _, ok := c.until(k)
	return v, ok
}

// until is like get, and also returns the expiry.
func (c *cache[K, V]) until(k K) (V, time.Time, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	it, ok := c.kept[k]
	if !ok || !time.Now().Before(it.until) {
		var none V
		return none, time.Time{}, false
	}
	return it.value, it.until, true
}

// put stores a value. A full cache first drops expired values, and if there are none,
// everything.
func (c *cache[K, V]) put(k K, v V, until time.Time) {
	now := time.Now()
	if !now.Before(until) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.kept) >= maxKept {
		maps.DeleteFunc(c.kept, func(_ K, it item[V]) bool { return !now.Before(it.until) })
	}
	if c.kept == nil || len(c.kept) >= maxKept {
		c.kept = map[K]item[V]{}
	}
	c.kept[k] = item[V]{v, until}
}

func (c *cache[K, V]) drop(k K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.kept, k)
}
