package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
)

// Numbers of bbolt's file format, version 2.
const (
	boltMagic     = 0xED0CDAED
	boltVersion   = 2
	metaLen       = 64 // after the page header
	pageHeader    = 16
	element       = 16 // branch and leaf elements alike
	bucketHeader  = 16
	flagBranch    = 0x01
	flagLeaf      = 0x02
	flagFreelist  = 0x10
	leafIsBucket  = 0x01
	noFreelist    = ^uint64(0)
	manyFreePages = 0xFFFF // the count is in the first element
)

// walker reads the pages of a bbolt file without trusting any number in it. What
// it has found sound, bbolt can read: bbolt itself trusts them, and loops, panics
// or faults on a damaged file.
type walker struct {
	file []byte
	size uint64          // of a page
	seen map[uint64]bool // pages that something refers to
}

// walk looks at everything that the newest meta page of file leads to.
func walk(file []byte, pageSize int) error {
	w := &walker{file: file, size: uint64(pageSize), seen: map[uint64]bool{0: true, 1: true}}
	meta, err := w.meta()
	if err != nil {
		return err
	}
	if pages := binary.LittleEndian.Uint64(meta[40:]); pages > uint64(len(file))/w.size {
		return fmt.Errorf("it has %d bytes, not %d pages", len(file), pages)
	}
	if err := w.tree(binary.LittleEndian.Uint64(meta[16:]), bounds{}); err != nil {
		return err
	}
	if id := binary.LittleEndian.Uint64(meta[32:]); id != noFreelist {
		return w.freelist(id)
	}
	return nil
}

// meta returns the newest sound meta page.
func (w *walker) meta() ([]byte, error) {
	var best []byte
	for at := uint64(0); at < 2*w.size && at+w.size <= uint64(len(w.file)); at += w.size {
		m := w.file[at+pageHeader : at+pageHeader+metaLen]
		sum := fnv.New64a()
		sum.Write(m[:metaLen-8]) //nolint:errcheck // a hash takes everything
		switch {
		case binary.LittleEndian.Uint32(m) != boltMagic, binary.LittleEndian.Uint32(m[4:]) != boltVersion,
			binary.LittleEndian.Uint64(m[metaLen-8:]) != sum.Sum64():
		case best == nil || binary.LittleEndian.Uint64(m[48:]) > binary.LittleEndian.Uint64(best[48:]):
			best = m
		}
	}
	if best == nil {
		return nil, errors.New("no meta page is sound")
	}
	return best, nil
}

// page returns a page with those that it runs over to, each of which only one
// thing may refer to.
func (w *walker) page(id uint64) ([]byte, error) {
	pages := uint64(len(w.file)) / w.size
	if id >= pages {
		return nil, fmt.Errorf("page %d is beyond its end", id)
	}
	at := id * w.size
	over := uint64(binary.LittleEndian.Uint32(w.file[at+12:]))
	if got := binary.LittleEndian.Uint64(w.file[at:]); got != id || id+over >= pages {
		return nil, fmt.Errorf("page %d says that it is %d and %d more", id, got, over)
	}
	for i := id; i <= id+over; i++ {
		if w.seen[i] {
			return nil, fmt.Errorf("page %d is used twice", i)
		}
		w.seen[i] = true
	}
	return w.file[at : at+(1+over)*w.size], nil
}

// bounds are those of the keys of a page, as the page above tells them; nil means none.
type bounds struct{ from, to []byte }

func (b bounds) hold(key []byte) bool {
	return bytes.Compare(key, b.from) >= 0 && (b.to == nil || bytes.Compare(key, b.to) < 0)
}

