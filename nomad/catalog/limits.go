package catalog

import "fmt"

// Limits of what a job declares for a registration, after interpolation. Those of Meta are the ones of Consul.
const (
	MaxMeta            = 64  // pairs
	MaxMetaKey         = 128 // bytes
	MaxMetaValue       = 512 // bytes
	MaxTaggedAddresses = 32
	MaxText            = 64 << 10 // bytes of the tags, the meta and the tagged addresses
	MaxChecks          = 64       // checks with their state; the status of a registration counts all
	MaxCheckName       = 128      // bytes of the name of a Check
)

// CheckSize returns an error if what the job declares for the registration is too much text.
func (r *Registration) CheckSize() error {
	if n := len(r.Meta); n > MaxMeta {
		return fmt.Errorf("meta has %d pairs: at most %d", n, MaxMeta)
	}
	if n := len(r.TaggedAddresses); n > MaxTaggedAddresses {
		return fmt.Errorf("tagged_addresses has %d addresses: at most %d", n, MaxTaggedAddresses)
	}
	total := 0
	for _, tag := range r.Tags {
		total += len(tag)
	}
	for key, value := range r.Meta {
		if len(key) > MaxMetaKey || len(value) > MaxMetaValue {
			return fmt.Errorf("meta has a pair with a key of %d bytes and a value of %d: at most %d and %d", len(key), len(value),
				MaxMetaKey, MaxMetaValue)
		}
		total += len(key) + len(value)
	}
	for name, addr := range r.TaggedAddresses {
		total += len(name) + len(addr.Address)
	}
	if total > MaxText {
		return fmt.Errorf("tags, meta and tagged_addresses have %d bytes: at most %d", total, MaxText)
	}
	return nil
}
