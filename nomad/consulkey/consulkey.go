// Package consulkey maps the keys of Consul's key-value store to the paths of variables, and back (open-nomad only).
//
// It is internal/consulkey, which has the format, with errors of status 400. The package keeps no state and starts no
// goroutine.
package consulkey

import (
	"github.com/open-nomad/open-nomad/internal/consulkey"
	"github.com/open-nomad/open-nomad/nomad/apierror"
)

const (
	// Root is the beginning of the paths of all keys. Workloads may read the variables below it if the region uses no
	// Consul cluster.
	Root = consulkey.Root
	// Item is the name of the only item of a variable. It has the value of the key.
	Item = consulkey.Item
)

// Path returns the path of the variable of a key. A key without a path gets an error that names it: the empty key, one
// with an empty segment, such as a folder ("a/"), and one whose path is too long.
func Path(key string) (string, error) {
	path, err := consulkey.Path(key)
	return path, invalid(err)
}

// Prefix returns the prefix of the paths of the keys that begin with the given text, which may be empty or end with a
// slash. A prefix that no key can have gets an error that names it.
func Prefix(keys string) (string, error) {
	prefix, err := consulkey.Prefix(keys)
	return prefix, invalid(err)
}

// Key returns the key of a variable path. It reports false for a path that Path never returns.
func Key(path string) (string, bool) { return consulkey.Key(path) }

// invalid gives an error its status.
func invalid(err error) error {
	if err == nil {
		return nil
	}
	return apierror.Errorf(400, "%v", err)
}