// tree looks at a page of a bucket and all below it.
func (w *walker) tree(id uint64, within bounds) error {
	p, err := w.page(id)
	if err != nil {
		return err
	}
	if binary.LittleEndian.Uint16(p[8:]) == flagBranch {
		err = w.branch(p, within)
	} else {
		err = w.leaf(p, within)
	}
	if err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

// count returns the number of elements of a page of a kind.
func count(p []byte, kind uint16) (int, error) {
	flags, n := binary.LittleEndian.Uint16(p[8:]), int(binary.LittleEndian.Uint16(p[10:]))
	if flags != kind || pageHeader+n*element > len(p) {
		return 0, fmt.Errorf("%d elements of kind %#x", n, flags)
	}
	return n, nil
}

// branch looks at a page that leads to others.
func (w *walker) branch(p []byte, within bounds) error {
	n, err := count(p, flagBranch)
	if err != nil {
		return err
	}
	if n == 0 {
		return errors.New("a branch without pages")
	}
	keys := make([][]byte, n)
	for i := range n {
		e := p[pageHeader+i*element:]
		if keys[i], err = cut(e, binary.LittleEndian.Uint32(e), binary.LittleEndian.Uint32(e[4:])); err != nil {
			return err
		}
		if !within.hold(keys[i]) || i > 0 && bytes.Compare(keys[i-1], keys[i]) >= 0 {
			return errKeys
		}
	}
	for i := range n {
		below := bounds{from: keys[i], to: within.to}
		if i+1 < n {
			below.to = keys[i+1]
		}
		if err := w.tree(binary.LittleEndian.Uint64(p[pageHeader+i*element+8:]), below); err != nil {
			return err
		}
	}
	return nil
}

// errKeys says that keys are where no search would find them.
var errKeys = errors.New("keys are not in order")

// leaf looks at a page of keys and values; it may be within another.
func (w *walker) leaf(p []byte, within bounds) error {
	n, err := count(p, flagLeaf)
	if err != nil {
		return err
	}
	var last []byte
	for i := range n {
		e := p[pageHeader+i*element:]
		pos := binary.LittleEndian.Uint32(e[4:])
		key, err := cut(e, pos, binary.LittleEndian.Uint32(e[8:]))
		if err != nil {
			return err
		}
		value, err := cut(e[int(pos)+len(key):], 0, binary.LittleEndian.Uint32(e[12:]))
		if err != nil {
			return err
		}
		if len(key) == 0 || !within.hold(key) || i > 0 && bytes.Compare(last, key) >= 0 {
			return errKeys
		}
		last = key
		if binary.LittleEndian.Uint32(e)&leafIsBucket == 0 {
			continue
		}
		if err := w.bucket(value); err != nil {
			return fmt.Errorf("bucket %q: %w", key, err)
		}
	}
	return nil
}

// bucket looks at a bucket, which has pages of its own or is within its header's.
func (w *walker) bucket(header []byte) error {
	if len(header) < bucketHeader {
		return errors.New("no header")
	}
	if root := binary.LittleEndian.Uint64(header); root != 0 {
		return w.tree(root, bounds{})
	}
	if len(header) < bucketHeader+pageHeader {
		return errors.New("no page")
	}
	return w.leaf(header[bucketHeader:], bounds{})
}

// cut returns n bytes of b from pos on.
func cut(b []byte, pos, n uint32) ([]byte, error) {
	if uint64(pos)+uint64(n) > uint64(len(b)) {
		return nil, fmt.Errorf("%d bytes at %d of %d", n, pos, len(b))
	}
	return b[pos : uint64(pos)+uint64(n)], nil
}

// freelist looks at the list of free pages: none of them may be in use.
func (w *walker) freelist(id uint64) error {
	p, err := w.page(id)
	if err != nil {
		return err
	}
	free, ids := uint64(binary.LittleEndian.Uint16(p[10:])), p[pageHeader:]
	if free == manyFreePages {
		free, ids = binary.LittleEndian.Uint64(ids), ids[8:]
	}
	if flags := binary.LittleEndian.Uint16(p[8:]); flags != flagFreelist || free > uint64(len(ids))/8 {
		return fmt.Errorf("page %d: %d free pages, kind %#x", id, free, flags)
	}
	for i := range free {
		page := binary.LittleEndian.Uint64(ids[i*8:])
		if page >= uint64(len(w.file))/w.size || w.seen[page] {
			return fmt.Errorf("page %d is used and free", page)
		}
		w.seen[page] = true
	}
	return nil
}
