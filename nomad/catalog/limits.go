package catalog

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/open-nomad/open-nomad/internal/pattern"
)

// Limits of a registration, after interpolation. Those of Meta are the ones of Consul. Servers and clients have the same.
const (
	MaxMeta       = 64  // pairs
	MaxMetaKey    = 128 // bytes
	MaxMetaValue  = 512 // bytes
	MaxTagged     = 64  // tagged addresses
	MaxTaggedName = 128 // bytes
	MaxChecks     = 64  // checks with their state; the status of a registration counts all
	MaxCheckName  = 128 // bytes of the name of a Check that a client sends
	MaxSize       = 64 << 10

	// MaxDeclared is what remains of MaxSize for the tags, the meta and the tagged addresses when MaxChecks checks have
	// the longest names and outputs.
	MaxDeclared = MaxSize / 2
)

// CheckDeclared returns an error if what a job declares for the registration is too much text, or not plain text.
func (r *Registration) CheckDeclared() error {
	if err := r.CheckText(); err != nil {
		return err
	}
	if size := r.DeclaredSize(); size > MaxDeclared {
		return fmt.Errorf("tags, meta and tagged_addresses have %d bytes: at most %d", size, MaxDeclared)
	}
	return nil
}

// DeclaredSize returns the size of the tags, the meta and the tagged addresses.
func (r *Registration) DeclaredSize() int {
	size := 0
	for _, tag := range r.Tags {
		size += len(tag)
	}
	for key, value := range r.Meta {
		size += len(key) + len(value)
	}
	for name, addr := range r.TaggedAddresses {
		size += len(name) + len(addr.Address)
	}
	return size
}

// CheckText returns an error if the tags, the meta or the tagged addresses are not plain text. Templates and answers of
// DNS contain it.
func (r *Registration) CheckText() error {
	for i, tag := range r.Tags {
		if !Line(tag) {
			return fmt.Errorf("tag %d has control characters", i+1) // the client logs it, and the text may be a secret
		}
	}
	if n := len(r.Meta); n > MaxMeta {
		return fmt.Errorf("meta has %d pairs: at most %d", n, MaxMeta)
	}
	for key, value := range r.Meta {
		switch {
		case !Word(key) || len(key) > MaxMetaKey:
			return fmt.Errorf("meta has the key %.150q: want 1 to %d bytes without spaces", key, MaxMetaKey)
		case !Line(value) || len(value) > MaxMetaValue:
			return fmt.Errorf("the value of %q in meta must be one line of at most %d bytes", key, MaxMetaValue)
		}
	}
	if n := len(r.TaggedAddresses); n > MaxTagged {
		return fmt.Errorf("tagged_addresses has %d addresses: at most %d", n, MaxTagged)
	}
	for name, addr := range r.TaggedAddresses {
		switch {
		case !Word(name) || len(name) > MaxTaggedName:
			return fmt.Errorf("tagged_addresses has the name %.150q: want 1 to %d bytes without spaces", name, MaxTaggedName)
		case !Word(addr.Address) || len(addr.Address) > MaxHost:
			return fmt.Errorf("the tagged address %.150q must have 1 to %d bytes without spaces", name, MaxHost)
		case addr.Port < 0 || addr.Port > 65535:
			return fmt.Errorf("the tagged address %.150q has the port %d: want 0 to 65535", name, addr.Port)
		}
	}
	return nil
}

var serviceName = pattern.Lazy(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)

// ServiceName reports whether an interpolated name of a service is valid: a DNS label.
func ServiceName(name string) bool { return serviceName().MatchString(name) }

// consulName matches an interpolated name of a service of Consul.
var consulName = pattern.Lazy(`^[A-Za-z0-9._-]{1,256}$`)

// ConsulName reports whether an interpolated name of a service of Consul is valid. The name is a part of IDs, which are in
// paths of Consul's API, and of the claims of identities.
func ConsulName(name string) bool { return consulName().MatchString(name) }

// Line reports whether the text has no control characters.
func Line(text string) bool { return !strings.ContainsFunc(text, unicode.IsControl) }

// Word reports whether the text is not empty and has neither spaces nor control characters.
func Word(text string) bool {
	return text != "" && Line(text) && !strings.ContainsFunc(text, unicode.IsSpace)
}
