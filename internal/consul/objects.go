package consul

import (
	"errors"
	"io"
)

// maxObjects limits the objects and lists of an answer. The library needs up to 700 bytes for one of two bytes, "{}". 10,000
// services have 100,000.
const maxObjects = 300_000

var errObjects = errors.New("the answer of Consul has too many objects")

// objects reads JSON until it has too many objects.
type objects struct {
	from            io.Reader
	left            int
	quoted, escaped bool // the next byte is in a string, and after a backslash
}

// Read implements io.Reader.
func (o *objects) Read(p []byte) (int, error) {
	n, err := o.from.Read(p)
	for _, b := range p[:n] {
		switch {
		case o.escaped:
			o.escaped = false
		case b == '"':
			o.quoted = !o.quoted
		case o.quoted:
			o.escaped = b == '\\'
		case b == '{' || b == '[':
			o.left--
		}
	}
	if o.left < 0 {
		return 0, errObjects
	}
	return n, err
}
