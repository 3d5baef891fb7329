package rbac

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"maps"
	"slices"
)

// digest is a hash over fields. The length precedes each field, so that field boundaries are unambiguous.
type digest struct{ h hash.Hash }

// newDigest starts the digest of an object of the given kind.
func newDigest(kind string) digest { return digest{sha256.New()}.text(kind) }

func (d digest) text(fields ...string) digest {
	for _, f := range fields {
		d.h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(f)))) // a hash never returns an error
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

// list adds the number of strings, then each string.
func (d digest) list(texts []string) digest { return d.number(int64(len(texts))).text(texts...) }

func (d digest) pairs(m map[string]string) digest {
	d.number(int64(len(m)))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		d.text(k, m[k])
	}
	return d
}

func (d digest) sum() []byte { return d.h.Sum(nil) }
