package nomad

import "sync"

const (
	// mostParsed is how many texts are remembered at a time, longestParsed how long one
	// may be: they come from jobs.
	mostParsed    = 256
	longestParsed = 128
)

// Parsed remembers what texts mean that come again with every job: the servers ask most of
// them for the same range of versions. It holds a few hundred and then begins anew. What it
// returns is shared: it is read, never written to.
type Parsed[T any] struct {
	parse func(text string) (T, error)

	mu   sync.Mutex
	seen map[string]parsed[T]
}

type parsed[T any] struct {
	value T
	err   error
}

// NewParsed returns a Parsed that asks parse for what it does not know.
func NewParsed[T any](parse func(text string) (T, error)) *Parsed[T] {
	return &Parsed[T]{parse: parse, seen: map[string]parsed[T]{}}
}

// Of returns what the text means.
func (p *Parsed[T]) Of(text string) (T, error) {
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
