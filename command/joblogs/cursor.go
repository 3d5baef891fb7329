package joblogs

import (
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

// maxSizes is the number of files before the position whose sizes are kept.
const maxSizes = 64

// cursor is the position in a log: an offset in the rotated file n. The API counts offsets across
// all stored files, so the cursor also keeps the sizes of the files before n that it has read.
//
//	sizes[n-2]  sizes[n-1]   offset
//	├──────────┼───────────┼──────▶
//	n-2         n-1          n
//
// A stream that continues begins one byte before the position. Its first frame shows whether the
// sizes are right: a stream may begin before the position, since that data is skipped, but not
// behind it.
type cursor struct {
	begun  bool // a frame was read
	n      int
	offset int64
	sizes  map[int]int64
	verify bool // the next frame is the first of a stream that must not begin behind the position
	first  bool // the next stream begins with the oldest file
}

// reopen returns the offset from the start of the log with which to continue. verified is false
// for the start itself, which is always right.
func (c *cursor) reopen() (offset int64, verified bool) {
	if c.first {
		c.first, c.verify = false, false
		return 0, false
	}
	for _, size := range c.sizes {
		offset += size
	}
	offset = max(offset+c.offset-1, 0)
	c.verify = offset > 0
	return offset, c.verify
}

// missed corrects the offset after a stream that began behind the position: the oldest of the
// files was removed.
func (c *cursor) missed() {
	if len(c.sizes) == 0 {
		c.first = true
		return
	}
	delete(c.sizes, slices.Min(slices.Collect(maps.Keys(c.sizes))))
}

// take moves the position behind a frame and returns the data that was not returned before. ok is
// false if the stream began behind the position.
func (c *cursor) take(f *api.StreamFrame) (data []byte, ok bool) {
	n, numbered := fileNumber(f.File)
	if len(f.Data) == 0 || !numbered {
		return f.Data, true
	}
	from := f.Offset - int64(len(f.Data))
	verify := c.verify
	c.verify = false
	switch {
	case !c.begun:
		c.begun, c.n, c.offset = true, n, f.Offset
		return f.Data, true
	case verify && (n > c.n || n == c.n && from > c.offset):
		return nil, false
	case n < c.n:
		c.keep(n, f.Offset)
		return nil, true
	case n == c.n:
		skip := min(max(c.offset-from, 0), int64(len(f.Data)))
		c.offset = max(c.offset, f.Offset)
		return f.Data[skip:], true
	}
	c.keep(c.n, c.offset)
	c.n, c.offset = n, f.Offset
	return f.Data, true
}

// keep records the size of a file before the position.
func (c *cursor) keep(n int, size int64) {
	if c.sizes == nil {
		c.sizes = map[int]int64{}
	}
	c.sizes[n] = size
	if len(c.sizes) > maxSizes {
		delete(c.sizes, slices.Min(slices.Collect(maps.Keys(c.sizes))))
	}
}

// fileNumber returns the number at the end of the name of a rotated file.
func fileNumber(name string) (n int, ok bool) {
	n, err := strconv.Atoi(strings.TrimPrefix(path.Ext(name), "."))
	return n, err == nil
}
