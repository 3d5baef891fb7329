// Package slots limits work in progress: that of each caller, and that of all callers together. Unlike package
// connlimit, it never ends work for another caller.
package slots

import "sync"

// Set has the slots in use by key. Its methods may be called concurrently.
type Set[K comparable] struct {
	each, total int

	mu    sync.Mutex
	count int
	used  map[K]int
}

// New returns a set with a limit for each key, and for all keys together. 0 is unlimited.
func New[K comparable](each, total int) *Set[K] {
	return &Set[K]{each: each, total: total, used: map[K]int{}}
}

// Take takes a slot and returns how many the key has with it. It returns 0 if a limit is reached. Otherwise the caller
// must call Release once.
func (s *Set[K]) Take(key K) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.total > 0 && s.count >= s.total || s.each > 0 && s.used[key] >= s.each {
		return 0
	}
	s.count++
	s.used[key]++
	return s.used[key]
}

// Release releases a slot of the key.
func (s *Set[K]) Release(key K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count--
	if s.used[key]--; s.used[key] == 0 {
		delete(s.used, key)
	}
}

// Used returns the number of slots that a key has.
func (s *Set[K]) Used(key K) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used[key]
}

// Count returns the number of slots in use.
func (s *Set[K]) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}
