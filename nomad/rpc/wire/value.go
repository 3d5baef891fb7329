package wire

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
)

// Limits for one msgpack value.
const (
	MaxHeader  = 64 << 10
	MaxRequest = 64 << 20 // a request: more than limits.http_max_request_body
	maxReply   = 1 << 30  // a reply of a server that this agent called
	ReadStep   = 64 << 10 // maximum allocation beyond the bytes that have arrived
	// One byte can encode an empty container or nil, and decode to a struct of several hundred
	// bytes. A value may hold one container per this many permitted bytes.
	bytesPerContainer = 64
	bytesPerNil       = 16
)

var (
	// ErrBadValue means that the peer sent an invalid or oversized value. The connection itself works.
	ErrBadValue = errors.New("rpc: bad message")
	// ErrTooLarge is the ErrBadValue of a value beyond the limits.
	ErrTooLarge = fmt.Errorf("%w: too large", ErrBadValue)
)

// ReadValue reads exactly one msgpack value from r into buf[:0], within the limits of in. It
// allocates memory only for bytes that have arrived, and it does not recurse.
func ReadValue(r *bufio.Reader, buf []byte, in *Intake) ([]byte, error) {
	buf = buf[:0]
	limit := in.Limit
	for pending := uint64(1); pending > 0; pending-- {
		if err := in.pay(len(buf)); err != nil {
			return buf, err
		}
		c, err := r.ReadByte()
		if err != nil {
			return buf, midway(err, len(buf))
		}
		buf = append(buf, c)
		size, raw, items := shape(c)
		if size < 0 {
			return buf, fmt.Errorf("%w: byte %#x does not begin a msgpack value", ErrBadValue, c)
		}
		in.values++
		if items > 0 {
			in.containers++
		} else if c == 0xc0 {
			in.nils++
		}
		if in.containers > limit/bytesPerContainer || in.nils > limit/bytesPerNil {
			return buf, ErrTooLarge
		}
		if size > 0 {
			if buf, err = readN(r, buf, uint64(size), in); err != nil {
				return buf, err
			}
			n := number(buf[len(buf)-size:])
			switch {
			case raw:
				if c >= 0xc7 && c <= 0xc9 {
					n++ // the type byte of an ext
				}
				buf, err = readN(r, buf, n, in)
			case items > 0:
				pending, err = grow(pending, n*items, limit)
			}
		} else if raw || items > 0 {
			n := fixed(c)
			if raw {
				buf, err = readN(r, buf, n, in)
			} else {
				pending, err = grow(pending, n, limit)
			}
		}
		if err != nil {
			return buf, err
		}
	}
	return buf, nil
}

// shape describes the value that begins with byte c. size is the number of bytes of length or
// number that follow, or -1 for an invalid byte. raw reports whether as many raw bytes as the
// length follow. items is the number of values per element of the length.
func shape(c byte) (size int, raw bool, items uint64) {
	switch {
	case c <= 0x7f, c >= 0xe0, c == 0xc0, c == 0xc2, c == 0xc3:
		return 0, false, 0
	case c <= 0x9f: // fixmap, fixarray: fixed returns the count
		return 0, false, 1
	case c <= 0xbf, c >= 0xd4 && c <= 0xd8: // fixstr, fixext
		return 0, true, 0
	}
	switch c {
	case 0xc4, 0xd9, 0xc7: // bin8, str8, ext8
		return 1, true, 0
	case 0xc5, 0xda, 0xc8:
		return 2, true, 0
	case 0xc6, 0xdb, 0xc9:
		return 4, true, 0
	case 0xcc, 0xd0:
		return 1, false, 0
	case 0xcd, 0xd1:
		return 2, false, 0
	case 0xca, 0xce, 0xd2:
		return 4, false, 0
	case 0xcb, 0xcf, 0xd3:
		return 8, false, 0
	case 0xdc:
		return 2, false, 1
	case 0xdd:
		return 4, false, 1
	case 0xde:
		return 2, false, 2
	case 0xdf:
		return 4, false, 2
	}
	return -1, false, 0
}

// fixed returns the length that is encoded in the first byte.
func fixed(c byte) uint64 {
	switch {
	case c >= 0xd4: // fixext 1, 2, 4, 8, 16 and their type byte
		return 1<<(c-0xd4) + 1
	case c >= 0xa0:
		return uint64(c & 0x1f)
	case c >= 0x90:
		return uint64(c & 0x0f)
	}
	return 2 * uint64(c&0x0f)
}

// number reads a big endian number of up to eight bytes.
func number(b []byte) (n uint64) {
	for _, c := range b {
		n = n<<8 | uint64(c)
	}
	return n
}

// grow adds n values to the number of outstanding values. Each takes at least one byte.
func grow(pending, n uint64, limit int) (uint64, error) {
	if n > uint64(limit) || pending > uint64(limit) {
		return 0, ErrTooLarge
	}
	return pending + n, nil
}

// readN appends the next n bytes of r to buf in steps.
func readN(r *bufio.Reader, buf []byte, n uint64, in *Intake) ([]byte, error) {
	if n > math.MaxInt32 || len(buf)+int(n) > in.Limit {
		return buf, ErrTooLarge
	}
	for left := int(n); left > 0; {
		at := len(buf)
		step := min(left, max(ReadStep, at))
		if err := in.pay(at + step); err != nil {
			return buf, err
		}
		if cap(buf)-at < step {
			buf = append(buf, make([]byte, step)...)
		} else {
			buf = buf[:at+step]
		}
		got, err := io.ReadFull(r, buf[at:])
		buf = buf[:at+got]
		if err != nil {
			return buf, midway(err, 1)
		}
		left -= got
	}
	return buf, nil
}

// midway converts an end of the stream inside a value into a separate error.
func midway(err error, have int) error {
	if err == io.EOF && have > 0 {
		return io.ErrUnexpectedEOF
	}
	return err
}
