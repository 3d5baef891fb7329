package csi

import (
	"fmt"
	"maps"
	"strings"
	"unicode"

	spec "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/open-nomad/open-nomad/nomad"
)

// The limits of answers. The specification limits a string to 128 bytes, a node ID to 256, and a map to 4 KiB. Plugins of cloud
// providers have longer IDs, so they may have more here.
const (
	maxString     = 128
	maxID         = 1 << 10
	maxToken      = 4 << 10
	maxMap        = 4 << 10
	maxTopologies = 256
	maxEntries    = 20_000 // of a list
	maxPublished  = 4_096  // nodes of a listed volume
)

// invalidAnswer is an answer that violates the specification or a limit.
type invalidAnswer struct{ text string }

func (e *invalidAnswer) Error() string { return e.text }

func invalidf(format string, args ...any) error { return &invalidAnswer{fmt.Sprintf(format, args...)} }

// checkID checks a required ID.
func checkID(what, id string) error {
	if id == "" {
		return invalidf("%s is empty", what)
	}
	return checkText(what, id, maxID)
}

// checkText checks that a string has at most limit bytes, and no control characters.
func checkText(what, text string, limit int) error {
	if len(text) > limit {
		return invalidf("%s has %d bytes, at most %d are allowed", what, len(text), limit)
	}
	if strings.ContainsFunc(text, unicode.IsControl) {
		return invalidf("%s has control characters", what)
	}
	return nil
}

// checkMap checks the size of a map.
func checkMap(what string, m map[string]string) error {
	size := 0
	for key, value := range m {
		size += len(key) + len(value)
	}
	if size > maxMap {
		return invalidf("%s has %d bytes, at most %d are allowed", what, size, maxMap)
	}
	return nil
}

// checkBytes checks a size of a volume or snapshot.
func checkBytes(what string, n int64) error {
	if n < 0 {
		return invalidf("%s is %d, which is negative", what, n)
	}
	return nil
}

// topology returns a topology of an answer, or nil for one without segments.
func topology(t *spec.Topology) (*nomad.CSITopology, error) {
	if len(t.GetSegments()) == 0 {
		return nil, nil
	}
	if err := checkMap("the segments of a topology", t.GetSegments()); err != nil {
		return nil, err
	}
	for key, value := range t.GetSegments() {
		if key == "" {
			return nil, invalidf("a topology has a segment without a name")
		}
		if err := checkText("a segment of a topology", key+value, maxMap); err != nil {
			return nil, err
		}
	}
	return &nomad.CSITopology{Segments: maps.Clone(t.GetSegments())}, nil
}

// topologies returns the topologies of an answer that have segments.
func topologies(list []*spec.Topology) ([]*nomad.CSITopology, error) {
	if len(list) > maxTopologies {
		return nil, invalidf("it has %d topologies, at most %d are allowed", len(list), maxTopologies)
	}
	var out []*nomad.CSITopology
	for _, t := range list {
		got, err := topology(t)
		if err != nil {
			return nil, err
		}
		if got != nil {
			out = append(out, got)
		}
	}
	return out, nil
}
