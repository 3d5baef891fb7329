// Package nodemeta holds the metadata of a node. Its dynamic part is on disk before it is in use. It has no goroutines.
package nodemeta

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// Limits of the dynamic metadata, which is part of every registration.
const (
	maxMetaKeys  = 4096
	maxMetaBytes = 1 << 20 // keys and values
)

// Meta is the metadata of the node. Static metadata is that of the configuration. Dynamic
// metadata is set by NodeMeta.Apply and survives a restart. The effective metadata is the static
// one with the dynamic one on top; a nil value removes a static key.
type Meta struct {
	db     *state.DB
	static map[string]string

	applying sync.Mutex // serialises changes, including their write to the disk
	mu       sync.Mutex
	dynamic  map[string]*string // replaced, never modified
}

// Load returns the metadata of the configuration and of the state. It drops the removals
// of keys that the configuration no longer has.
func Load(static map[string]string, db *state.DB) (*Meta, error) {
	stored, err := db.NodeMeta()
	if err != nil {
		return nil, err
	}
	m := &Meta{db: db, static: maps.Clone(static), dynamic: map[string]*string{}}
	if m.static == nil {
		m.static = map[string]string{}
	}
	for k, v := range stored {
		if _, static := m.static[k]; v != nil || static {
			m.dynamic[k] = v
		}
	}
	if len(m.dynamic) == len(stored) {
		return m, nil
	}
	return m, db.PutNodeMeta(m.dynamic)
}

// Current returns the effective and the dynamic metadata. The caller must not modify the latter.
func (m *Meta) Current() (effective map[string]string, dynamic map[string]*string) {
	dynamic = m.current()
	return merge(m.static, dynamic), dynamic
}

// Static returns the metadata of the configuration. The caller must not modify it.
func (m *Meta) Static() map[string]string { return m.static }

func (m *Meta) current() map[string]*string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dynamic
}

// Effective returns the metadata of the node.
func (m *Meta) Effective() map[string]string { return merge(m.static, m.current()) }

// merge returns the static metadata with the dynamic one on top.
func merge(static map[string]string, dynamic map[string]*string) map[string]string {
	out := maps.Clone(static)
	for k, v := range dynamic {
		if v == nil {
			delete(out, k)
			continue
		}
		out[k] = *v
	}
	return out
}

// Apply merges changes into the dynamic metadata and stores the result. Then it calls publish with
// the new metadata of the node.
func (m *Meta) Apply(changes map[string]*string, publish func(meta map[string]string)) error {
	if err := checkMeta(changes); err != nil {
		return err
	}
	m.applying.Lock()
	defer m.applying.Unlock()
	next := maps.Clone(m.current())
	for k, v := range changes {
		if _, static := m.static[k]; v == nil && !static {
			delete(next, k)
			continue
		}
		next[k] = v
	}
	if err := checkMetaSize(next); err != nil {
		return err
	}
	if err := m.db.PutNodeMeta(next); err != nil {
		return fmt.Errorf("store node metadata: %w", err)
	}
	m.mu.Lock()
	m.dynamic = next
	m.mu.Unlock()
	publish(merge(m.static, next))
	return nil
}

// checkMeta returns an error for a request without keys, or with keys that a constraint cannot
// contain.
func checkMeta(changes map[string]*string) error {
	if len(changes) == 0 {
		return apierror.Errorf(http.StatusBadRequest, "missing required Meta object: set at least one key")
	}
	for k := range changes {
		for part := range strings.SplitSeq(k, ".") {
			if !hclsyntax.ValidIdentifier(part) {
				return apierror.Errorf(http.StatusBadRequest, "%q is invalid: metadata keys must be valid dotted hcl identifiers", k)
			}
		}
	}
	return nil
}

func checkMetaSize(dynamic map[string]*string) error {
	size := 0
	for k, v := range dynamic {
		if size += len(k); v != nil {
			size += len(*v)
		}
	}
	if len(dynamic) > maxMetaKeys || size > maxMetaBytes {
		return apierror.Errorf(http.StatusBadRequest, "the node would have %d keys with %d bytes of dynamic metadata: "+
			"at most %d keys and %d bytes are allowed, so unset some", len(dynamic), size, maxMetaKeys, maxMetaBytes)
	}
	return nil
}
