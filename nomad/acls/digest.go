package acls

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"maps"
	"slices"
)

// digest is a hash over fields, each with its length before it: what is in one field is
// never taken for a part of the next.
type digest struct{ h hash.Hash }

// newDigest begins the digest of a kind of object.
func newDigest(kind string) digest { return digest{sha256.New()}.text(kind) }

func (d digest) text(fields ...string) digest {
	for _, f := range fields {
		d.h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(f)))) // a hash never fails
		d.h.Write([]byte(f))
	}
	return d
}

func (d digest) number(n int64) digest {
	d.h.Write(binary.BigEndian.AppendUint64(nil, uint64(n)))
	return d
}

func (d digest) flag(b bool) digest {
	if b {
		return d.number(1)
	}
	return d.number(0)
}

// list adds how many texts there are, then each.
func (d digest) list(texts []string) digest { return d.number(int64(len(texts))).text(texts...) }

func (d digest) pairs(m map[string]string) digest {
	d.number(int64(len(m)))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		d.text(k, m[k])
	}
	return d
}

func (d digest) sum() []byte { return d.h.Sum(nil) }
