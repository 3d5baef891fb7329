package web

import (
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
)

const (
	// maxRows bounds the memory of a rowCache in bytes. rowOverhead is the estimated memory of a row besides its text.
	maxRows     = 32 << 20
	rowOverhead = 256
	// rowsFor is how long a rowCache keeps rows. Deleted objects leave it then.
	rowsFor = 10 * time.Minute
	// maxListRows is the length of the longest list whose rows are cached. A longer one could replace the whole cache,
	// and a row that is not cached costs more than in a list that is encoded at once.
	maxListRows = 5000
)

// row is an element of a list that consists of stored objects and of nothing else. A stored object never changes: an
// update replaces it. So two rows with equal sources have the same JSON.
type row interface {
	// Source returns the ID of the row and a comparable value that identifies its stored objects. The source is nil
	// if another server made the row.
	Source() (nomad.NamespacedID, any)
}

// listRows returns the rows of a list whose JSON is cached, or nil for any other body and for long lists.
func listRows(body any) []row {
	switch list := body.(type) {
	case []*nomad.JobListStub:
		return asRows(list)
	case []*nomad.AllocListStub:
		return asRows(list)
	case []*nomad.NodeListStub:
		return asRows(list)
	}
	return nil
}

func asRows[T row](list []T) []row {
	if len(list) > maxListRows {
		return nil
	}
	out := make([]row, len(list))
	for i, r := range list {
		out[i] = r
	}
	return out
}

// rowCache holds the JSON of list rows. Callers read the same lists again and again, and few rows change in between.
// With the cache, 500 jobs are encoded 15 to 25 times as fast (BenchmarkList). A list without it is codec.EncodeJSON of
// its rows.
type rowCache struct {
	mu    sync.Mutex
	rows  map[nomad.NamespacedID]cachedRow
	size  int
	since time.Time
}

type cachedRow struct {
	source any
	text   []byte
}

// rowBuffers holds buffers for lists. With a new buffer for each list, the encoding takes four times as long.
var rowBuffers = sync.Pool{New: func() any { return new([]byte) }}

// withJSON passes the JSON of a list to use. The text is valid until use returns.
func (c *rowCache) withJSON(rows []row, use func(text []byte)) error {
	buf := rowBuffers.Get().(*[]byte)
	defer rowBuffers.Put(buf)
	out := append((*buf)[:0], '[')
	for _, r := range rows {
		text, err := c.text(r)
		if err != nil {
			return err
		}
		out = append(append(out, text...), ',')
	}
	if len(out) > 1 {
		out = out[:len(out)-1] // the last comma
	}
	out = append(out, ']')
	use(out)
	if *buf = out; cap(out) > maxHeld {
		*buf = nil
	}
	return nil
}

// text returns the JSON of a row.
func (c *rowCache) text(r row) ([]byte, error) {
	id, source := r.Source()
	if source == nil {
		return codec.EncodeJSON(r)
	}
	if text := c.find(id, source); text != nil {
		return text, nil
	}
	text, err := codec.EncodeJSON(r)
	if err == nil {
		c.keep(id, cachedRow{source, text}, time.Now())
	}
	return text, err
}

func (c *rowCache) find(id nomad.NamespacedID, source any) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.rows[id]; known.source == source {
		return known.text
	}
	return nil
}

func (c *rowCache) keep(id nomad.NamespacedID, made cachedRow, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rows == nil || c.size > maxRows || now.Sub(c.since) > rowsFor {
		c.rows, c.size, c.since = map[nomad.NamespacedID]cachedRow{}, 0, now
	}
	if old, known := c.rows[id]; known {
		c.size -= len(old.text) + rowOverhead
	}
	c.rows[id] = made
	c.size += len(made.text) + rowOverhead
}
