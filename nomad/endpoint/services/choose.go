package services

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/catalog"
)

// parseChoice parses "<count>|<key>" and returns a function that chooses from registrations. Callers with different
// keys get different registrations, and each gets the same ones as long as these exist. An empty text chooses all.
func parseChoice(text string) (func([]*catalog.Registration) []*catalog.Registration, error) {
	if text == "" {
		return func(all []*catalog.Registration) []*catalog.Registration { return all }, nil
	}
	count, key, ok := strings.Cut(text, "|")
	n, err := strconv.Atoi(count)
	if !ok || strings.Contains(key, "|") || err != nil || n < 0 {
		return nil, apierror.Errorf(400, "failed to choose services: invalid value %q: want <count>|<key>", text)
	}
	return func(all []*catalog.Registration) []*catalog.Registration { return choose(all, n, key) }, nil
}

// choose returns the n registrations with the lowest hash for the key, in the order of their hashes.
func choose(all []*catalog.Registration, n int, key string) []*catalog.Registration {
	hashes := make(map[*catalog.Registration]string, len(all))
	for _, r := range all {
		hashes[r] = hashFor(r, key)
	}
	sorted := slices.Clone(all)
	slices.SortFunc(sorted, func(a, b *catalog.Registration) int { return cmp.Compare(hashes[a], hashes[b]) })
	return sorted[:min(n, len(sorted))]
}

// hashFor returns the hash of a registration for a key. All servers compute the same one, also those of Nomad 2.0.
func hashFor(r *catalog.Registration, key string) string {
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(r.Port)))
	for _, text := range []string{r.AllocID, r.ID, r.Namespace, r.Address, r.ServiceName} {
		_, _ = io.WriteString(h, text) // a hash never fails
	}
	for _, tag := range r.Tags {
		_, _ = io.WriteString(h, tag)
	}
	_, _ = io.WriteString(h, key)
	return hex.EncodeToString(h.Sum(nil))
}
