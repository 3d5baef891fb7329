package web

import (
	"errors"
	"io"
)

// maxObjects bounds the objects and arrays decoded from a body. A short text can decode to large
// objects: "{}" is two bytes, and the task it decodes to is several thousand.
const maxObjects = 100_000

var errTooManyObjects = errors.New("too many objects")

// objectCounter fails the reading of JSON that contains too many objects and arrays.
type objectCounter struct {
	in      io.Reader
	left    int
	text    bool // inside a string
	escaped bool // after a backslash in a string
}

// Read implements io.Reader. It counts the objects and arrays in the data.
func (c *objectCounter) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	for _, b := range p[:n] {
		switch {
		case c.escaped:
			c.escaped = false
		case c.text:
			c.escaped = b == '\\'
			c.text = b != '"'
		case b == '"':
			c.text = true
		case b == '{' || b == '[':
			c.left--
		}
	}
	if c.left < 0 {
		return 0, errTooManyObjects
	}
	return n, err
}
