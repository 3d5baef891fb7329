// Package parsed caches the results of parsing strings, such as version ranges, which occur in many jobs.
package parsed

import "sync"

const (
	// mostParsed is the maximum number of cached strings, longestParsed the maximum length of each. The
	// strings come from jobs, so both are limited.
	mostParsed    = 256
	longestParsed = 128
)

// Cache caches the results of parsing strings that occur in many jobs, such as version ranges. When the cache is full,
// it is cleared. The results are shared and must not be modified.
type Cache[T any] struct {
	parse func(text string) (T, error)

	mu   sync.Mutex
	seen map[string]parsed[T]
}

type parsed[T any] struct {
	value T
	err   error
}

// New returns a Cache that calls parse for strings not in the cache.
func New[T any](parse func(text string) (T, error)) *Cache[T] {
	return &Cache[T]{parse: parse, seen: map[string]parsed[T]{}}
}

// Of returns the parsed value of the text, or the error from parsing it.
func (p *Cache[T]) Of(text string) (T, error) {
	if len(text) > longestParsed {
		return p.parse(text)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	known, ok := p.seen[text]
	if !ok {
		known.value, known.err = p.parse(text)
		if len(p.seen) == mostParsed {
			clear(p.seen)
		}
		p.seen[text] = known
	}
	return known.value, known.err
}
