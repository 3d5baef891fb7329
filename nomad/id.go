package nomad

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"strings"
)

// NamespacedID identifies an object in a namespace.
type NamespacedID struct{ ID, Namespace string }

// String returns "<namespace>/<id>".
func (n NamespacedID) String() string { return n.Namespace + "/" + n.ID }

// NewID returns a random version 4 UUID (RFC 9562) in lower case. The FSM never calls it.
func NewID() string {
	var b [16]byte
	rand.Read(b[:]) // does not fail: crypto/rand aborts the process instead
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	var h [32]byte
	hex.Encode(h[:], b[:])
	return string(h[:8]) + "-" + string(h[8:12]) + "-" + string(h[12:16]) + "-" + string(h[16:20]) + "-" + string(h[20:])
}

// IsUUID reports whether s has the form of a UUID: 36 hex digits and dashes.
func IsUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i, c := range s {
		switch {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return false
			}
		case c >= '0' && c <= '9', c >= 'a' && c <= 'f', c >= 'A' && c <= 'F':
		default:
			return false
		}
	}
	return true
}

// AllocName returns "<job>.<group>[<index>]".
func AllocName(job, group string, index uint) string {
	return job + "." + group + "[" + strconv.FormatUint(uint64(index), 10) + "]"
}

// AllocIndexFromName returns the number in the brackets of an allocation name, or -1 if there is none.
func AllocIndexFromName(name string) int {
	open := strings.LastIndexByte(name, '[')
	if open < 0 || !strings.HasSuffix(name, "]") {
		return -1
	}
	n, err := strconv.Atoi(name[open+1 : len(name)-1])
	if err != nil {
		return -1
	}
	return n
}
