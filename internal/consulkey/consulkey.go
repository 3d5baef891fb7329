// Package consulkey maps the keys of Consul's key-value store to the paths of variables, and back (open-nomad only).
//
//	a/b.c  ──Path──▶  consul/a/b~2Ec  ──Key──▶  a/b.c
//
// The value of the key is the item Item of the variable. A path consists of letters, digits, '-', '_', '~' and '/'.
// Every other byte of a key, and '~', is written as '~' and two upper-case hex digits. A byte has one form only, so that
// two keys never have the same path, and the encoding of a prefix is a prefix of the encoding.
//
// The package keeps no state and starts no goroutine.
package consulkey

import (
	"errors"
	"fmt"
	"strings"
)

const (
	// Root is the beginning of the paths of all keys.
	Root = "consul/"
	// Item is the name of the only item of a variable. It has the value of the key.
	Item = "value"
)

// maxPath is the maximum number of bytes of a variable path: see CheckPath of package nomad/variable.
const maxPath = 128

// Path returns the path of the variable of a key. A key without a path gets an error that names it: the empty key, one
// with an empty segment, such as a folder ("a/"), and one whose path is too long.
func Path(key string) (string, error) {
	switch {
	case key == "":
		return "", errors.New("the key is empty")
	case strings.HasPrefix(key, "/"):
		return "", fmt.Errorf("key %.300q begins with a slash: remove it", key)
	case strings.HasSuffix(key, "/"):
		return "", fmt.Errorf("key %.300q is a folder, because it ends with a slash: name a key in it", key)
	case strings.Contains(key, "//"):
		return "", fmt.Errorf("key %.300q has an empty segment: use one slash between two segments", key)
	}
	path := Root + escape(key)
	if len(path) > maxPath {
		return "", fmt.Errorf("key %.300q is too long: its variable path has %d bytes, and the limit is %d", key, len(path), maxPath)
	}
	return path, nil
}

// Prefix returns the prefix of the paths of the keys that begin with the given text, which may be empty or end with a
// slash. A prefix that no key can have gets an error that names it.
func Prefix(keys string) (string, error) {
	path := Root + escape(keys)
	switch {
	case strings.HasPrefix(keys, "/"), strings.Contains(keys, "//"):
		return "", fmt.Errorf("key prefix %.300q has an empty segment: use one slash between two segments, and none at the beginning", keys)
	case len(path) > maxPath:
		return "", fmt.Errorf("key prefix %.300q is too long: its variable path has %d bytes, and the limit is %d", keys, len(path), maxPath)
	}
	return path, nil
}

// Key returns the key of a variable path. It reports false for a path that Path never returns.
func Key(path string) (string, bool) {
	rest, below := strings.CutPrefix(path, Root)
	if !below {
		return "", false
	}
	key := make([]byte, 0, len(rest))
	for len(rest) > 0 {
		c, size := rest[0], 1
		if c == '~' {
			if len(rest) < 3 {
				return "", false
			}
			c, size = fromHex(rest[1])<<4|fromHex(rest[2]), 3
		}
		key, rest = append(key, c), rest[size:]
	}
	again, err := Path(string(key))
	return string(key), err == nil && again == path
}

// escape writes the bytes that a path cannot have as '~' and two hex digits.
func escape(key string) string {
	const hex = "0123456789ABCDEF"
	var path strings.Builder
	for _, c := range []byte(key) {
		if isPlain(c) {
			path.WriteByte(c)
		} else {
			path.Write([]byte{'~', hex[c>>4], hex[c&15]})
		}
	}
	return path.String()
}

// isPlain reports whether a path has the byte as it is.
func isPlain(c byte) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		return true
	}
	return c == '-' || c == '_' || c == '/'
}

// fromHex returns the value of an upper-case hex digit. For another byte the result is any value: Key compares the
// encoding of its result with the path.
func fromHex(c byte) byte {
	if c >= 'A' {
		return (c - 'A' + 10) & 15
	}
	return (c - '0') & 15
}
