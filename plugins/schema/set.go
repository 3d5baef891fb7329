package schema

import (
	"crypto/sha256"
	"maps"
	"slices"
	"sync"

	"github.com/hashicorp/hcl/v2/hcldec"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Limits of what a Set keeps: parsed schemas, and results of checks.
const (
	maxParsed  = 256
	maxResults = 4096
)

// Set holds the schemas of the built-in kinds, and parses the others once. Its methods may be called
// concurrently.
type Set struct {
	builtin map[string]hcldec.Spec // by digest; never changes

	mu     sync.Mutex
	parsed map[string]hcldec.Spec // by digest; nil for one that cannot be parsed
	// results are those of Faults. Every evaluation of a job asks for the same ones.
	results map[result][]Fault
}

// result identifies a block and a schema by their digests.
type result struct {
	schema string
	block  [sha256.Size]byte
}

// NewSet returns a Set of the schemas of the kinds.
func NewSet(kinds map[string]*drivers.Kind) *Set {
	s := &Set{builtin: map[string]hcldec.Spec{}, parsed: map[string]hcldec.Spec{}, results: map[result][]Fault{}}
	for _, k := range kinds {
		if own, err := Of(k.TaskSpec); err == nil { // a test of package drivers encodes every kind
			s.builtin[own.Digest] = k.TaskSpec
		}
	}
	return s
}

// Builtin reports whether the digest is that of a built-in kind.
func (s *Set) Builtin(digest string) bool { return s.builtin[digest] != nil }

// Spec returns the schema with the digest, or nil if it is not known. stored returns the encoded
// schema, or nil.
func (s *Set) Spec(digest string, stored func(digest string) []byte) hcldec.Spec {
	if digest == "" {
		return nil
	}
	if spec := s.builtin[digest]; spec != nil {
		return spec
	}
	s.mu.Lock()
	spec, known := s.parsed[digest]
	s.mu.Unlock()
	if known {
		return spec
	}
	raw := stored(digest)
	if raw == nil {
		return nil // it may arrive later
	}
	if object, err := Parse(raw); err == nil {
		spec = object
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.parsed) >= maxParsed {
		clear(s.parsed)
	}
	s.parsed[digest] = spec
	return spec
}

// Faults checks a block with the schema with the digest. known is false if the schema is not known:
// then only the node can check. The result is shared: it must not be modified.
func (s *Set) Faults(digest string, block map[string]any, stored func(digest string) []byte) (faults []Fault, known bool) {
	spec := s.Spec(digest, stored)
	if spec == nil {
		return nil, false
	}
	if field, err := drivers.BoundNames(block); err != nil {
		return []Fault{{field, err.Error()}}, true
	}
	fields := slices.Sorted(maps.Keys(block))
	src, err := encode(fields, block)
	if err != nil {
		return []Fault{{Reason: err.Error()}}, true
	}
	key := result{digest, sha256.Sum256(src)}
	s.mu.Lock()
	faults, known = s.results[key]
	s.mu.Unlock()
	if known {
		return faults, true
	}
	faults = check(src, fields, spec)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.results) >= maxResults {
		clear(s.results)
	}
	s.results[key] = faults
	return faults, true
}
