package jobrules

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
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
		if why := badAddress(address); why != "" {
			f.add("the tagged address %.150q is %.150q: it must be %s", name, address, why)
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

// badAddress returns what a tagged address must be, "" if it is valid.
func badAddress(text string) string {
	if strings.Contains(text, "${") {
		return "" // the client resolves it
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		if _, err := netip.ParseAddr(text); err != nil {
			return "an IP address, or a host with a port"
		}
		return ""
	}
	if n, err := strconv.Atoi(port); !catalog.Word(host) || err != nil || n < 1 || n > 65535 {
		return "an IP address or a DNS name, with a port of 1 to 65535"
	}
	return ""
}

// fixed returns a text whose variables are one character each: what they become is unknown here.
func fixed(text string) string { return variable.ReplaceAllString(text, "x") }

// distinct returns a key that the map does not have: the given one, or a longer one if two keys with variables are alike.
func distinct[V any](m map[string]V, key string) string {
	for _, ok := m[key]; ok; _, ok = m[key] {
		key += "x"
	}
	return key
}
