package jobrules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/catalog"
)

// addedMeta is the number of pairs that each registration has besides those of the job: external-source.
const addedMeta = 1

// declared checks the tags, the meta and the tagged addresses of a service, and those of its canaries. The servers refuse
// a registration with other text, and its client could only log that. A variable counts as one character.
func declared(f *faults, s *nomad.Service) {
	tagged := map[string]catalog.TaggedAddress{}
	for _, name := range slices.Sorted(maps.Keys(s.TaggedAddresses)) {
		address := s.TaggedAddresses[name]
		if !strings.Contains(address, "${") { // else the client resolves it
			if _, err := catalog.ParseTagged(address, 0); err != nil {
				f.add("the tagged address %.150q: %v", name, err)
			}
		}
		tagged[distinct(tagged, fixed(name))] = catalog.TaggedAddress{Address: fixed(address)}
	}
	if err := checkText(s.Tags, s.Meta, tagged); err != nil {
		f.add("%v", err)
	}
	if err := checkText(s.CanaryTags, s.CanaryMeta, nil); err != nil {
		f.add("of canaries: %v", err)
	}
}

// checkText returns an error if the servers would refuse a registration with the text.
func checkText(tags []string, pairs map[string]string, tagged map[string]catalog.TaggedAddress) error {
	if n := len(pairs); n > catalog.MaxMeta-addedMeta {
		return fmt.Errorf("meta has %d pairs: at most %d, because each registration has one more", n, catalog.MaxMeta-addedMeta)
	}
	r := catalog.Registration{Meta: map[string]string{}, TaggedAddresses: tagged}
	for _, tag := range tags {
		r.Tags = append(r.Tags, fixed(tag))
	}
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		r.Meta[distinct(r.Meta, fixed(key))] = fixed(pairs[key])
	}
	return r.CheckDeclared()
}

// fixed returns a text whose variables are one character each: what they become is unknown here.
func fixed(text string) string { return variable().ReplaceAllString(text, "x") }

// distinct returns a key that the map does not have: the given one, or a longer one if two keys with variables are alike.
func distinct[V any](m map[string]V, key string) string {
	for _, ok := m[key]; ok; _, ok = m[key] {
		key += "x"
	}
	return key
}
